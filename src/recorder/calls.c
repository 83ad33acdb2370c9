#include "recorder/calls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

/* ---- sums by the name of the call ---- */

/* As many names as samples can have (store/). */
#define MAX_NAMES 4095

void call_sums_release(struct call_sums *sums)
{
	for (size_t i = 0; i < sums->n; i++)
		free((char *)sums->uses[i].name);
	free(sums->uses);
	free(sums->n_timed);
	map_release(&sums->by_name);
	*sums = (struct call_sums){ 0 };
}

/* NULL: no memory, or names that a program has made up. */
static struct syscall_use *sums_find(struct call_sums *sums, const char *name)
{
	uint64_t key = hash_bytes(HASH_INIT, name, strlen(name)), at;
	char *copy;

	for (; map_get(&sums->by_name, key, &at); key++)
		if (strcmp(sums->uses[at].name, name) == 0)
			return &sums->uses[at];
	if (sums->n == MAX_NAMES || ARRAY_RESERVE(sums->uses, sums->cap, sums->n + 1) < 0 ||
	    ARRAY_RESERVE(sums->n_timed, sums->cap_timed, sums->n + 1) < 0)
		return NULL;
	copy = strdup(name);
	if (!copy || map_put(&sums->by_name, key, sums->n) < 0) {
		free(copy);
		return NULL;
	}
	sums->uses[sums->n] = (struct syscall_use){ .name = copy };
	sums->n_timed[sums->n] = 0;
	return &sums->uses[sums->n++];
}

void call_sums_add(struct call_sums *sums, const struct syscall_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct syscall_use *sum = sums_find(sums, uses[i].name);

		if (!sum) {
			sums->n_left_out = u64_add(sums->n_left_out, uses[i].count);
			continue;
		}
		sum->count = u64_add(sum->count, uses[i].count);
		sum->errors = u64_add(sum->errors, uses[i].errors);
		if (sums->is_sampled && !u64_known(uses[i].cpu_ns))
			continue;
		sum->cpu_ns = u64_add(sum->cpu_ns, uses[i].cpu_ns);
		sum->wait_ns = u64_add(sum->wait_ns, uses[i].wait_ns);
		sums->n_timed[sum - sums->uses] += uses[i].count;
	}
}

static uint64_t scale(uint64_t ns, uint64_t count, uint64_t timed)
{
	__uint128_t scaled = timed ? (__uint128_t)ns * count / timed : U64_UNKNOWN;

	return !u64_known(ns) || scaled >= U64_UNKNOWN ? U64_UNKNOWN : (uint64_t)scaled;
}

void call_sums_settle(struct call_sums *sums)
{
	for (size_t i = 0; sums->is_sampled && i < sums->n; i++) {
		struct syscall_use *sum = &sums->uses[i];

		sum->cpu_ns = scale(sum->cpu_ns, sum->count, sums->n_timed[i]);
		sum->wait_ns = scale(sum->wait_ns, sum->count, sums->n_timed[i]);
	}
	sums->is_sampled = false;
}

/* As the database has it: unknown time last, then the count, then the name. */
static int compare_uses(const void *a, const void *b)
{
	const struct syscall_use *x = a, *y = b;
	uint64_t x_ns = u64_known(x->cpu_ns) ? x->cpu_ns + 1 : 0;
	uint64_t y_ns = u64_known(y->cpu_ns) ? y->cpu_ns + 1 : 0;

	if (x_ns != y_ns)
		return COMPARE(y_ns, x_ns);
	return x->count != y->count ? COMPARE(y->count, x->count) : strcmp(x->name, y->name);
}

void call_sums_sort(struct call_sums *sums)
{
	call_sums_settle(sums);
	map_clear(&sums->by_name);
	if (sums->n > 0)
		qsort(sums->uses, sums->n, sizeof(*sums->uses), compare_uses);
}

/* ---- what each process has called ---- */

void process_calls_release(struct process_calls *calls)
{
	free(calls->items);
	arena_release(&calls->arena);
	*calls = (struct process_calls){ .max_bytes = calls->max_bytes };
}

void process_calls_add_text(struct process_calls *calls, const struct proc_key *key,
			    const char *text, size_t len)
{
	const char *kept = NULL;

	if (len <= calls->max_bytes - calls->n_bytes &&
	    ARRAY_RESERVE(calls->items, calls->cap, calls->n + 1) == 0)
		kept = arena_strndup(&calls->arena, text, len);
	if (!kept) {
		calls->n_untold++;
		return;
	}
	calls->n_bytes += len;
	calls->items[calls->n++] = (struct process_call){ *key, kept, NULL };
}

void process_calls_add_time(struct process_calls *calls, const struct proc_key *key,
			    const char *time)
{
	struct process_call *last = calls->n > 0 ? &calls->items[calls->n - 1] : NULL;
	const size_t len = time ? strlen(time) : 0;

	if (len == 0 || !last || !proc_key_is(&last->key, key) ||
	    len > calls->max_bytes - calls->n_bytes)
		return;
	last->time = arena_strndup(&calls->arena, time, len);
	calls->n_bytes += len;
}

void process_calls_add(struct process_calls *calls, const struct proc_key *key,
		       const struct syscall_use *uses, size_t n)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	syscall_text_write(&text, uses, n);
	if (buf_error(&text) < 0)
		calls->n_untold++;
	else
		process_calls_add_text(calls, key, text.data, text.len);
}

/* ---- whose they are ---- */

static int compare_key(const void *a, const void *b)
{
	const struct process_call *x = a, *y = b;

	return x->key.pid != y->key.pid ? COMPARE(x->key.pid, y->key.pid)
					: COMPARE(x->key.start_ticks, y->key.start_ticks);
}

static void sort_calls(struct process_calls *calls)
{
	if (calls->n > 0)
		qsort(calls->items, calls->n, sizeof(*calls->items), compare_key);
}

/* The first with this pid, or where it would be. */
static size_t first_of(const struct process_calls *calls, pid_t pid)
{
	size_t low = 0, high = calls->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (calls->items[middle].key.pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The text of this very process, of items in order; NULL: there is none. */
static const char *find_call(const struct process_calls *calls, const struct proc_key *key)
{
	for (size_t i = first_of(calls, key->pid);
	     i < calls->n && calls->items[i].key.pid == key->pid; i++)
		if (calls->items[i].key.start_ticks == key->start_ticks)
			return calls->items[i].text;
	return NULL;
}

/*
 * Each record gets its own, in the arena. A process that no sample saw has no start time: of
 * several with its pid it is the first. Changes the order of the items.
 */
void process_calls_give(struct process_calls *calls, struct attempt *a)
{
	sort_calls(calls);
	for (size_t i = 0; i < a->n_processes; i++) {
		struct proc_record *p = &a->processes[i];

		for (size_t k = first_of(calls, p->key.pid);
		     k < calls->n && calls->items[k].key.pid == p->key.pid; k++) {
			struct process_call *call = &calls->items[k];

			if (!call->text || (u64_known(p->key.start_ticks) &&
					    call->key.start_ticks != p->key.start_ticks))
				continue;
			p->syscalls = arena_strdup(&a->arena, call->text);
			p->time = arena_strdup(&a->arena, call->time);
			call->text = NULL;
			break;
		}
	}
}

/* ---- what is new since the last sample ---- */

/* Both lists are in the order of the calls' numbers, mostly: so the next is where the last was. */
static const struct syscall_use *find_use(const struct syscall_use *uses, size_t n,
					  const char *name, size_t *hint)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = (*hint + i) % n;

		if (strcmp(uses[at].name, name) != 0)
			continue;
		*hint = at + 1;
		return &uses[at];
	}
	return NULL;
}

/* Times of which only some were taken are estimates, which may go down: then it is unknown. */
static struct syscall_use step_of(const struct syscall_use *now, const struct syscall_use *before)
{
	struct syscall_use step = *now;

	if (!before || before->count > now->count)
		return step; /* of another count, or the first */
	step.count = now->count - before->count;
	step.errors = u64_delta(now->errors, before->errors);
	step.cpu_ns = u64_delta(now->cpu_ns, before->cpu_ns);
	step.wait_ns = u64_delta(now->wait_ns, before->wait_ns);
	return step;
}

static void fill_sample(struct proc_sample *p, const char *now, const char *before,
			struct arena *arena)
{
	struct arena scratch = ARENA_INIT;
	struct syscall_use *uses, *old = NULL;
	size_t n, n_old = 0, n_new = 0, hint = 0;
	int r = syscall_text_read(now, arena, &uses, &n);

	if (r == 0 && before)
		r = syscall_text_read(before, &scratch, &old, &n_old);
	for (size_t i = 0; r == 0 && i < n; i++) { /* in place: those that have anything new */
		struct syscall_use step =
			step_of(&uses[i], find_use(old, n_old, uses[i].name, &hint));

		if (step.count > 0 && u64_known(step.count))
			uses[n_new++] = step;
	}
	if (r == 0) {
		p->n_syscalls = n_new;
		p->syscalls = uses;
	}
	arena_release(&scratch);
}

void process_calls_fill_steps(struct process_calls *before, struct process_calls *now, bool is_all,
			      struct snapshot *snap)
{
	struct process_calls kept = { .max_bytes = SIZE_MAX };

	sort_calls(now);
	/* The snapshot is in the order of pids, and so is what is kept. */
	for (size_t i = 0; i < snap->n_processes; i++) {
		struct proc_sample *p = &snap->processes[i];
		const char *had = find_call(before, &p->key);
		const char *text = find_call(now, &p->key);

		if (text)
			fill_sample(p, text, had, &snap->arena);
		else if (had && !is_all)
			p->syscalls = arena_alloc(&snap->arena, sizeof(*p->syscalls));
		if (!text)
			text = had; /* it was not told this time: the next time that is needed */
		if (text)
			process_calls_add_text(&kept, &p->key, text, strlen(text));
	}
	process_calls_release(before);
	*before = kept;
}

/* ---- both ---- */

void counted_calls_release(struct counted_calls *calls)
{
	call_sums_release(&calls->sums);
	process_calls_release(&calls->processes);
}

void counted_calls_add(struct counted_calls *calls, const struct syscall_process *p)
{
	const struct proc_key key = { p->pid, p->start_ticks };

	calls->sums.is_sampled = calls->time_every > 1;
	call_sums_add(&calls->sums, p->uses, p->n_uses);
	calls->time_variance_ns2 += p->time_variance_ns2;
	time_ledger_add(&calls->time, &p->time);
	if (p->pid > 0) { /* else they are of processes that could not be told apart */
		CLEANUP(buf_release) struct buf time = BUF_INIT;

		time_ledger_write(&time, &p->time);
		process_calls_add(&calls->processes, &key, p->uses, p->n_uses);
		process_calls_add_time(&calls->processes, &key, time.data);
	}
}

/* Of those that could not be told apart, some may be anybody's. */
void counted_calls_withhold(struct counted_calls *calls, const struct syscall_process *p)
{
	const struct time_ledger withheld = { .evidence = EVIDENCE_LOWER_BOUND };

	if (p->time.evidence != EVIDENCE_UNKNOWN)
		time_ledger_add(&calls->time, &withheld);
	if (p->pid > 0) {
		calls->n_withheld++;
		return;
	}
	for (size_t i = 0; i < p->n_uses; i++)
		calls->lost.calls = u64_add(calls->lost.calls, p->uses[i].count);
}

/* ---- into the record ---- */

static void begin_part(struct buf *out)
{
	if (out->len > 0)
		buf_add_str(out, "; ");
}

void counted_calls_say_error(const struct counted_calls *calls, struct buf *out)
{
	uint64_t n_untimed = 0;
	size_t n_kinds = 0;
	double sum = 0;

	if (calls->time_every <= 1)
		return;
	for (size_t i = 0; i < calls->sums.n; i++) {
		const struct syscall_use *use = &calls->sums.uses[i];

		if (u64_known(use->cpu_ns)) {
			sum += (double)use->cpu_ns;
		} else if (use->count > 0) {
			n_untimed = u64_add(n_untimed, use->count);
			n_kinds++;
		}
	}
	begin_part(out);
	buf_printf(out, "times are of one call in %u, by chance", calls->time_every);
	if (sum > 0)
		buf_printf(out, ": one standard error of all time on a CPU is %.2g %%",
			   100 * sqrt(calls->time_variance_ns2) / sum);
	/* A kind of which no call happened to be timed has no time, and is in no sum and no error.
	 */
	if (n_kinds > 0)
		buf_printf(out,
			   "; %llu calls, all of %zu kinds, were never timed and are not in it",
			   (unsigned long long)n_untimed, n_kinds);
	buf_add_str(out, "; how far waiting is off is not known");
}

void counted_calls_say_missing(const struct counted_calls *calls, struct buf *out)
{
	const struct {
		uint64_t n;
		const char *before, *noun, *plural, *what;
	} rows[] = {
		{ u64_add(calls->lost.calls, calls->sums.n_left_out), "", "calls", "",
		  "or more found no room to be counted in" },
		{ calls->lost.threads, "", "thread", "s", "could not be counted all the time" },
		{ calls->processes.n_untold, "those of ", "process", "es",
		  "are in the sums alone" },
		{ calls->n_withheld, "those of ", "process", "es",
		  "are in no sum: not this user's alone, as programs that are set-user-ID, they are "
		  "not told, and kept nowhere" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].n == 0)
			continue;
		begin_part(out);
		buf_printf(out, "%s%llu %s%s %s", rows[i].before, (unsigned long long)rows[i].n,
			   rows[i].noun, rows[i].n == 1 ? "" : rows[i].plural, rows[i].what);
	}
}

void counted_calls_keep(struct counted_calls *calls, const char *trouble, struct attempt *a)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT, error = BUF_INIT;
	struct syscall_use *uses = arena_alloc(&a->arena, (calls->sums.n + 1) * sizeof(*uses));

	call_sums_sort(&calls->sums);
	for (size_t i = 0; uses && i < calls->sums.n; i++) {
		uses[i] = calls->sums.uses[i];
		uses[i].name = arena_strdup(&a->arena, uses[i].name);
		if (!uses[i].name)
			uses = NULL;
	}
	a->details.syscalls = uses;
	a->details.n_syscalls = uses ? calls->sums.n : 0;
	process_calls_give(&calls->processes, a);
	if (trouble)
		buf_printf(&why, "some were not counted: %s", trouble);
	counted_calls_say_missing(calls, &why);
	counted_calls_say_error(calls, &error);
	if (why.len > 0)
		attempt_note(a, "syscalls", why.data);
	if (error.len > 0)
		attempt_note(a, NOTE_SYSCALL_TIMES, error.data);
}

/* ---- in the daemon ---- */

void counted_calls_write_processes(struct json *j, const struct process_calls *processes)
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
		if (call->time)
			json_key_string(j, "time", call->time);
		json_end_object(j);
	}
	json_end_array(j);
}

void counted_calls_write(struct json *j, struct counted_calls *calls)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT, time = BUF_INIT;

	time_ledger_write(&time, &calls->time);
	if (time.len > 0)
		json_key_string(j, "time", time.data);
	call_sums_settle(&calls->sums);
	syscall_text_write(&text, calls->sums.uses, calls->sums.n);
	json_key_string(j, "syscalls", text.data); /* as each process has it */
	json_key(j, "processes");
	counted_calls_write_processes(j, &calls->processes);
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

int counted_calls_read_processes(const struct rpc_value *list, struct process_calls *ret)
{
	for (size_t i = 0; i < rpc_value_len(list); i++) {
		const struct rpc_value *v = rpc_value_at(list, i);
		const char *text = rpc_value_string(rpc_value_get(v, "syscalls"));
		int64_t pid = rpc_value_i64(rpc_value_get(v, "pid"), -1);
		const struct proc_key key = { (pid_t)pid,
					      rpc_value_u64(rpc_value_get(v, "start_ticks")) };

		if (pid <= 0 || pid > INT32_MAX || !text || read_text(text, NULL) < 0)
			return -EBADMSG;
		process_calls_add_text(ret, &key, text, strlen(text));
		process_calls_add_time(ret, &key, rpc_value_string(rpc_value_get(v, "time")));
	}
	return 0;
}

int counted_calls_read(const struct rpc_value *v, struct counted_calls *calls)
{
	const char *sums = rpc_value_string(rpc_value_get(v, "syscalls"));
	uint64_t untold = rpc_value_u64(rpc_value_get(v, "untold_processes"));
	uint64_t lost = rpc_value_u64(rpc_value_get(v, "lost"));
	uint64_t threads = rpc_value_u64(rpc_value_get(v, "lost_threads"));
	uint64_t withheld = rpc_value_u64(rpc_value_get(v, "withheld_processes"));
	uint64_t every = rpc_value_u64(rpc_value_get(v, "time_every"));
	double variance = rpc_value_f64(rpc_value_get(v, "time_variance_ns2"));
	struct time_ledger time;
	bool has_all = sums && u64_known(untold) && u64_known(lost) && u64_known(threads);
	int r = has_all ? read_text(sums, &calls->sums) : -EBADMSG;

	if (r == 0)
		r = counted_calls_read_processes(rpc_value_get(v, "processes"), &calls->processes);
	if (r < 0)
		return r;
	if (time_ledger_read(rpc_value_string(rpc_value_get(v, "time")), &time))
		time_ledger_add(&calls->time, &time);
	if (every <= UINT32_MAX) /* of a daemon that does not say, all were timed */
		calls->time_every = (unsigned)every;
	if (variance > 0)
		calls->time_variance_ns2 += variance;
	calls->processes.n_untold = u64_add(calls->processes.n_untold, untold);
	calls->lost.calls = u64_add(calls->lost.calls, lost);
	calls->lost.threads = u64_add(calls->lost.threads, threads);
	if (u64_known(withheld))
		calls->n_withheld = u64_add(calls->n_withheld, withheld);
	return 0;
}
