#include <bpf/bpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/macros.h"
#include "bpf/syscalls.skel.h"
#include "sources/ebpf.h"
#include "sources/syscalls/syscall_table.h"

#define WHAT "system calls"

#define FIRST_ENTRIES 4096 /* half a megabyte, and always walked */
#define MAX_ENTRIES 262144
#define MAX_WHOLE_ENTRIES 32768 /* where all of them take memory from the beginning */
#define BATCH 2048		/* entries per call of the kernel */
#define MAX_TREES 4096
#define MAX_ADOPTIONS 64 /* rounds; each finds the children of those found before */

struct syscalls {
	struct syscalls_bpf *skel;
	struct ring_buffer *ring;
	struct bpf_link *links[6]; /* those that count; NULL while it is not armed */
	struct syscall_table table;
	struct map tags;      /* of the trees that are tracked */
	bool is_gathering;    /* roots are marked, and what is below them later */
	uint64_t n_more_gone; /* entries of more_values that were deleted */
	struct syscalls_lost told_lost;
	uint64_t seen_lost_news;
	int n_make_up; /* readings for which ends are still looked for that were not told */
	long clock_ticks;
	union {
		struct syscall_key of_processes[BATCH];
		struct syscall_tree_key of_trees[BATCH];
	} keys;
	union {
		struct syscall_entry of_processes[BATCH];
		struct syscall_value of_trees[BATCH];
	} values;
};

/* ---- life cycle ---- */

static bool has_tag(const struct syscalls *s, uint64_t tag)
{
	uint64_t at;

	return map_get(&s->tags, tag, &at);
}

static int take_news(void *ctx, void *bytes, size_t len)
{
	struct syscalls *s = ctx;
	const struct syscall_news *told = bytes;

	if (len >= sizeof(struct syscall_thread_times))
		return has_tag(s, told->owner.tag) ? syscall_table_put_ended(&s->table, bytes) : 0;
	if (len < sizeof(*told) || !has_tag(s, told->owner.tag))
		return 0;
	return syscall_table_news(&s->table, told, s->clock_ticks);
}

static int start(struct syscalls *s, const struct syscalls_options *o)
{
	int r;
	bool may_grow;
	uint32_t n, first;

	s->skel = syscalls_bpf__open();
	if (!s->skel)
		return -errno;
	s->skel->rodata->time_every = o && o->time_every > 1 ? o->time_every : 1;
	s->skel->rodata->is_as_old = o && o->is_as_old;
	s->skel->rodata->has_no_times = o && o->has_no_times;
	wait_calls_fill((uint8_t *)s->skel->rodata->waits, sizeof(s->skel->rodata->waits));
	may_grow = ebpf_may_maps_grow() && !(o && o->is_as_old);
	n = may_grow ? MAX_ENTRIES : MAX_WHOLE_ENTRIES;
	r = may_grow ? 0 : bpf_map__set_map_flags(s->skel->maps.more_values, 0);
	if (o && o->max_entries)
		n = o->max_entries;
	first = n < FIRST_ENTRIES ? n : FIRST_ENTRIES;
	if (r == 0)
		r = bpf_map__set_max_entries(s->skel->maps.values, first);
	if (r == 0)
		r = bpf_map__set_max_entries(s->skel->maps.more_values, n > first ? n - first : 1);
	if (r == 0 && o && o->news_bytes)
		r = bpf_map__set_max_entries(s->skel->maps.news, o->news_bytes);
	if (r == 0)
		r = syscalls_bpf__load(s->skel);
	if (r < 0)
		return r;
	s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.news), take_news, s, NULL);
	return s->ring ? 0 : -errno;
}

static void close_syscalls(struct syscalls **s)
{
	*s = syscalls_close(*s);
}

int syscalls_open(const struct syscalls_options *options, struct syscalls **ret, struct err *err)
{
	CLEANUP(close_syscalls) struct syscalls *s = NULL;
	int r = ebpf_check(err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->clock_ticks = sysconf(_SC_CLK_TCK);
	r = start(s, options);
	malloc_trim(0); /* what the kernel says of itself took 14 MB, and is needed no more */
	if (r < 0)
		return ebpf_fail(err, r, WHAT);
	*ret = TAKE_PTR(s);
	return 0;
}

static void disarm(struct syscalls *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->links); i++) {
		bpf_link__destroy(s->links[i]);
		s->links[i] = NULL;
	}
}

struct syscalls *syscalls_close(struct syscalls *s)
{
	if (!s)
		return NULL;
	disarm(s);
	ring_buffer__free(s->ring);
	syscalls_bpf__destroy(s->skel);
	syscall_table_release(&s->table);
	map_release(&s->tags);
	free(s);
	return NULL;
}

/* ---- whom to count ---- */

bool syscalls_is_armed(const struct syscalls *s)
{
	return s->links[0] != NULL;
}

/* Who ran on each CPU when it was last disarmed does not any more. */
static int forget_running(struct syscalls *s)
{
	int n_cpus = libbpf_num_possible_cpus(), r;
	uint32_t zero = 0;
	void *none;

	if (n_cpus < 0)
		return n_cpus;
	none = calloc((size_t)n_cpus, sizeof(struct syscall_cpu));
	if (!none)
		return -ENOMEM;
	r = bpf_map_update_elem(bpf_map__fd(s->skel->maps.running), &zero, none, BPF_ANY);
	r = r < 0 ? -errno : 0;
	free(none);
	return r;
}

static int arm(struct syscalls *s)
{
	/* Switches first: from then on what the CPUs have is of the threads that they run. */
	struct bpf_program *const programs[] = {
		s->skel->progs.on_switch, s->skel->progs.on_fork,  s->skel->progs.on_exec,
		s->skel->progs.on_exit,	  s->skel->progs.on_leave, s->skel->progs.on_enter
	};

	int r;

	_Static_assert(ARRAY_SIZE(programs) == ARRAY_SIZE(s->links), "a link for each");
	if (syscalls_is_armed(s))
		return 0;
	r = forget_running(s);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(programs) && !s->links[i]; i++) {
		s->links[i] = bpf_program__attach(programs[i]);
		if (!s->links[i]) {
			r = -errno;
			disarm(s);
			return r;
		}
	}
	return 0;
}

/* Runs one of the iterators over all tasks. */
static int walk_tasks(struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	CLEANUP(close_fd) int fd = -1;
	char byte;
	int r = 0;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0 || read(fd, &byte, 1) < 0)
		r = -errno;
	bpf_link__destroy(link);
	return r;
}

int syscalls_check(struct syscalls *s, struct err *err)
{
	int r = arm(s);

	if (r == 0)
		r = walk_tasks(s->skel->progs.introduce);
	if (s->tags.len == 0)
		disarm(s);
	return r < 0 ? ebpf_fail(err, r, WHAT) : 0;
}

static int mark_root(struct syscalls *s, pid_t pid, uint64_t tag, bool is_silent)
{
	const struct syscall_kept mark = {
		.thread.mark = { .owner = { .tag = tag }, .is_root = 1, .is_silent = is_silent }
	};
	CLEANUP(close_fd) int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int fd = bpf_map__fd(s->skel->maps.threads);
	struct syscall_kept old;

	if (pid_fd < 0)
		return -errno;
	if (bpf_map_lookup_elem(fd, &pid_fd, &old) == 0) {
		if (old.thread.mark.owner.tag == tag)
			return 0;
		syscall_table_end(&s->table, old.thread.mark.id); /* of the tree that it was in */
	}
	if (bpf_map_update_elem(fd, &pid_fd, &mark, BPF_ANY) < 0)
		return -errno;
	return s->is_gathering ? 0 : walk_tasks(s->skel->progs.introduce);
}

/* Its other threads and its descendants. Those that they start meanwhile inherit the mark. */
static int mark_others(struct syscalls *s, uint64_t tag)
{
	int r = 0;

	s->skel->bss->adopting = tag;
	for (int i = 0; i < MAX_ADOPTIONS && r == 0; i++) {
		s->skel->bss->n_adopted = 0;
		r = walk_tasks(s->skel->progs.adopt);
		if (s->skel->bss->n_adopted == 0)
			break;
	}
	return r;
}

static int track(struct syscalls *s, pid_t pid, uint64_t tag, bool is_silent)
{
	bool was_tracked = has_tag(s, tag);
	int r = !was_tracked && s->tags.len == MAX_TREES ? -ENOSPC : map_put(&s->tags, tag, 0);

	if (r == 0)
		r = arm(s);
	if (r == 0)
		r = mark_root(s, pid, tag, is_silent);
	if (r == 0 && !s->is_gathering)
		r = mark_others(s, tag);
	if (r < 0 && !was_tracked)
		syscalls_untrack(s, tag);
	return r;
}

/*
 * Where no tree was tracked, none of those that begin now is inside one whose processes are marked
 * already: each takes after its parent, whichever root that is of.
 */
void syscalls_begin_many(struct syscalls *s)
{
	s->is_gathering = s->tags.len == 0;
}

int syscalls_end_many(struct syscalls *s)
{
	int r;

	if (!s->is_gathering)
		return 0;
	s->is_gathering = false;
	r = s->tags.len > 0 ? walk_tasks(s->skel->progs.introduce) : 0;
	return r < 0 || s->tags.len == 0 ? r : mark_others(s, 0);
}

int syscalls_track(struct syscalls *s, pid_t pid, uint64_t tag)
{
	return track(s, pid, tag, false);
}

int syscalls_track_runner(struct syscalls *s, pid_t pid, uint64_t tag)
{
	return track(s, pid, tag, true);
}

/* ---- what was counted ---- */

/* Returns how many there were. */
static uint32_t delete_keys(const struct bpf_map *map, const struct syscall_key *keys, uint32_t n)
{
	uint32_t done = n;
	int fd = bpf_map__fd(map);

	if (n == 0 || bpf_map_delete_batch(fd, keys, &done, NULL) == 0)
		return n;
	if (done >= n) /* none was looked at */
		done = 0;
	for (uint32_t i = n; i-- > done;)
		n -= bpf_map_delete_elem(fd, &keys[i]) < 0;
	return n;
}

static void take_processes(struct syscalls *s, const struct bpf_map *map, uint32_t n)
{
	struct syscall_key *keys = s->keys.of_processes;
	uint32_t n_gone = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct syscall_entry *entry = &s->values.of_processes[i];
		bool is_tracked = has_tag(s, entry->owner.tag);

		if (is_tracked)
			(void)syscall_table_put(&s->table, &keys[i], entry, s->clock_ticks);
		/* Of a process that has ended nothing more comes. */
		if (!is_tracked || syscall_table_is_ended(&s->table, keys[i].id))
			keys[n_gone++] = keys[i];
	}
	n_gone = delete_keys(map, keys, n_gone);
	if (map == s->skel->maps.more_values)
		s->n_more_gone += n_gone;
}

static void take_trees(struct syscalls *s, const struct bpf_map *map, uint32_t n)
{
	int fd = bpf_map__fd(map);

	for (uint32_t i = 0; i < n; i++) {
		const struct syscall_tree_key *key = &s->keys.of_trees[i];

		if (has_tag(s, key->tag))
			(void)syscall_table_put_tree(&s->table, key, &s->values.of_trees[i]);
		else
			(void)bpf_map_delete_elem(fd, key);
	}
}

static int read_map(struct syscalls *s, const struct bpf_map *map,
		    void (*take)(struct syscalls *s, const struct bpf_map *map, uint32_t n))
{
	int fd = bpf_map__fd(map), r;
	uint32_t from = 0, to = 0, n;
	bool is_first = true;

	do {
		n = BATCH;
		r = bpf_map_lookup_batch(fd, is_first ? NULL : &from, &to, &s->keys, &s->values, &n,
					 NULL);
		if (r < 0 && errno != ENOENT)
			return -errno;
		take(s, map, n);
		from = to;
		is_first = false;
	} while (r == 0);
	return 0;
}

/* Where the time of those that live went so far. */
static int read_times(struct syscalls *s)
{
	struct bpf_link *link = bpf_program__attach_iter(s->skel->progs.dump_times, NULL);
	struct syscall_thread_times *times = (void *)&s->values;
	CLEANUP(close_fd) int fd = -1;
	ssize_t n = 0;
	size_t len = 0;

	if (!link)
		return -errno;
	syscall_table_begin_living(&s->table);
	fd = bpf_iter_create(bpf_link__fd(link));
	/* Whole ones at a time, as they are written. */
	while (fd >= 0 && (n = read(fd, (char *)times + len, sizeof(s->values) - len)) > 0) {
		const size_t n_times = (len + (size_t)n) / sizeof(*times);

		for (size_t i = 0; i < n_times; i++)
			if (has_tag(s, times[i].owner.tag))
				syscall_table_put_living(&s->table, &times[i]);
		len = len + (size_t)n - n_times * sizeof(*times);
		memmove(times, &times[n_times], len);
	}
	if (fd < 0 || n < 0)
		n = -errno;
	bpf_link__destroy(link);
	return (int)n;
}

static bool is_there(pid_t pid, uint64_t start_ticks)
{
	uint64_t now;
	int r = proc_start_ticks(pid, &now);

	return r < 0 ? r != -ENOENT && r != -ESRCH : now == start_ticks;
}

/* One that had ended may not have been waited for at the first look. */
#define MAKE_UP_READINGS 2

/* Without the news of their ends they would be kept for ever. */
static void make_up_for_lost_news(struct syscalls *s)
{
	uint64_t lost = s->skel->bss->n_lost_news;

	if (lost != s->seen_lost_news)
		s->n_make_up = MAKE_UP_READINGS;
	s->seen_lost_news = lost;
	if (s->n_make_up == 0)
		return;
	s->n_make_up--;
	syscall_table_end_missing(&s->table, is_there);
}

/* The kernel walks along all places of a map, also where nothing stands: not unless something is
 * new. */
static int take_in(struct syscalls *s, bool is_tree_gone)
{
	bool was_short = s->skel->bss->n_lost_news != s->seen_lost_news || s->n_make_up > 0;
	int r;

	make_up_for_lost_news(s); /* of processes that were seen in the values the last time */
	r = ring_buffer__consume(s->ring); /* first: what has ended is complete in the values */
	if (r < 0 || (r == 0 && !was_short && !is_tree_gone && !s->skel->bss->has_new))
		return r;
	s->skel->bss->has_new = false; /* before: what comes meanwhile is read again */
	__sync_synchronize();
	r = read_map(s, s->skel->maps.values, take_processes);
	if (r == 0 && s->skel->bss->n_more != s->n_more_gone)
		r = read_map(s, s->skel->maps.more_values, take_processes);
	return r < 0 ? r : read_map(s, s->skel->maps.tree_values, take_trees);
}

/* Without the marks nothing more is counted for it; what was is in nobody's way. */
void syscalls_untrack(struct syscalls *s, uint64_t tag)
{
	if (!map_remove(&s->tags, tag))
		return;
	s->skel->bss->forgetting = tag;
	(void)walk_tasks(s->skel->progs.forget); /* or it costs a little, and is not told */
	if (s->tags.len == 0)
		disarm(s);
	(void)take_in(s, true);
	syscall_table_drop_tree(&s->table, tag);
}

int syscalls_read(struct syscalls *s, struct syscalls_lost *ret)
{
	struct syscalls_lost lost;
	int r = take_in(s, false);

	if (r < 0)
		return r;
	lost = (struct syscalls_lost){ s->skel->bss->n_lost, s->skel->bss->n_lost_marks };
	*ret = (struct syscalls_lost){ lost.calls - s->told_lost.calls,
				       lost.threads - s->told_lost.threads };
	s->told_lost = lost;
	return 0;
}

void syscalls_fill(struct syscalls *s, struct snapshot *snap)
{
	syscall_table_fill(&s->table, snap);
}

/* Trees that are not tracked any more may still be marked. */
struct filter {
	const struct syscalls *s;
	syscalls_fn *fn;
	void *ctx;
};

static void pass_tracked(void *ctx, const struct syscall_process *p)
{
	const struct filter *f = ctx;

	if (has_tag(f->s, p->tag))
		f->fn(f->ctx, p);
}

void syscalls_each(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
	struct filter filter = { s, fn, ctx };

	if (syscalls_is_armed(s))
		(void)read_times(s); /* or those of the living are missing */
	syscall_table_each(&s->table, false, pass_tracked, &filter);
	syscall_table_drop_ended(&s->table);
}

void syscalls_each_living(struct syscalls *s, uint64_t tag, syscalls_fn *fn, void *ctx)
{
	if (has_tag(s, tag))
		syscall_table_each_living(&s->table, tag, fn, ctx);
}

void syscalls_each_ended(struct syscalls *s, syscalls_fn *fn, void *ctx)
{
	struct filter filter = { s, fn, ctx };

	syscall_table_each(&s->table, true, pass_tracked, &filter);
	syscall_table_drop_ended(&s->table);
}
