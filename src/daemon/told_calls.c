#include "daemon/told_calls.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"

void told_calls_release(struct told_calls *calls)
{
	call_sums_release(&calls->sums);
	process_calls_release(&calls->processes);
}

void told_calls_add(struct told_calls *calls, const struct syscall_process *p)
{
	const struct proc_key key = { p->pid, p->start_ticks };

	calls->sums.is_sampled = calls->time_every > 1;
	call_sums_add(&calls->sums, p->uses, p->n_uses);
	calls->time_variance_ns2 += p->time_variance_ns2;
	if (p->pid > 0) /* else they are of processes that could not be told apart */
		process_calls_add(&calls->processes, &key, p->uses, p->n_uses);
}

/* Of those that could not be told apart, some may be anybody's. */
void told_calls_withhold(struct told_calls *calls, const struct syscall_process *p)
{
	if (p->pid > 0) {
		calls->n_withheld++;
		return;
	}
	for (size_t i = 0; i < p->n_uses; i++)
		calls->lost.calls = u64_add(calls->lost.calls, p->uses[i].count);
}

/* ---- into the record ---- */

static void keep_sums(struct call_sums *sums, struct attempt *a)
{
	struct syscall_use *uses = arena_alloc(&a->arena, (sums->n + 1) * sizeof(*uses));

	call_sums_sort(sums);
	for (size_t i = 0; uses && i < sums->n; i++) {
		uses[i] = sums->uses[i];
		uses[i].name = arena_strdup(&a->arena, uses[i].name);
		if (!uses[i].name)
			return;
	}
	a->syscalls = uses;
	a->n_syscalls = uses ? sums->n : 0;
}

static void begin_part(struct buf *out)
{
	if (out->len > 0)
		buf_add_str(out, "; ");
}

static double sum_cpu_ns(const struct call_sums *sums)
{
	double sum = 0;

	for (size_t i = 0; i < sums->n; i++)
		if (u64_known(sums->uses[i].cpu_ns))
			sum += (double)sums->uses[i].cpu_ns;
	return sum;
}

/* A kind of which no call happened to be timed has no time, and is in no sum and no error. */
static void say_untimed(const struct call_sums *sums, struct buf *out)
{
	uint64_t n_calls = 0;
	size_t n_kinds = 0;

	for (size_t i = 0; i < sums->n; i++) {
		if (u64_known(sums->uses[i].cpu_ns) || sums->uses[i].count == 0)
			continue;
		n_calls = u64_add(n_calls, sums->uses[i].count);
		n_kinds++;
	}
	if (n_kinds > 0)
		buf_printf(out,
			   "; %llu calls, all of %zu kinds, were never timed and are not in it",
			   (unsigned long long)n_calls, n_kinds);
}

void told_calls_say_error(const struct told_calls *calls, struct buf *out)
{
	double sum = sum_cpu_ns(&calls->sums);

	if (calls->time_every <= 1)
		return;
	begin_part(out);
	buf_printf(out, "times are of one call in %u, by chance", calls->time_every);
	if (sum > 0)
		buf_printf(out, ": one standard error of all time on a CPU is %.2g %%",
			   100 * sqrt(calls->time_variance_ns2) / sum);
	say_untimed(&calls->sums, out);
	buf_add_str(out, "; how far waiting is off is not known");
}

void told_calls_say_missing(const struct told_calls *calls, struct buf *out)
{
	uint64_t n_lost = u64_add(calls->lost.calls, calls->sums.n_left_out);

	if (n_lost > 0) {
		begin_part(out);
		buf_printf(out, "%llu calls or more found no room to be counted in",
			   (unsigned long long)n_lost);
	}
	if (calls->lost.threads > 0) {
		begin_part(out);
		buf_printf(out, "%llu thread%s could not be counted all the time",
			   (unsigned long long)calls->lost.threads,
			   calls->lost.threads == 1 ? "" : "s");
	}
	if (calls->processes.n_untold > 0) {
		begin_part(out);
		buf_printf(out, "those of %llu process%s are in the sums alone",
			   (unsigned long long)calls->processes.n_untold,
			   calls->processes.n_untold == 1 ? "" : "es");
	}
	if (calls->n_withheld > 0) {
		begin_part(out);
		buf_printf(out,
			   "those of %llu process%s are in no sum: not this user's alone, as "
			   "programs that are set-user-ID, they are not told, and kept nowhere",
			   (unsigned long long)calls->n_withheld,
			   calls->n_withheld == 1 ? "" : "es");
	}
}

void told_calls_keep(struct told_calls *calls, const char *trouble, struct attempt *a)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT, error = BUF_INIT;

	keep_sums(&calls->sums, a);
	process_calls_tell(&calls->processes, a->processes, a->n_processes, &a->arena);
	if (trouble)
		buf_printf(&why, "some were not counted: %s", trouble);
	told_calls_say_missing(calls, &why);
	told_calls_say_error(calls, &error);
	if (why.len > 0)
		attempt_note(a, "syscalls", why.data);
	if (error.len > 0)
		attempt_note(a, NOTE_SYSCALL_TIMES, error.data);
}

/* ---- in the daemon ---- */

/* As each process has it: so both are read by one reader. */
static void write_sums(struct json *j, struct call_sums *sums)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	call_sums_settle(sums);
	syscall_text_write(&text, sums->uses, sums->n);
	json_key_string(j, "syscalls", text.data);
}

void told_calls_write_processes(struct json *j, const struct process_calls *processes)
{
	json_begin_array(j);
	for (size_t i = 0; i < processes->n; i++) {
		const struct process_call *call = &processes->items[i];

		if (!call->text)
			continue;
		json_begin_object(j);
		json_key_i64(j, "pid", call->key.pid);
		json_key_u64(j, "start_ticks", call->key.start_ticks);
		json_key_string(j, "syscalls", call->text);
		json_end_object(j);
	}
	json_end_array(j);
}

void told_calls_write(struct json *j, struct told_calls *calls)
{
	write_sums(j, &calls->sums);
	json_key(j, "processes");
	told_calls_write_processes(j, &calls->processes);
	json_key_u64(j, "untold_processes", calls->processes.n_untold);
	json_key_u64(j, "time_every", calls->time_every);
	json_key_f64(j, "time_variance_ns2", calls->time_variance_ns2);
	json_key_u64(j, "lost", u64_add(calls->lost.calls, calls->sums.n_left_out));
	json_key_u64(j, "lost_threads", calls->lost.threads);
	json_key_u64(j, "withheld_processes", calls->n_withheld);
}

/* ---- in the runner ---- */

/* sums may be NULL: then it is only seen whether the text can be read. */
static int read_text(const char *text, struct call_sums *sums)
{
	struct arena arena = ARENA_INIT;
	struct syscall_use *uses;
	size_t n;
	int r = syscall_text_read(text, &arena, &uses, &n);

	if (r == 0 && sums)
		call_sums_add(sums, uses, n);
	arena_release(&arena);
	return r;
}

static int read_process(const struct rpc_value *v, struct process_calls *ret)
{
	const char *text = rpc_value_string(rpc_value_get(v, "syscalls"));
	int64_t pid = rpc_value_i64(rpc_value_get(v, "pid"), -1);
	const struct proc_key key = { (pid_t)pid, rpc_value_u64(rpc_value_get(v, "start_ticks")) };

	if (pid <= 0 || pid > INT32_MAX || !text || read_text(text, NULL) < 0)
		return -EBADMSG;
	process_calls_add_text(ret, &key, text, strlen(text));
	return 0;
}

int told_calls_read_processes(const struct rpc_value *list, struct process_calls *ret)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < rpc_value_len(list); i++)
		r = read_process(rpc_value_at(list, i), ret);
	return r;
}

/* Of a daemon that does not say, all were timed. */
static void read_error(const struct rpc_value *v, struct told_calls *calls)
{
	uint64_t every = rpc_value_u64(rpc_value_get(v, "time_every"));
	double variance = rpc_value_f64(rpc_value_get(v, "time_variance_ns2"));

	if (every <= UINT32_MAX)
		calls->time_every = (unsigned)every;
	if (variance > 0)
		calls->time_variance_ns2 += variance;
}

int told_calls_read(const struct rpc_value *v, struct told_calls *calls)
{
	const char *sums = rpc_value_string(rpc_value_get(v, "syscalls"));
	uint64_t untold = rpc_value_u64(rpc_value_get(v, "untold_processes"));
	uint64_t lost = rpc_value_u64(rpc_value_get(v, "lost"));
	uint64_t threads = rpc_value_u64(rpc_value_get(v, "lost_threads"));
	uint64_t withheld = rpc_value_u64(rpc_value_get(v, "withheld_processes"));
	bool has_all = sums && u64_known(untold) && u64_known(lost) && u64_known(threads);
	int r = has_all ? read_text(sums, &calls->sums) : -EBADMSG;

	if (r == 0)
		r = told_calls_read_processes(rpc_value_get(v, "processes"), &calls->processes);
	if (r < 0)
		return r;
	read_error(v, calls);
	calls->processes.n_untold = u64_add(calls->processes.n_untold, untold);
	calls->lost.calls = u64_add(calls->lost.calls, lost);
	calls->lost.threads = u64_add(calls->lost.threads, threads);
	if (u64_known(withheld))
		calls->n_withheld = u64_add(calls->n_withheld, withheld);
	return 0;
}
