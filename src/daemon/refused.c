#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/daemon.h"
#include "daemon/late_word.h"
#include "daemon/own.h"
#include "daemon/upkeep.h"

#define PATIENCE_MS 5000

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

static int store_refusal(const char *db_path, struct attempt *a, struct err *err)
{
	struct store *store = NULL;
	int r = store_open_patient(db_path, STORE_WRITE, PATIENCE_MS, &store, err);

	if (r < 0)
		return r;
	upkeep_tell_set_aside(store);
	r = store_begin_attempt(store, a, err);
	if (r == 0)
		r = store_finish_attempt(store, a, NULL, 0, err);
	store_close(store);
	return r;
}

/* As the end of a run: it waits beside a database that is locked, or has no room. */
static int keep_refusal(const char *db_path, const struct attempt *a, const struct err *why)
{
	struct err err = ERR_INIT;
	int r = why->code == -EMEDIUMTYPE ? why->code : store_keep_end(db_path, a, &err);

	if (r == 0)
		log_warning("that %s could not begin is kept beside the database until that can be "
			    "written: %s",
			    a->job_id, why->text);
	else
		log_error("that %s could not begin is not recorded: %s", a->job_id, why->text);
	return r;
}

void run_record_refusal(const struct refusal *refusal)
{
	CLEANUP(attempt_release) struct attempt a;
	struct err err = ERR_INIT;
	int r = -ENOENT;

	attempt_init(&a);
	describe(refusal, &a);
	if (refusal->db_path)
		r = store_refusal(refusal->db_path, &a, &err);
	if (refusal->db_path && r < 0)
		r = keep_refusal(refusal->db_path, &a, &err);
	if (refusal->is_for_other || r < 0)
		late_word_leave(&a, true);
}
