/*
 * why - the verdict of an attempt in a few lines. Everything in it is from the report or from its
 * caller; the cause is that of the record.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/anomaly.h"
#include "model/run_record.h"
#include "report/facts.h"
#include "report/format.h"
#include "report/page.h"
#include "report/report.h"

#define MAX_ANOMALIES 3
#define OTHERS_SHARE 10.0 /* percent of all CPUs */
#define IDLE_PERCENT 1.0  /* less CPU than that is standing still */

/* In the order of the text. */
enum part {
	PART_VERDICT,
	PART_EVIDENCE,
	PART_WHEN,
	PART_USUAL,
	PART_REASONS,
	PART_OTHERS,
	PART_CANNOT_TELL,
	PART_ANOMALY, /* the worst first */
	PART_ADVICE = PART_ANOMALY + MAX_ANOMALIES,
	N_PARTS
};

/* A label of the text, and a key of the JSON. */
static const struct {
	const char *label, *key;
} parts[N_PARTS] = {
	[PART_VERDICT] = { NULL, "verdict" },
	[PART_EVIDENCE] = { "evidence", "evidence" },
	[PART_WHEN] = { "when", NULL },
	[PART_USUAL] = { "unusual", "more_than_usual" },
	[PART_REASONS] = { "because", "reasons" },
	[PART_OTHERS] = { "others", "other_jobs" },
	[PART_CANNOT_TELL] = { "unknown", "cannot_tell" },
	[PART_ADVICE] = { "try", "advice" },
};

enum subject { SUBJECT_NONE, SUBJECT_JOB, SUBJECT_HOLDER };

/* What to try. */
static const struct {
	const char *text;
	enum subject subject; /* stands behind the text */
} advice[N_CAUSES] = {
#define MEMORY "raise the memory limit above the peak, or find what grew: proctor anomalies --job "
#define TRACE "record what it does: proctor trace PID; its processes: proctor stack "
	[CAUSE_NONE] = { "look at its own output, and at proctor report ", SUBJECT_JOB },
	[CAUSE_MEMORY] = { MEMORY, SUBJECT_JOB },
	[CAUSE_MEMORY_LIKELY] = { MEMORY, SUBJECT_JOB },
	[CAUSE_DISK_FULL] = { "make room there, then run it again", SUBJECT_NONE },
	[CAUSE_LOCK] = { "see what the holder does: proctor stack ", SUBJECT_HOLDER },
	[CAUSE_WAIT] = { "see both ends while it runs: proctor stack ", SUBJECT_JOB },
	[CAUSE_STOPPED] = { "let it go on (kill -CONT); which process: proctor stack ",
			    SUBJECT_JOB },
	[CAUSE_BUSY] = { TRACE, SUBJECT_JOB },
	[CAUSE_TIME_LIMIT] = { "raise the time limit, or record what it does while it runs: "
			       "proctor trace PID",
			       SUBJECT_NONE },
	[CAUSE_CRASH] = { "look at its core dump (coredumpctl); all that it started: "
			  "proctor report ",
			  SUBJECT_JOB },
	[CAUSE_SIGNAL] = { "find its sender, which a daemon of root records: proctor events --job ",
			   SUBJECT_JOB },
	[CAUSE_CANCELLED] = { "run it again", SUBJECT_NONE },
	[CAUSE_NOT_FOUND] = { "check the name of the command and PATH", SUBJECT_NONE },
	[CAUSE_CHILD] = { "look at its output; proctor report ", SUBJECT_JOB },
	[CAUSE_MISSING_FILE] = { "create it, or correct the path", SUBJECT_NONE },
	[CAUSE_PERMISSION] = { "see who owns it and may use it (namei -l PATH)", SUBJECT_NONE },
	[CAUSE_FILE_LIMIT] = { "raise the limit of open files (ulimit -n), or find what leaves "
			       "them open: proctor report ",
			       SUBJECT_JOB },
	[CAUSE_CONNECTION] = { "see whether the other end runs there and is not behind a firewall",
			       SUBJECT_NONE },
	[CAUSE_FAILED_CALL] = { "look at its own output, and at proctor report ", SUBJECT_JOB },
	[CAUSE_DISK] = { "see what used the disk: proctor top --history 1d", SUBJECT_NONE },
	[CAUSE_PAGE_FAULT] = { "give it more memory, or see what took it: proctor top --history 1d",
			       SUBJECT_NONE },
	[CAUSE_GPU] = { "see what used them: proctor top --history 1d", SUBJECT_NONE },
	[CAUSE_PIPE] = { "see who has the other end: proctor stack ", SUBJECT_JOB },
	[CAUSE_SOCKET] = { "see the other end: proctor stack ", SUBJECT_JOB },
	[CAUSE_FUTEX] = { "see which thread the others wait for: proctor stack ", SUBJECT_JOB },
	[CAUSE_MEMORY_STALL] = { "see what used it: proctor top --history 1d", SUBJECT_NONE },
	[CAUSE_DISK_STALL] = { "see what used the disk: proctor top --history 1d", SUBJECT_NONE },
	[CAUSE_CPU] = { "run it apart from what used the CPU: proctor top --history 1d",
			SUBJECT_NONE },
	[CAUSE_WORK] = { "see which of its processes did: proctor report ", SUBJECT_JOB },
	[CAUSE_LARGER] = { "see when it grew, and in what: proctor report ", SUBJECT_JOB },
};

/* Of one that was slower or larger than usual: the first row whose words are in the reasons. */
static const struct {
	const char *words;
	enum cause_kind kind;
} slow[] = {
	{ "waiting for a file lock", CAUSE_LOCK },
	{ " in flock", CAUSE_LOCK },
	{ "waiting for disk", CAUSE_DISK },
	{ "waiting for page faults", CAUSE_PAGE_FAULT },
	{ "waiting for a CPU", CAUSE_CPU },
	{ "waiting for GPUs", CAUSE_GPU },
	{ "waiting at pipes", CAUSE_PIPE },
	{ "waiting for sockets", CAUSE_SOCKET },
	{ "waiting for other threads", CAUSE_FUTEX },
	{ "for memory", CAUSE_MEMORY_STALL },
	{ "for I/O", CAUSE_DISK_STALL },
	{ "for CPU", CAUSE_CPU },
	{ "waited ", CAUSE_WAIT },
	{ "computed ", CAUSE_WORK },
	{ "peak memory", CAUSE_LARGER },
};

struct verdict {
	const struct why_known *known;
	const struct attempt *a;
	struct facts facts;
	struct buf parts[N_PARTS];
	struct cause cause;
	bool is_plain; /* it succeeded as usual: there is nothing to explain */
	uint64_t since_wall_ns;
	int sheet_num;
};

/* ---- when ---- */

/* The sample after which a running attempt used no CPU worth the name; unknown: it does. */
static uint64_t last_moved(const struct attempt *a)
{
	size_t i = a->details.n_series;

	while (i > 0 && a->details.series[i - 1].cpu_percent < IDLE_PERCENT)
		i--;
	return i < a->details.n_series && i > 0 ? a->details.series[i - 1].wall_ns : U64_UNKNOWN;
}

/* When proctor sent the signal, or the kernel killed. */
static bool is_of_outcome(const struct proc_event *ev, enum outcome outcome)
{
	if (outcome == OUTCOME_OOM)
		return ev->type == EVENT_OOM;
	return outcome != OUTCOME_FAILURE && ev->details &&
	       strncmp(ev->details, EVENT_BY_PROCTOR, strlen(EVENT_BY_PROCTOR)) == 0;
}

/* What happened, and not the end of the grace period behind it. */
static uint64_t event_time(const struct verdict *v, const struct sheet_fact *culprit)
{
	const struct attempt *a = v->a;
	uint64_t at = culprit ? culprit->last->ended_wall_ns : a->ended_wall_ns;

	if (!u64_known(at))
		at = figures_last_seen(a);
	for (size_t i = 0; i < a->n_events; i++)
		if (a->events[i].sheet_num == v->sheet_num && a->events[i].wall_ns < at &&
		    is_of_outcome(&a->events[i], a->outcome))
			at = a->events[i].wall_ns;
	for (size_t i = 0; a->outcome != OUTCOME_TIMEOUT && i < a->n_processes; i++)
		if (a->processes[i].died_wall_ns < at && a->processes[i].key.pid == v->cause.pid)
			at = a->processes[i].died_wall_ns;
	return at;
}

static void add_when(struct verdict *v)
{
	struct buf *out = &v->parts[PART_WHEN];
	const struct sheet_fact *sheet =
		v->a->is_running ? facts_current(&v->facts) : facts_culprit(&v->facts);

	v->sheet_num = sheet ? sheet->last->num : SHEET_NONE;
	v->since_wall_ns = v->a->is_running ? last_moved(v->a) : event_time(v, sheet);
	if (!u64_known(v->since_wall_ns))
		return;
	if (v->a->is_running)
		buf_add_str(out, "hardly any CPU was used since ");
	format_time(out, v->since_wall_ns);
	buf_add_str(out, ", ");
	report_add_duration(out, u64_delta(v->since_wall_ns, v->a->started_wall_ns));
	buf_add_str(out, " after the start");
	if (sheet && v->facts.n_sheets > 1)
		buf_printf(out, ", in sheet %d%s%s", v->sheet_num, sheet->last->name ? " " : "",
			   sheet->last->name ? sheet->last->name : "");
}

/* ---- what contributed ---- */

/* Threads that have nothing to do wait in these. */
static bool is_idle_call(const char *name)
{
	static const char *const names[] = { "futex",		"poll",		"ppoll",
					     "select",		"pselect6",	"epoll_wait",
					     "epoll_pwait",	"epoll_pwait2", "nanosleep",
					     "clock_nanosleep", "pause",	"rt_sigsuspend",
					     "rt_sigtimedwait" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/*
 * The call in which it waited longest, if that is half of what is beyond usual: not for a child,
 * and in idle calls only where nothing else explains it.
 */
static void add_waiting_call(struct verdict *v)
{
	const struct standing *s = v->a->details.standing;
	const struct syscall_use *longest = NULL;
	struct buf *out = &v->parts[PART_REASONS];
	bool is_idle = false;

	for (size_t i = 0; standing_is_more(s, STANDING_WALL) && i < v->a->details.n_syscalls;
	     i++) {
		const struct syscall_use *use = &v->a->details.syscalls[i];
		const bool is_idle_too = use->name && is_idle_call(use->name);

		if (!u64_known(use->wait_ns) || !use->name || strncmp(use->name, "wait", 4) == 0 ||
		    (double)use->wait_ns / 1e9 < standing_half_excess(s, STANDING_WALL) ||
		    (is_idle_too && out->len > 0))
			continue;
		if (longest && (is_idle_too > is_idle ||
				(is_idle_too == is_idle && use->wait_ns <= longest->wait_ns)))
			continue;
		longest = use;
		is_idle = is_idle_too;
	}
	if (!longest)
		return;
	buf_add_str(out, out->len > 0 ? "; waited " : "waited ");
	report_add_duration(out, longest->wait_ns);
	buf_printf(out, " in %s (", longest->name);
	format_plural(out, longest->count, "call", "s");
	buf_add_char(out, ')');
}

/* More work explains it if it is half of what is beyond usual. */
static void add_work(struct buf *out, const struct standing *s)
{
	const double seconds = 2 * standing_half_excess(s, STANDING_CPU);

	if (seconds <= 0 || seconds < standing_half_excess(s, STANDING_WALL))
		return;
	buf_add_str(out, out->len > 0 ? "; computed " : "computed ");
	report_add_duration(out, (uint64_t)(seconds * 1e9));
	buf_add_str(out, " longer");
}

/* Jobs that together used a tenth of all CPUs while it ran, by their averages. */
static void add_others(struct verdict *v)
{
	const uint64_t from = v->a->started_wall_ns, until = figures_last_seen(v->a);
	const struct attempt *busiest = NULL;
	double total = 0, most = 0;

	for (size_t i = 0; i < v->known->n_others; i++) {
		const struct attempt *other = &v->known->others[i];
		const uint64_t begin =
			other->started_wall_ns > from ? other->started_wall_ns : from;
		const uint64_t last = figures_last_seen(other), end = last < until ? last : until;
		struct figures figures;
		double percent;

		figures_of_attempt(other, &figures);
		if (end <= begin || !f64_known(figures.average_cpu_percent))
			continue;
		percent = figures.average_cpu_percent * (double)(end - begin) /
			  (double)(until - from);
		total += percent;
		if (percent > most) {
			most = percent;
			busiest = other;
		}
	}
	if (!busiest || !(total >= OTHERS_SHARE * v->known->cpu_count))
		return;
	format_percent(&v->parts[PART_OTHERS], total);
	buf_printf(&v->parts[PART_OTHERS],
		   " CPU (100 %% is one of %u) in other jobs, the most in %s#%d: ",
		   v->known->cpu_count, busiest->job_id, busiest->attempt_num);
	format_percent(&v->parts[PART_OTHERS], most);
}

static int add_anomalies(struct verdict *v)
{
	const size_t n = v->a->details.n_anomalies;
	CLEANUP(free_ptr) const struct episode **sorted = calloc(n + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < n; i++)
		sorted[i] = &v->a->details.anomalies[i];
	if (sorted)
		qsort(sorted, n, sizeof(*sorted), page_compare_anomalies);
	for (size_t i = 0; sorted && i < n && i < MAX_ANOMALIES; i++) {
		const struct episode *e = sorted[i];
		struct buf *out = &v->parts[PART_ANOMALY + i];

		buf_printf(out, "%s %s%s ", severity_name(e->worst.severity),
			   anomaly_type_name(e->worst.type), e->job_id[0] ? "" : " of the host");
		format_offset(out, e->began_wall_ns, v->a->started_wall_ns);
		buf_printf(out, ": %s", e->worst.text);
	}
	return sorted ? 0 : -ENOMEM;
}

/* ---- all together ---- */

static struct cause find_cause(const struct verdict *v)
{
	const struct sheet_fact *culprit = facts_culprit(&v->facts);
	struct cause cause = v->a->is_running ? v->known->cause
			     : culprit	      ? culprit->last->cause
					      : v->a->cause;

	for (size_t i = 0; cause.kind == CAUSE_NONE && i < ARRAY_SIZE(slow); i++)
		if (strstr(v->parts[PART_REASONS].data, slow[i].words) ||
		    strstr(v->parts[PART_USUAL].data, slow[i].words))
			cause.kind = slow[i].kind;
	return cause;
}

/* Where neither record nor rules have a cause: what would show one. */
static const char *cannot_tell(const struct verdict *v)
{
	if (v->cause.kind != CAUSE_NONE || v->parts[PART_ANOMALY].len > 0 ||
	    v->parts[PART_REASONS].len > 0 || v->parts[PART_EVIDENCE].len > 0)
		return "";
	if (v->a->is_running)
		return "cannot tell what it waits for: this user may not see its processes";
	if (v->a->is_lost)
		return "cannot tell what ended its runner: a daemon of root records signals and "
		       "OOM kills";
	if (v->parts[PART_USUAL].len > 0)
		return "cannot tell why: \"proctor run --syscalls=auto\" records in which calls it "
		       "waits";
	return "cannot tell why: no child that failed first, signal, OOM kill or full disk was seen; "
	       "a daemon of root sees more";
}

/* Than each of the runs like it, which are too few to show that this is no chance. */
static bool is_longest(const struct standing *s)
{
	return s && s->values[STANDING_WALL].side > 0 && !s->values[STANDING_WALL].is_unusual;
}

static void add_usual_end(struct buf *out, const struct standing *s)
{
	if (!s)
		buf_add_str(out, "; there is no run like it to compare");
	else if (s->n_failed == s->n_others)
		buf_printf(out, ", where all %llu runs like it failed",
			   (unsigned long long)s->n_others);
	else
		buf_printf(out, ", as %llu of %llu runs like it",
			   (unsigned long long)(s->n_others - s->n_failed),
			   (unsigned long long)s->n_others);
	if (is_longest(s)) {
		buf_add_str(out, ", which took at most ");
		report_add_duration(out, (uint64_t)(s->values[STANDING_WALL].high * 1e9));
		buf_printf(out, ": %zu are too few to call it unusual", s->values[STANDING_WALL].n);
	}
}

static void add_advice(struct verdict *v)
{
	struct buf *out = &v->parts[PART_ADVICE];

	buf_add_str(out, advice[v->cause.kind].text);
	if (advice[v->cause.kind].subject == SUBJECT_HOLDER && v->cause.other_pid > 0)
		buf_printf(out, "%d", (int)v->cause.other_pid);
	else if (advice[v->cause.kind].subject != SUBJECT_NONE)
		buf_add_str(out, v->a->job_id);
}

static int find_verdict(struct verdict *v)
{
	const bool has_succeeded = v->a->outcome == OUTCOME_SUCCESS;
	struct buf *sentence = &v->parts[PART_VERDICT], *evidence = &v->parts[PART_EVIDENCE];

	if (facts_init(&v->facts, v->a) < 0 || add_anomalies(v) < 0)
		return -ENOMEM;
	verdict_add_sentence(sentence, &v->facts);
	buf_add_str(evidence, v->known->waits);
	if (!v->a->is_running && !has_succeeded)
		verdict_add_evidence(evidence, &v->facts);
	page_add_beyond_usual(&v->parts[PART_USUAL], v->a);
	buf_add_str(&v->parts[PART_REASONS], v->known->reasons);
	add_work(&v->parts[PART_REASONS], v->a->details.standing);
	add_waiting_call(v);
	add_others(v);
	if (has_succeeded && v->parts[PART_USUAL].len == 0 && v->parts[PART_ANOMALY].len == 0) {
		add_usual_end(sentence, v->a->details.standing);
		v->is_plain = true;
		return 0;
	}
	v->cause = find_cause(v);
	if (strstr(sentence->data, evidence->data))
		buf_reset(evidence);
	if (!has_succeeded)
		add_when(v);
	buf_add_str(&v->parts[PART_CANNOT_TELL], cannot_tell(v));
	add_advice(v);
	return 0;
}

static void write_json(const struct verdict *v, struct buf *out)
{
	struct json j;

	json_init_object(&j, out);
	json_key_string(&j, "job_id", v->a->job_id);
	json_key_int(&j, "attempt", v->a->attempt_num);
	json_key_string(&j, "outcome", verdict_word(&v->facts));
	json_key_string(&j, "cause", v->is_plain ? NULL : cause_name(v->cause.kind) ?: "unknown");
	json_key_f64(&j, "since", u64_to_seconds(v->since_wall_ns));
	json_key_u64(&j, "sheet_num",
		     v->sheet_num == SHEET_NONE ? U64_UNKNOWN : (uint64_t)v->sheet_num);
	for (enum part p = 0; p < N_PARTS; p++)
		if (parts[p].key)
			json_key_string(&j, parts[p].key,
					v->parts[p].len > 0 ? v->parts[p].data : NULL);
	json_key_array(&j, "anomalies");
	for (enum part p = PART_ANOMALY; p < PART_ADVICE && v->parts[p].len > 0; p++)
		json_str(&j, v->parts[p].data);
	json_end_array(&j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static void write_text(const struct verdict *v, struct buf *out)
{
	buf_printf(out, "%s: ",
		   !v->is_plain				? verdict_word(&v->facts)
		   : is_longest(v->a->details.standing) ? "longer than before"
							: "nothing unusual");
	for (enum part p = 0; p < N_PARTS; p++) {
		if (v->parts[p].len == 0)
			continue;
		if (p != PART_VERDICT)
			buf_printf(out, "%-9s ", parts[p].label ? parts[p].label : "anomaly");
		format_safe(out, v->parts[p].data);
		buf_add_char(out, '\n');
	}
}

int report_write_why(const struct why_known *known, bool as_json, struct buf *out)
{
	struct verdict v = { .known = known,
			     .a = known->attempt,
			     .since_wall_ns = U64_UNKNOWN,
			     .sheet_num = SHEET_NONE };
	int r;

	for (size_t i = 0; i < N_PARTS; i++)
		v.parts[i] = (struct buf)BUF_INIT;
	r = find_verdict(&v);
	if (r == 0)
		(as_json ? write_json : write_text)(&v, out);
	for (size_t i = 0; i < N_PARTS; i++) {
		out->failed |= v.parts[i].failed;
		buf_release(&v.parts[i]);
	}
	facts_release(&v.facts);
	return r < 0 ? r : buf_error(out);
}
