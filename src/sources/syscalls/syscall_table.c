#include "sources/syscalls/syscall_table.h"

#include <errno.h>
#include <linux/types.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "bpf/syscalls.h"
#include "sources/proc_text.h"
#include "sources/syscall_names.inc.h"

const char *syscall_name(uint32_t nr, char text[SYSCALL_NAME_BYTES])
{
	if (nr == SYSCALL_OTHER)
		return "syscall_other";
	if (nr >= SYSCALL_COMPAT && nr < SYSCALL_COMPAT + SYSCALL_OTHER) {
		snprintf(text, SYSCALL_NAME_BYTES, "compat_%u", nr - SYSCALL_COMPAT);
		return text;
	}
	if (nr < ARRAY_SIZE(syscall_names) && syscall_names[nr])
		return syscall_names[nr];
	snprintf(text, SYSCALL_NAME_BYTES, "syscall_%u", nr);
	return text;
}

/* ---- the table ---- */

static void release_rows(struct counted *c)
{
	free(c->rows);
	free(c->order);
}

void syscall_table_release(struct syscall_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		release_rows(&t->items[i]);
	free(t->items);
	free(t->uses);
	map_release(&t->by_id);
	*t = (struct syscall_table){ 0 };
}

/* ---- taking in ---- */

static struct counted *find(const struct syscall_table *t, uint32_t id)
{
	uint64_t at;

	return map_get(&t->by_id, id, &at) ? &t->items[at] : NULL;
}

static struct counted *append(struct syscall_table *t, uint32_t id)
{
	if (ARRAY_RESERVE(t->items, t->cap, t->n + 1) < 0)
		return NULL;
	t->items[t->n] =
		(struct counted){ .id = id,
				  .about = { .start_ticks = U64_UNKNOWN, .uid = U64_UNKNOWN } };
	return &t->items[t->n++];
}

/* The process with this number, new if need be. NULL: no memory. */
static struct counted *get(struct syscall_table *t, uint32_t id)
{
	struct counted *c = find(t, id);

	if (c)
		return c;
	if (map_put(&t->by_id, id, t->n) < 0)
		return NULL;
	c = append(t, id);
	if (!c)
		map_remove(&t->by_id, id);
	return c;
}

/* There are few of these, if any. */
static struct counted *get_tree(struct syscall_table *t, uint64_t tag)
{
	struct counted *c;

	for (size_t i = 0; i < t->n; i++)
		if (t->items[i].id == 0 && t->items[i].about.tag == tag)
			return &t->items[i];
	c = append(t, 0);
	if (c)
		c->about.tag = tag;
	return c;
}

static void introduce(struct counted *c, const struct syscall_owner *owner, long clock_ticks)
{
	c->about.pid = (pid_t)owner->pid;
	c->about.tag = owner->tag;
	c->about.start_ticks = ns_to_ticks(owner->start_boot_ns, clock_ticks);
	c->about.uid = owner->uid;
}

int syscall_table_news(struct syscall_table *t, const struct syscall_news *news, long clock_ticks)
{
	struct counted *c = get(t, news->id);

	if (!c)
		return -ENOMEM;
	introduce(c, &news->owner, clock_ticks);
	if (news->is_end)
		c->about.is_ended = c->is_owner_told = true;
	return 0;
}

/* Its row, new if need be. NULL: no memory. */
static struct syscall_row *get_row(struct counted *c, uint32_t nr)
{
	size_t at = 0, high = c->n_rows, cap_order = c->cap_rows;

	while (at < high) {
		size_t middle = (at + high) / 2;

		if (c->rows[c->order[middle]].nr < nr)
			at = middle + 1;
		else
			high = middle;
	}
	if (at < c->n_rows && c->rows[c->order[at]].nr == nr)
		return &c->rows[c->order[at]];
	if (ARRAY_RESERVE(c->order, cap_order, c->n_rows + 1) < 0 ||
	    ARRAY_RESERVE(c->rows, c->cap_rows, c->n_rows + 1) < 0)
		return NULL;
	memmove(&c->order[at + 1], &c->order[at], (c->n_rows - at) * sizeof(*c->order));
	c->order[at] = (uint32_t)c->n_rows;
	c->rows[c->n_rows] = (struct syscall_row){ .nr = nr };
	return &c->rows[c->n_rows++];
}

/* An entry of one that has ended may have been deleted and made anew, for a call that came late. */
static int put(struct counted *c, uint32_t nr, const struct syscall_value *value)
{
	struct syscall_row *row = c ? get_row(c, nr) : NULL;

	if (!row)
		return -ENOMEM;
	c->is_new = c->is_new || row->now.count != value->count;
	if (value->count < row->now.count) {
		row->now.count += value->count;
		row->now.errors += value->errors;
		row->now.timed += value->timed;
		row->now.ns += value->ns;
		row->now.wait_ns += value->wait_ns;
		row->now.squares += value->squares;
	} else {
		row->now = *value;
	}
	return 0;
}

int syscall_table_put(struct syscall_table *t, const struct syscall_key *key,
		      const struct syscall_entry *entry, long clock_ticks)
{
	struct counted *c = get(t, key->id);

	if (c && c->about.pid == 0)
		introduce(c, &entry->owner, clock_ticks);
	else if (c && !c->is_owner_told && c->about.uid != entry->owner.uid)
		c->about.uid = U64_UNKNOWN; /* which of the two was last is known at its end only */
	return put(c, key->nr, &entry->value);
}

static void add_times(uint64_t sum[SYSCALL_TIMES], const struct syscall_thread_times *times)
{
	for (size_t i = 0; i < SYSCALL_TIMES; i++)
		sum[i] += times->ns[i];
}

int syscall_table_put_ended(struct syscall_table *t, const struct syscall_thread_times *times)
{
	struct counted *c = find(t, times->id);

	if (!c) /* the last of its threads was told before this one */
		c = get_tree(t, times->owner.tag);
	if (!c)
		return -ENOMEM;
	add_times(c->ended_ns, times);
	return 0;
}

void syscall_table_begin_living(struct syscall_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		memset(t->items[i].living_ns, 0, sizeof(t->items[i].living_ns));
}

void syscall_table_put_living(struct syscall_table *t, const struct syscall_thread_times *times)
{
	struct counted *c = find(t, times->id);

	if (c)
		add_times(c->living_ns, times);
}

int syscall_table_put_tree(struct syscall_table *t, const struct syscall_tree_key *key,
			   const struct syscall_value *value)
{
	if (key->nr >= SYSCALL_TREE_TIME) {
		struct counted *c = get_tree(t, key->tag);

		if (!c)
			return -ENOMEM;
		if (key->nr - SYSCALL_TREE_TIME < SYSCALL_TIMES) /* a total, beside what was told */
			c->living_ns[key->nr - SYSCALL_TREE_TIME] = value->ns;
		return 0;
	}
	return put(get_tree(t, key->tag), key->nr, value);
}

void syscall_table_end_missing(struct syscall_table *t,
			       bool (*is_there)(pid_t pid, uint64_t start_ticks))
{
	for (size_t i = 0; i < t->n; i++) {
		struct counted *c = &t->items[i];

		if (c->id != 0 && !is_there(c->about.pid, c->about.start_ticks))
			c->about.is_ended = true;
	}
}

void syscall_table_end(struct syscall_table *t, uint32_t id)
{
	struct counted *c = find(t, id);

	if (c)
		c->about.is_ended = true;
}

bool syscall_table_is_ended(const struct syscall_table *t, uint32_t id)
{
	const struct counted *c = find(t, id);

	return !c || c->about.is_ended;
}

/* ---- giving out ---- */

uint64_t syscall_scale(uint64_t ns, uint64_t count, uint64_t timed)
{
	__uint128_t scaled;

	if (timed == 0)
		return U64_UNKNOWN;
	scaled = (__uint128_t)ns * count / timed;
	return scaled >= U64_UNKNOWN ? U64_UNKNOWN : (uint64_t)scaled;
}

/* Counters of one entry are written one by one while we read: a part never exceeds the whole. */
static struct syscall_value between(const struct syscall_value *now,
				    const struct syscall_value *before)
{
	struct syscall_value v = { now->count - before->count,	   now->errors - before->errors,
				   now->timed - before->timed,	   now->ns - before->ns,
				   now->wait_ns - before->wait_ns, now->squares - before->squares };

	if (v.wait_ns > v.ns)
		v.wait_ns = v.ns;
	return v;
}

/*
 * Calls of one kind wait very differently, most not at all: a few that were timed of many say
 * nothing of the others. On a CPU they take much the same time, and how far a sum of that is off is
 * told beside it (time_variance_ns2).
 */
#define FEW_TIMED 30

static bool is_wait_known(const struct syscall_value *v)
{
	return v->timed > 0 && (v->timed >= FEW_TIMED || 2 * v->timed >= v->count);
}

static struct syscall_use use_of(uint32_t nr, const struct syscall_value *v, struct arena *arena)
{
	char text[SYSCALL_NAME_BYTES];
	const char *name = syscall_name(nr, text);
	bool is_untimed = v->timed == 0 && v->count > 0;

	if (name == text)
		name = arena_strdup(arena, text);
	return (struct syscall_use){
		.name = name ? name : "",
		.count = v->count,
		.errors = v->errors,
		.cpu_ns = is_untimed ? U64_UNKNOWN
				     : syscall_scale(v->ns - v->wait_ns, v->count, v->timed),
		.wait_ns = v->count == 0 || is_wait_known(v)
				   ? syscall_scale(v->wait_ns, v->count, v->timed)
				   : U64_UNKNOWN,
	};
}

/* What is new since *before of each row, or all if that is not wanted. Returns how many have any.
 */
static size_t list_uses(struct counted *c, bool is_fill, struct arena *arena,
			struct syscall_use *uses)
{
	const struct syscall_value none = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < c->n_rows; i++) {
		struct syscall_row *row = &c->rows[c->order[i]];
		struct syscall_value v = between(&row->now, is_fill ? &row->filled : &none);

		if (is_fill)
			row->filled = row->now;
		if (v.count > 0)
			uses[n++] = use_of(row->nr, &v, arena);
	}
	return n;
}

/*
 * The variance of the time of one kind of call on a CPU, in ns^2, as estimated from those that were
 * timed. Of a single one nothing is known about others: as if they differed as much as it is long.
 */
static double time_variance(const struct syscall_value *v)
{
	double n = (double)v->timed, count = (double)v->count;
	double mean = (double)(v->ns - v->wait_ns) / n;
	double unit = SYSCALL_SQUARE_UNIT_NS, spread;

	if (v->timed >= v->count)
		return 0;
	spread = n > 1 ? ((double)v->squares * unit * unit - n * mean * mean) / (n - 1)
		       : mean * mean;
	return count * (count - n) * fmax(spread, 0) / n;
}

static void tell(struct syscall_table *t, struct counted *c, syscalls_fn *fn, void *ctx)
{
	struct syscall_process about = c->about;

	_Static_assert(
		SYSCALL_TIMES == N_TIME_CATEGORIES && SYSCALL_TIME_CPU == TIME_USER &&
			SYSCALL_TIME_CPU_WAIT == TIME_CPU_WAIT && SYSCALL_TIME_DISK == TIME_DISK &&
			SYSCALL_TIME_PAGE_FAULT == TIME_PAGE_FAULT &&
			SYSCALL_TIME_FILE_LOCK == TIME_FILE_LOCK &&
			SYSCALL_TIME_PIPE == TIME_PIPE && SYSCALL_TIME_SOCKET == TIME_SOCKET &&
			SYSCALL_TIME_EVENTS == TIME_EVENTS && SYSCALL_TIME_TIMER == TIME_TIMER &&
			SYSCALL_TIME_GPU == TIME_GPU && SYSCALL_TIME_STOPPED == TIME_STOPPED &&
			SYSCALL_TIME_OTHER == TIME_OTHER,
		"both sides have one list");
	struct arena arena = ARENA_INIT;
	const struct syscall_value none = { 0 };
	double sum = 0;

	if (ARRAY_RESERVE(t->uses, t->cap_uses, c->n_rows) < 0)
		return;
	about.uses = t->uses;
	about.n_uses = list_uses(c, false, &arena, t->uses);
	/* What was never timed is unknown, and in no sum that has an error. */
	for (size_t i = 0; i < c->n_rows; i++) {
		const struct syscall_value v = between(&c->rows[i].now, &none);

		if (v.timed > 0)
			sum += time_variance(&v);
	}
	about.time_variance_ns2 = sum;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		about.time.ns[i] = c->ended_ns[i] + c->living_ns[i];
	about.time.evidence =
		time_ledger_total(&about.time) > 0 ? EVIDENCE_EXACT : EVIDENCE_UNKNOWN;
	fn(ctx, &about);
	arena_release(&arena);
}

void syscall_table_each(struct syscall_table *t, bool only_ended, syscalls_fn *fn, void *ctx)
{
	for (size_t i = 0; i < t->n; i++)
		if (!only_ended || t->items[i].about.is_ended)
			tell(t, &t->items[i], fn, ctx);
}

void syscall_table_each_living(struct syscall_table *t, uint64_t tag, syscalls_fn *fn, void *ctx)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->items[i].about.tag == tag && !t->items[i].about.is_ended)
			tell(t, &t->items[i], fn, ctx);
}

static int compare_pid(const void *key, const void *item)
{
	return COMPARE(*(const pid_t *)key, ((const struct proc_sample *)item)->key.pid);
}

/* Who was born later has a larger pid, mostly: so it stands behind the one before. */
static struct proc_sample *find_sample(const struct snapshot *s, pid_t pid, size_t hint)
{
	if (hint < s->n_processes && s->processes[hint].key.pid == pid)
		return &s->processes[hint];
	return bsearch(&pid, s->processes, s->n_processes, sizeof(*s->processes), compare_pid);
}

void syscall_table_fill(struct syscall_table *t, struct snapshot *s)
{
	static const struct syscall_use none[1]; /* which is not unknown */
	size_t hint = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct counted *c = &t->items[i];
		struct proc_sample *p = find_sample(s, c->about.pid, hint);
		struct syscall_use *uses;

		if (!p)
			continue;
		hint = (size_t)(p - s->processes) + 1;
		if (p->key.start_ticks != c->about.start_ticks)
			continue;
		p->syscalls = none;
		p->n_syscalls = 0;
		if (!c->is_new)
			continue;
		uses = arena_alloc(&s->arena, (c->n_rows + 1) * sizeof(*uses));
		p->syscalls = uses;
		if (!uses)
			continue;
		p->n_syscalls = list_uses(c, true, &s->arena, uses);
		c->is_new = false;
	}
}

/* Those that have ended, or those of a tree (0: none). */
static void drop(struct syscall_table *t, bool is_ended, uint64_t tag)
{
	size_t kept = 0;

	map_clear(&t->by_id);
	for (size_t i = 0; i < t->n; i++) {
		const struct syscall_process *about = &t->items[i].about;

		if ((is_ended && about->is_ended) || (tag && about->tag == tag)) {
			release_rows(&t->items[i]);
			continue;
		}
		t->items[kept] = t->items[i];
		if (t->items[kept].id != 0) /* the map has had room for more */
			(void)map_put(&t->by_id, t->items[kept].id, kept);
		kept++;
	}
	t->n = kept;
}

void syscall_table_drop_ended(struct syscall_table *t)
{
	size_t i = 0;

	while (i < t->n && !t->items[i].about.is_ended)
		i++;
	if (i < t->n)
		drop(t, true, 0);
}

void syscall_table_drop_tree(struct syscall_table *t, uint64_t tag)
{
	drop(t, false, tag);
}
