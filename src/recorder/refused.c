#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/attempt_log.h"
#include "recorder/recorder.h"
#include "recorder/late_word.h"
#include "recorder/own.h"

#define PATIENCE_NS UINT64_C(5000000000)

static void describe(const struct refusal *refusal, struct attempt *a)
{
	a->job_id = refusal->job_id;
	a->command = refusal->command;
	a->uid = geteuid();
	a->submission = refusal->submission;
	a->host = own_host(&a->arena);
	proc_boot_id(a->boot_id);
	a->runner.pid = getpid();
	if (proc_start_ticks(a->runner.pid, &a->runner.start_ticks) < 0)
		a->runner.start_ticks = U64_UNKNOWN;
	a->started_wall_ns = a->ended_wall_ns = clock_wall_ns();
	a->outcome = OUTCOME_FAILURE;
	a->reason = refusal->reason;
}

void run_record_refusal(const struct refusal *refusal)
{
	CLEANUP(attempt_release) struct attempt a;
	struct log_sender *sender = NULL;
	struct err err = ERR_INIT;
	int r = -ENOENT;

	attempt_init(&a);
	describe(refusal, &a);
	if (refusal->db_path)
		r = attempt_log_write_whole(refusal->db_path, &a, clock_boot_ns() + PATIENCE_NS,
					    refusal->is_for_other ? &sender : NULL, &err);
	if (refusal->db_path && r < 0)
		log_error("that %s could not begin is not recorded: %s", a.job_id, err.text);
	if (r < 0) { /* in memory, for a daemon */
		sender = log_sender_close(sender);
		(void)attempt_log_write_whole(NULL, &a, clock_boot_ns() + PATIENCE_NS, &sender,
					      NULL);
	}
	if (refusal->is_for_other || r < 0)
		late_word_leave(&a, sender, true);
}
