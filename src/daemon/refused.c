#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/attempt_log.h"
#include "daemon/daemon.h"
#include "daemon/late_word.h"
#include "daemon/own.h"

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

static void describe_begin(void *ctx, struct buf *out)
{
	record_write_begin(out, ctx);
	record_write_sheets(out, NULL, 0);
}

/* ret_sender: for a daemon that does not read the folder of logs; without a database (db_path NULL)
 * the log is for such a one alone. */
static int log_refusal(const char *db_path, struct attempt *a, struct log_sender **ret_sender,
		       struct err *err)
{
	struct attempt_log *log = NULL;
	int r = attempt_log_open(db_path, a, describe_begin, a, &log, err);

	if (r == 0 && ret_sender && attempt_log_open_sender(log, ret_sender, NULL) < 0)
		*ret_sender = NULL;
	if (r == 0)
		r = attempt_log_end(log, a, clock_boot_ns() + PATIENCE_NS, err);
	attempt_log_close(log);
	return r;
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
		r = log_refusal(refusal->db_path, &a, refusal->is_for_other ? &sender : NULL, &err);
	if (refusal->db_path && r < 0)
		log_error("that %s could not begin is not recorded: %s", a.job_id, err.text);
	if (r < 0) {
		sender = log_sender_close(sender);
		(void)log_refusal(NULL, &a, &sender, NULL);
	}
	if (refusal->is_for_other || r < 0)
		late_word_leave(&a, sender, true);
}
