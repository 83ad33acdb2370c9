/*
 * runner_judge - what the end of a try means, for its record and for the job, in a word and in a
 * sentence.
 */
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/unknown.h"
#include "jobs/runner_internal.h"

/* What timeout(1) exits with. */
#define SHELL_STATUS_TIMEOUT 124

/* ---- words ---- */

static void add_signal_name(struct buf *out, int sig)
{
	const char *name = sigabbrev_np(sig);

	if (name)
		buf_printf(out, "SIG%s", name);
	else
		buf_printf(out, "signal %d", sig);
}

static void add_status(struct buf *out, struct exit_status status)
{
	if (status.signal >= 0) {
		buf_add_str(out, "killed by ");
		add_signal_name(out, status.signal);
	} else if (status.exit_code >= 0) {
		buf_printf(out, "exit code %d", status.exit_code);
	} else {
		buf_add_str(out, "its end was not seen");
	}
}

/* ---- a try ---- */

static bool failed_before(const struct root *a, const struct root *b)
{
	/* A failure of its own comes before one that we asked for. */
	if (a->was_told_to_end != b->was_told_to_end)
		return !a->was_told_to_end;
	return a->rank.ended_wall_ns < b->rank.ended_wall_ns;
}

/* NULL: none has failed. */
static const struct root *first_failed(const struct runner *r)
{
	const struct root *first = NULL;

	for (size_t i = 0; i < r->n_roots; i++) {
		const struct root *root = &r->roots[i];

		if (runner_is_failed(root->rank.status) && (!first || failed_before(root, first)))
			first = root;
	}
	return first;
}

/* The ranks of the try into its record; a command without ranks has none there. */
static void keep_ranks(struct runner *r)
{
	struct sheet_record *record = runner_record(r);

	if (!runner_spec(r)->is_ranked)
		return;
	record->ranks = arena_alloc(&r->arena, r->n_roots * sizeof(*record->ranks));
	if (!record->ranks)
		return;
	for (size_t i = 0; i < r->n_roots; i++)
		record->ranks[i] = r->roots[i].rank;
	record->n_ranks = r->n_roots;
}

static bool was_killed_by_others(const struct root *root)
{
	struct exit_status status = root->rank.status;
	bool is_sigkill = status.signal == SIGKILL || status.exit_code == 128 + SIGKILL;

	return is_sigkill && !root->was_told_to_end;
}

static void add_cancel(struct runner *r, struct buf *why)
{
	if (r->is_cancelled) {
		buf_add_str(why, ", as the job was cancelled");
		return;
	}
	buf_add_str(why, " after ");
	add_signal_name(why, r->cancel_signal);
	buf_add_str(why, r->terminal_interrupts ? " from the terminal" : " from outside");
}

/* The outcome of a try that failed, and the evidence for it. */
static enum outcome judge_failure(struct runner *r, const struct root *failed, struct buf *why)
{
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	enum outcome outcome = OUTCOME_FAILURE;

	if (failed->rank.rank != RANK_NONE)
		buf_printf(why, "rank %d was first: ", failed->rank.rank);
	add_status(why, failed->rank.status);
	if (r->cancel_signal) {
		add_cancel(r, why);
		return OUTCOME_CANCELLED;
	}
	if (was_killed_by_others(failed) &&
	    r->options.ops->was_oom_kill(r->options.ctx, failed->rank.pid, &evidence))
		outcome = OUTCOME_OOM;
	if (evidence.len > 0)
		buf_printf(why, "; %s", evidence.data);
	return outcome;
}

/* A time limit that was reached is the outcome, whatever the command made of SIGTERM. */
static enum outcome judge_timeout(struct runner *r, const struct root *failed, struct buf *why)
{
	buf_printf(why, "time limit of %g s reached; ", runner_spec(r)->timeout_seconds);
	add_status(why, failed ? failed->rank.status : r->roots[0].rank.status);
	return OUTCOME_TIMEOUT;
}

/* False after giving up on one that could not be ended. */
static bool all_roots_succeeded(const struct runner *r)
{
	for (size_t i = 0; i < r->n_roots; i++)
		if (r->roots[i].rank.status.exit_code != 0)
			return false;
	return true;
}

static enum outcome judge(struct runner *r, const struct root *failed, struct buf *why)
{
	if (r->stop_cause == STOP_TIMEOUT)
		return judge_timeout(r, failed, why);
	if (failed)
		return judge_failure(r, failed, why);
	if (all_roots_succeeded(r)) {
		buf_add_str(why, "exit code 0");
		return OUTCOME_SUCCESS;
	}
	buf_add_str(why, "it could not be ended, and its end was not seen");
	return OUTCOME_FAILURE;
}

const struct root *runner_last_root(const struct runner *r)
{
	const struct root *last = &r->roots[0];

	for (size_t i = 1; i < r->n_roots; i++)
		if (r->roots[i].ended_boot_ns > last->ended_boot_ns)
			last = &r->roots[i];
	return last;
}

/*
 * A try lasts until the last of its processes has ended, which may be later than its commands: the
 * CPU time that is counted was used in the time that is counted.
 */
void runner_judge_try(struct runner *r)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct sheet_record *record = runner_record(r);
	const struct root *failed = first_failed(r);
	uint64_t ended_ns = runner_last_root(r)->rank.ended_wall_ns;

	record->ended_wall_ns = u64_known(ended_ns)
					? runner_later_of(ended_ns, r->last_death_wall_ns)
					: runner_now(r);
	keep_ranks(r);
	record->status = failed ? failed->rank.status : r->roots[0].rank.status;
	record->outcome = judge(r, failed, &why);
	record->reason = runner_keep_text(r, &why);
}

/* ---- the job ---- */

static int shell_status_of(const struct runner *r, const struct sheet_record *record)
{
	int status = exit_status_to_shell(record->status);

	if (record->outcome == OUTCOME_TIMEOUT)
		return SHELL_STATUS_TIMEOUT;
	if (status > 0)
		return status;
	return r->cancel_signal ? 128 + r->cancel_signal : 1;
}

static bool has_failed(const struct runner *r)
{
	return r->result.outcome != OUTCOME_NONE && r->result.outcome != OUTCOME_SUCCESS;
}

void runner_note_result(struct runner *r, const struct sheet_record *record, bool ends_job)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;

	if (has_failed(r) && !ends_job)
		return;
	r->result.outcome = record->outcome;
	r->result.status = record->status;
	if (record->outcome == OUTCOME_SUCCESS) {
		r->result.reason = record->reason;
		return;
	}
	r->result.shell_status = shell_status_of(r, record);
	if (r->options.spec->n_sheets > 1)
		buf_printf(&why, "sheet %d%s%s%s: ", record->num, record->name ? " (" : "",
			   record->name ? record->name : "", record->name ? ")" : "");
	buf_add_str(&why, record->reason);
	r->result.reason = runner_keep_text(r, &why);
}

void runner_cancel_rest(struct runner *r)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;

	if (has_failed(r))
		return;
	if (r->is_cancelled)
		buf_add_str(&why, "the job was cancelled");
	else
		add_signal_name(&why, r->cancel_signal);
	buf_printf(&why, "%s before sheet %d was started", r->is_cancelled ? "" : " came",
		   runner_spec(r)->num);
	r->result.outcome = OUTCOME_CANCELLED;
	r->result.reason = runner_keep_text(r, &why);
	r->result.shell_status = 128 + r->cancel_signal;
}
