#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/follow/service_attached.h"

/* Of which job they were nobody knows. */
static void note_losses(struct attempt *a, const struct attached *at)
{
	uint64_t n = at->service->life.n_lost - at->n_lost_before;
	char why[128];

	if (n == 0)
		return;
	snprintf(why, sizeof(why), "up to %llu kernel events were lost: counts are lower bounds",
		 (unsigned long long)n);
	attempt_note(a, "process_spawn_count", why);
}

/* Each end comes with one more word, of all that it used: of these it did not come. */
static void note_unfinished(struct attempt *a)
{
	size_t n = 0;
	char why[128];

	for (size_t i = 0; i < a->n_processes; i++)
		n += a->processes[i].cpu_evidence != EVIDENCE_EXACT;
	if (n == 0)
		snprintf(why, sizeof(why), "some of its processes are not listed");
	else
		snprintf(
			why, sizeof(why),
			"what %zu of its %zu processes used after they were last seen was not told",
			n, a->n_processes);
	attempt_note(a, "total_cpu_seconds", why);
}

/* The kernel has these in no word on an end. */
static void note_untold(struct attempt *a)
{
	static const char *const what[] = { "syscr", "syscw", "voluntary_switches",
					    "involuntary_switches" };

	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		attempt_note(a, what[i],
			     "how many there were is told only to who waits for a process");
}

/* Each process has the most that it held, and each sample what it used. */
static void note_gpus(struct attempt *a, const struct service *s)
{
	if (s->gpus.reader && gpus_rung(s->gpus.reader))
		attempt_note(a, "gpus",
			     "of an attached job what its processes used is not added up");
	else if (s->gpus.note[0])
		attempt_note(a, "gpus", s->gpus.note);
	else if (!sources_has_gpu(s->root_fd))
		usage_set_no_gpu(&a->usage);
	else if (!s->settings.config->gpu_enabled)
		attempt_note(a, "gpus", "gpu_enabled is false in the configuration");
}

static void note_unknowns(struct attempt *a, const struct attached *at, bool has_all_ends)
{
	attempt_note(
		a, "before it was attached",
		"something else started the job: what had ended until then was not recorded, and is "
		"in none of its numbers");
	if (u64_known(a->usage.user_ns) && !has_all_ends)
		note_unfinished(a);
	attempt_note(a, "io",
		     u64_known(a->usage.rchar)
			     ? "of processes that others of the job did not wait for it is missing"
			     : "nobody waited for its processes who told us");
	note_untold(a);
	note_gpus(a, at->service);
	note_losses(a, at);
	if (at->deaths.n_unlisted > 0)
		attempt_note(a, "processes", "there were too many: some are not listed one by one");
	deaths_note_withheld(a, at->n_withheld);
	if (at->n_withheld > 0 && !at->has_all_births)
		attempt_note(a, "processes",
			     "what ended before this daemon followed the job is not in that count");
	if (at->was_gone)
		attempt_note(a, "ended",
			     "it ended while no daemon looked: when that was seen is told");
	if (attempt_log_lost(at->log) > 0)
		attempt_note(a, "history", "records could not be stored");
}

static void judge_outcome(struct attempt *a, const struct attached *at)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	bool is_known = exit_status_to_shell(at->status) >= 0;

	a->status = at->status;
	if (at->cancelled_boot_ns) {
		a->outcome = OUTCOME_CANCELLED;
		a->reason = "cancelled";
		return;
	}
	a->outcome = !is_known			 ? OUTCOME_NONE
		     : at->status.exit_code == 0 ? OUTCOME_SUCCESS
						 : OUTCOME_FAILURE;
	if (at->status.signal >= 0)
		buf_printf(&why, "signal %d", at->status.signal);
	else if (is_known)
		buf_printf(&why, "exit code %d", at->status.exit_code);
	else
		buf_add_str(&why,
			    at->was_gone ? "exit status unknown: it ended while no daemon looked"
					 : "exit status unknown: nobody waited for it who told us");
	a->reason = arena_strdup(&a->arena, why.data);
}

static bool births_are_told(const struct service *s, const struct attached *at)
{
	return at->has_all_births && s->life.life && s->life.n_lost == at->n_lost_before &&
	       attempt_log_lost(at->log) == 0 && at->deaths.n_unlisted == 0;
}

int attached_write_end(struct service *s, struct attached *at, const struct watched *job,
		       struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	bool is_told = births_are_told(s, at);
	int r;

	attempt_init(&a);
	attached_flush(at);
	r = store_take_in(s->store, err);
	if (r >= 0)
		r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, err);
	if (r < 0)
		return r;
	a.is_running = false;
	a.ended_wall_ns = at->last_death_wall_ns ? at->last_death_wall_ns : clock_wall_ns();
	judge_outcome(&a, at);
	if (deaths_merge(&at->deaths, &a) < 0)
		return err_set(err, -ENOMEM, "no memory left for the processes of %s", job->job_id);
	attached_sum_up(&a, is_told);
	a.usage.minor_faults = deaths_minor_faults(&at->deaths);
	if (at->was_gone)
		a.usage.wall_ns = U64_UNKNOWN;
	a.rungs = s->ladder.rungs;
	a.n_rungs = s->ladder.n;
	note_unknowns(&a, at, attached_has_all_ends(&a, is_told && at->n_withheld == 0));
	record_write_details(&details, &a, NULL);
	attempt_log_append(at->log, RECORD_DETAILS, &details);
	r = attempt_log_end(at->log, &a, clock_boot_ns(), err);
	if (r < 0 && r != -ETIMEDOUT) /* the disk has it later */
		return r;
	s->n_records_lost += attempt_log_lost(at->log);
	at->log = attempt_log_close(at->log);
	return 0;
}
