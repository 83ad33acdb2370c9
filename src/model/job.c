#include "model/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/columns.h"

bool job_id_is_valid(const char *id)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-:/@+";
	size_t n = strlen(id);

	return n > 0 && n <= JOB_ID_MAX && id[0] != '-' && id[0] != '.' && strspn(id, allowed) == n;
}

void job_log_name(const char *id, char ret[JOB_LOG_NAME_BYTES])
{
	snprintf(ret, JOB_LOG_NAME_BYTES, "%.*s.log", JOB_ID_MAX, id);
	for (char *slash = ret; (slash = strchr(slash, '/'));)
		*slash = '%';
}

void job_spec_init(struct job_spec *spec)
{
	*spec = (struct job_spec){ .limits = JOB_LIMITS_NONE, .arena = ARENA_INIT };
}

void job_spec_release(struct job_spec *spec)
{
	arena_release(&spec->arena);
	job_spec_init(spec);
}

int job_spec_set_command(struct job_spec *spec, const char *const *argv, int sheet_num,
			 double timeout_seconds)
{
	struct sheet_spec *sheet = arena_alloc(&spec->arena, sizeof(*sheet));

	if (!sheet)
		return -ENOMEM;
	*sheet = (struct sheet_spec){
		.num = sheet_num,
		.argv = argv,
		.timeout_seconds = timeout_seconds,
		.stop_on_failure = true,
		.ranks = 1,
	};
	spec->sheets = sheet;
	spec->n_sheets = 1;
	return 0;
}

static const char *const outcome_names[] = {
	[OUTCOME_NONE] = NULL,	       [OUTCOME_SUCCESS] = "success",
	[OUTCOME_FAILURE] = "failure", [OUTCOME_CANCELLED] = "cancelled",
	[OUTCOME_TIMEOUT] = "timeout", [OUTCOME_OOM] = "oom",
};

static const char *const evidence_names[] = {
	[EVIDENCE_UNKNOWN] = "unknown",	    [EVIDENCE_EXACT] = "exact",
	[EVIDENCE_SAMPLED] = "sampled",	    [EVIDENCE_LOWER_BOUND] = "at least",
	[EVIDENCE_UPPER_BOUND] = "at most",
};

static const char *const event_names[] = {
	[EVENT_SPAWN] = "spawn", [EVENT_EXIT] = "exit", [EVENT_SIGNAL] = "signal",
	[EVENT_KILL] = "kill",	 [EVENT_OOM] = "oom",	[EVENT_ORPHAN] = "orphan",
};

int enum_from_name(const char *const *names, size_t n, const char *name, void *ret)
{
	for (unsigned i = 0; name && i < n; i++)
		if (names[i] && strcmp(names[i], name) == 0) {
			memcpy(ret, &i, sizeof(i));
			return 0;
		}
	return -EINVAL;
}

const char *outcome_name(enum outcome outcome)
{
	return outcome_names[outcome];
}

enum outcome outcome_from_name(const char *name)
{
	enum outcome found = OUTCOME_NONE;

	(void)enum_from_name(outcome_names, ARRAY_SIZE(outcome_names), name, &found);
	return found;
}

static const char *const cause_names[N_CAUSES] = {
	[CAUSE_MEMORY] = "memory",
	[CAUSE_MEMORY_LIKELY] = "memory_likely",
	[CAUSE_DISK_FULL] = "disk_full",
	[CAUSE_LOCK] = "lock",
	[CAUSE_WAIT] = "wait",
	[CAUSE_STOPPED] = "stopped",
	[CAUSE_BUSY] = "busy",
	[CAUSE_TIME_LIMIT] = "time_limit",
	[CAUSE_CRASH] = "crash",
	[CAUSE_SIGNAL] = "signal",
	[CAUSE_CANCELLED] = "cancelled",
	[CAUSE_NOT_FOUND] = "not_found",
	[CAUSE_CHILD] = "child",
	[CAUSE_MISSING_FILE] = "missing_file",
	[CAUSE_PERMISSION] = "permission",
	[CAUSE_FILE_LIMIT] = "file_limit",
	[CAUSE_CONNECTION] = "connection",
	[CAUSE_FAILED_CALL] = "failed_call",
	[CAUSE_DISK] = "disk",
	[CAUSE_PAGE_FAULT] = "page_fault",
	[CAUSE_GPU] = "gpu",
	[CAUSE_PIPE] = "pipe",
	[CAUSE_SOCKET] = "socket",
	[CAUSE_FUTEX] = "futex",
	[CAUSE_MEMORY_STALL] = "memory_stall",
	[CAUSE_DISK_STALL] = "disk_stall",
	[CAUSE_CPU] = "cpu",
	[CAUSE_WORK] = "work",
	[CAUSE_LARGER] = "larger",
};

const char *cause_name(enum cause_kind kind)
{
	return cause_names[kind];
}

int cause_from_name(const char *name, enum cause_kind *ret)
{
	*ret = CAUSE_NONE;
	return name ? enum_from_name(cause_names, ARRAY_SIZE(cause_names), name, ret) : 0;
}

const char *evidence_name(enum evidence evidence)
{
	return evidence_names[evidence];
}

enum evidence evidence_from_name(const char *name)
{
	enum evidence found = EVIDENCE_UNKNOWN;

	(void)enum_from_name(evidence_names, ARRAY_SIZE(evidence_names), name, &found);
	return found;
}

const char *event_type_name(enum event_type type)
{
	return event_names[type];
}

bool event_type_is_signal(enum event_type type)
{
	return type == EVENT_SIGNAL || type == EVENT_KILL || type == EVENT_OOM;
}

int event_type_from_name(const char *name, enum event_type *ret)
{
	return enum_from_name(event_names, ARRAY_SIZE(event_names), name, ret);
}

uint64_t usage_memory_bytes(const struct usage *u)
{
	return u64_known(u->peak_memory_bytes) ? u->peak_memory_bytes : u->peak_rss_bytes;
}

void usage_init(struct usage *u)
{
	columns_clear(&usage_columns, u);
}

void usage_set_no_gpu(struct usage *u)
{
	u->peak_gpu_bytes = u->gpu_busy_ns = u->gpu_idle_ns = 0;
}

struct exit_status exit_status_from_wait(int wait_status)
{
	struct exit_status s = { -1, -1 };

	if (WIFEXITED(wait_status))
		s.exit_code = WEXITSTATUS(wait_status);
	else if (WIFSIGNALED(wait_status))
		s.signal = WTERMSIG(wait_status);
	return s;
}

int exit_status_to_shell(struct exit_status status)
{
	if (status.signal >= 0)
		return 128 + status.signal;
	return status.exit_code;
}

void proc_record_init(struct proc_record *p)
{
	*p = (struct proc_record){ 0 };
	columns_clear(&process_columns, p);
	p->n_samples = 0;
}

void exit_account_init(struct exit_account *a)
{
	*a =
		(struct exit_account){ U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN,
				       U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN,
				       U64_UNKNOWN, U64_UNKNOWN };
}

void proc_record_account(struct proc_record *p, const struct exit_account *account)
{
	if (!u64_known(account->cpu_ns))
		return;
	if (p->cpu_evidence == EVIDENCE_UNKNOWN) /* or it would be that of the peak */
		p->cpu_evidence = EVIDENCE_LOWER_BOUND;
	if (!u64_known(p->user_ns) || p->user_ns + p->system_ns < account->cpu_ns) {
		p->user_ns = account->user_ns;
		p->system_ns = account->system_ns;
		p->cpu_evidence = EVIDENCE_LOWER_BOUND;
	}
	p->rchar = u64_max_known(p->rchar, account->rchar);
	p->wchar = u64_max_known(p->wchar, account->wchar);
	p->read_bytes = u64_max_known(p->read_bytes, account->read_bytes);
	p->write_bytes = u64_max_known(p->write_bytes, account->write_bytes);
	p->major_faults = u64_max_known(p->major_faults, account->major_faults);
	if (!u64_known(account->max_rss_bytes))
		return;
	p->max_rss_bytes = u64_max_known(p->max_rss_bytes, account->max_rss_bytes);
	p->evidence = EVIDENCE_EXACT;
}

void proc_record_merge_end(struct proc_record *p, const struct proc_record *end)
{
	const struct proc_record before = *p;
	const struct exit_account account = {
		.cpu_ns = u64_add(end->user_ns, end->system_ns),
		.user_ns = end->user_ns,
		.system_ns = end->system_ns,
		.max_rss_bytes = end->evidence == EVIDENCE_EXACT ? end->max_rss_bytes : U64_UNKNOWN,
		.minor_faults = U64_UNKNOWN,
		.major_faults = end->major_faults,
		.rchar = end->rchar,
		.wchar = end->wchar,
		.read_bytes = end->read_bytes,
		.write_bytes = end->write_bytes,
	};

	proc_record_account(p, &account);
	if (before.cpu_evidence == EVIDENCE_EXACT) {
		p->user_ns = before.user_ns;
		p->system_ns = before.system_ns;
	}
	if (before.cpu_evidence == EVIDENCE_EXACT || end->cpu_evidence == EVIDENCE_EXACT)
		p->cpu_evidence = EVIDENCE_EXACT;
	if (!u64_known(p->died_wall_ns))
		p->died_wall_ns = end->died_wall_ns;
	if (exit_status_to_shell(p->status) < 0)
		p->status = end->status;
	if (!p->command)
		p->command = end->command;
	if (!p->failed_calls)
		p->failed_calls = end->failed_calls;
	if (!p->stderr_tail)
		p->stderr_tail = end->stderr_tail;
	p->is_unaccounted = false;
}

void proc_event_write_fields(struct json *j, const struct proc_event *ev)
{
	json_key_f64(j, "timestamp", u64_to_seconds(ev->wall_ns));
	json_key_i64(j, "pid", ev->key.pid);
	json_key_string(j, "event_type", event_type_name(ev->type));
	json_key_int(j, "exit_code", ev->status.exit_code);
	json_key_int(j, "signal_num", ev->status.signal);
	json_key_string(j, "job_id", ev->job_id);
	json_key_int(j, "sheet_num", ev->sheet_num);
	json_key_string(j, "details", ev->details ? ev->details : "");
}

bool failed_call_next(const char **text, struct failed_call *ret)
{
	int at = 0;

	if (!*text ||
	    sscanf(*text, "%23s %23s %" SCNu64 "%n", ret->call, ret->error, &ret->before_end_ms,
		   &at) != 3 ||
	    (*text)[at] != ' ')
		return false;
	ret->object = *text + at + 1;
	ret->object_len = strcspn(ret->object, "\n");
	*text = ret->object + ret->object_len;
	*text += **text == '\n';
	return true;
}

void proc_event_write_json(struct json *j, const struct proc_event *ev)
{
	json_begin_object(j);
	proc_event_write_fields(j, ev);
	json_end_object(j);
}

bool attempt_has_ranks(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].rank != RANK_NONE)
			return true;
	return false;
}

bool phase_name_is_valid(const char *name)
{
	size_t len = strlen(name), n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_char_len(name + i, len - i);
		if (n == 0 || (unsigned char)name[i] < ' ' || name[i] == 127)
			return false;
	}
	return len > 0 && utf8_count(name, len) <= PHASE_NAME_MAX;
}

void phase_record_write_fields(struct json *j, const struct phase_record *phase)
{
	json_key_string(j, "name", phase->name);
	json_key_string(j, "path", phase->path);
	json_key_i64(j, "pid", phase->pid);
	json_key_int(j, "rank", phase->rank);
	json_key_f64(j, "entered", u64_to_seconds(phase->entered_wall_ns));
	json_key_f64(j, "left", u64_to_seconds(phase->left_wall_ns));
	json_key_f64(j, "seconds",
		     u64_to_seconds(u64_delta(phase->left_wall_ns, phase->entered_wall_ns)));
}

void attempt_init(struct attempt *a)
{
	*a = (struct attempt){
		.uid = U64_UNKNOWN,
		.input_bytes = U64_UNKNOWN,
		.submission = U64_UNKNOWN,
		.pid_ns = U64_UNKNOWN,
		.clock = { U64_UNKNOWN, -1 },
		.started_wall_ns = U64_UNKNOWN,
		.ended_wall_ns = U64_UNKNOWN,
		.cause = CAUSE_INIT,
		.status = { -1, -1 },
		.current_sheet = SHEET_NONE,
		.arena = ARENA_INIT,
	};
	columns_clear(&attempt_end_columns, a);
	usage_init(&a->usage);
}

void attempt_release(struct attempt *a)
{
	arena_release(&a->arena);
	attempt_init(a);
}

int attempt_note(struct attempt *a, const char *what, const char *why)
{
	struct unknown_note *grown =
		arena_alloc(&a->arena, (a->details.n_unknowns + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	if (a->details.n_unknowns > 0)
		memcpy(grown, a->details.unknowns, a->details.n_unknowns * sizeof(*grown));
	grown[a->details.n_unknowns] = (struct unknown_note){ arena_strdup(&a->arena, what),
							      arena_strdup(&a->arena, why) };
	a->details.unknowns = grown;
	return grown[a->details.n_unknowns++].why ? 0 : -ENOMEM;
}

const struct unknown_note *attempt_find_note(const struct attempt *a, const char *what)
{
	for (size_t i = 0; i < a->details.n_unknowns; i++)
		if (a->details.unknowns[i].what && strcmp(a->details.unknowns[i].what, what) == 0)
			return &a->details.unknowns[i];
	return NULL;
}

const char *attempt_find_rung(const struct attempt *a, const char *measurement)
{
	for (size_t i = 0; i < a->details.n_rungs; i++)
		if (a->details.rungs[i].measurement &&
		    strcmp(a->details.rungs[i].measurement, measurement) == 0)
			return a->details.rungs[i].rung;
	return NULL;
}

uint64_t attempt_count_pids(const struct attempt *a, enum evidence *ret_evidence)
{
	bool lists_all = u64_known(a->usage.spawn_count) && a->usage.spawn_count <= a->n_processes;
	CLEANUP(map_release) struct map seen = MAP_INIT;
	bool is_counted = true;

	for (size_t i = 0; i < a->n_processes + a->n_events; i++) {
		pid_t pid = i < a->n_processes ? a->processes[i].key.pid
					       : a->events[i - a->n_processes].key.pid;

		/* An event of no process (the kernel's count of OOM kills rose) has no pid. */
		is_counted = is_counted && (pid <= 0 || map_put(&seen, (uint64_t)pid, 1) == 0);
	}
	if (!is_counted || seen.len == 0) {
		*ret_evidence = EVIDENCE_UNKNOWN;
		return U64_UNKNOWN;
	}
	*ret_evidence = lists_all && a->usage.spawn_evidence == EVIDENCE_EXACT
				? EVIDENCE_EXACT
				: EVIDENCE_LOWER_BOUND;
	return seen.len;
}

bool attempt_has_begun(const struct attempt *a)
{
	return a->runner.pid > 0;
}

const char *attempt_status_name(const struct attempt *a)
{
	return a->is_running ? "running" : "done";
}

void attempt_write_fields(struct json *j, const struct attempt *a, const char *status)
{
	bool is_known = a->attempt_num > 0; /* else it waits for its runner, who counts both */

	json_key_string(j, "job_id", a->job_id);
	json_key_int(j, "attempt", is_known ? a->attempt_num : -1);
	json_key_string(j, "status", status);
	json_key_string(j, "outcome", outcome_name(a->outcome));
	json_key_int(j, "exit_code", a->status.exit_code);
	json_key_int(j, "signal", a->status.signal);
	json_key_f64(j, "started", u64_to_seconds(a->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(a->ended_wall_ns));
	json_key_int(j, "total_sheets", is_known ? a->total_sheets : -1);
	json_key_i64(j, "last_completed_sheet", a->last_completed_sheet);
	json_key_int(j, "current_sheet", a->current_sheet);
	json_key_bool(j, "lost", a->is_lost);
	json_key_string(j, "reason", a->reason);
	json_key_string(j, "cause", cause_name(a->cause.kind));
	json_key_string(j, "command", a->command);
	json_key_u64(j, "uid", a->uid);
	json_key_string(j, "host", a->host);
}

#define NAME_MAX_BYTES 64
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789_"

static void write_number(struct buf *out, uint64_t v)
{
	if (u64_known(v))
		buf_printf(out, " %llu", (unsigned long long)v);
	else
		buf_add_str(out, " -");
}

void syscall_text_write(struct buf *out, const struct syscall_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%s%s", i > 0 ? ";" : "", uses[i].name);
		write_number(out, uses[i].count);
		write_number(out, uses[i].errors);
		write_number(out, uses[i].cpu_ns);
		write_number(out, uses[i].wait_ns);
	}
}

static int read_use(const char **at, struct arena *arena, struct syscall_use *ret)
{
	uint64_t *const numbers[] = { &ret->count, &ret->errors, &ret->cpu_ns, &ret->wait_ns };
	size_t len = strspn(*at, NAME_CHARS);

	if (len == 0 || len > NAME_MAX_BYTES)
		return -EBADMSG;
	ret->name = arena_strndup(arena, *at, len);
	if (!ret->name)
		return -ENOMEM;
	*at += len;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (*(*at)++ != ' ')
			return -EBADMSG;
		*numbers[i] = U64_UNKNOWN;
		if (**at == '-')
			(*at)++;
		else if (num_scan_u64(at, numbers[i]) < 0)
			return -EBADMSG;
	}
	return 0;
}

int syscall_text_read(const char *text, struct arena *arena, struct syscall_use **ret,
		      size_t *ret_n)
{
	struct syscall_use *uses;
	size_t n = *text != '\0';

	for (const char *at = text; *at; at++)
		n += *at == ';';
	uses = arena_alloc(arena, (n + 1) * sizeof(*uses));
	if (!uses)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int r = read_use(&text, arena, &uses[i]);

		if (r < 0)
			return r;
		if (*text != (i + 1 < n ? ';' : '\0'))
			return -EBADMSG;
		text += i + 1 < n;
	}
	*ret = uses;
	*ret_n = n;
	return 0;
}
