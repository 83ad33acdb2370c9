#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/host.h"
#include "sources/proc_text.h"
#include "sources/process_cache.h"
#include "sources/sample_feed.h"
#include "sources/sources.h"
#include "sources/tasks.h"

/* ---- pids, ascending ---- */

struct pid_list {
	pid_t *items;
	size_t n, cap;
};

/* One that is larger than all others. -ENOMEM. */
static int pid_list_add(struct pid_list *list, pid_t pid)
{
	if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return -ENOMEM;
	list->items[list->n++] = pid;
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	return COMPARE(*(const pid_t *)a, *(const pid_t *)b);
}

/* The kernel lists pids in order already; a captured tree does not. */
static void pid_list_sort(struct pid_list *list)
{
	for (size_t i = 1; i < list->n; i++) {
		if (list->items[i - 1] > list->items[i]) {
			qsort(list->items, list->n, sizeof(*list->items), compare_pids);
			return;
		}
	}
}

/* Replaces the content by the pids that the folder proc shows, from its beginning. */
static int pid_list_read(struct pid_list *list, DIR *proc)
{
	pid_t pid;

	list->n = 0;
	rewinddir(proc);
	while ((pid = dir_next_pid(proc)) > 0)
		if (pid_list_add(list, pid) < 0)
			return -ENOMEM;
	if (errno != 0)
		return -errno;
	pid_list_sort(list);
	return 0;
}

/* Replaces the content by these, in ascending order and each once. -ENOMEM. */
static int pid_list_set(struct pid_list *list, const pid_t *pids, size_t n)
{
	size_t kept = 0;

	list->n = 0;
	for (size_t i = 0; i < n; i++)
		if (pid_list_add(list, pids[i]) < 0)
			return -ENOMEM;
	pid_list_sort(list);
	for (size_t i = 0; i < list->n; i++)
		if (i == 0 || list->items[i] != list->items[i - 1])
			list->items[kept++] = list->items[i];
	list->n = kept;
	return 0;
}

/* Processes by pid, ascending. */
struct roster {
	struct process_cache **items;
	size_t n, cap;
};

struct collector {
	int root_fd;
	DIR *proc;
	struct reader reader;
	long clock_ticks;
	uint64_t (*now_wall_ns)(void);

	struct tasks *tasks;	 /* NULL: /proc */
	uint64_t tasks_boot_ns;	 /* when they were read */
	struct err tasks_err;	 /* why not */
	struct task_list listed; /* as of the last scan, of all; items NULL: it was not by them */
	struct feed feed;	 /* of another collector */
	struct task_process **fed;
	size_t cap_fed;

	bool has_gpu;
	struct gpus *gpus;
	bool is_between;
	struct buf text;
	struct pid_list pids;
	struct roster roster; /* as of the last scan */
	struct roster next;   /* the one a scan is building */
	uint64_t last_scan_boot_ns;
};

/* ---- life cycle ---- */

static void free_collector(struct collector **c)
{
	*c = collector_free(*c);
}

int collector_new(const struct collector_options *o, struct collector **ret, struct err *err)
{
	CLEANUP(free_collector) struct collector *c = calloc(1, sizeof(*c));
	long page_bytes = o->page_bytes ? o->page_bytes : sysconf(_SC_PAGESIZE);

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->clock_ticks = o->clock_ticks ? o->clock_ticks : sysconf(_SC_CLK_TCK);
	if (c->clock_ticks <= 0 || page_bytes <= 0)
		return err_set(err, -EINVAL, "clock ticks and page size must be positive");
	c->reader = (struct reader){
		.mask = o->mask,
		.page_bytes = (uint64_t)page_bytes,
		.now_boot_ns = o->now_boot_ns ? o->now_boot_ns : clock_boot_ns,
		.command = BUF_INIT,
	};
	c->now_wall_ns = o->now_wall_ns ? o->now_wall_ns : clock_wall_ns;
	c->text = (struct buf)BUF_INIT;
	c->last_scan_boot_ns = U64_UNKNOWN;
	c->root_fd = o->root_fd;
	c->has_gpu = sources_has_gpu(o->root_fd);
	c->gpus = o->gpus;
	c->is_between = o->is_between;

	if (o->root_fd == -EXDEV) /* of proc_open_root() */
		return err_set(err, -EXDEV, PROC_IS_FOREIGN);
	c->proc = dir_open_at(o->root_fd, "proc");
	if (!c->proc)
		return err_set(err, -errno, "cannot open /proc: %s", strerror(errno));
	if (reader_init(&c->reader, dirfd(c->proc)) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	/* The iterator knows the living machine only, and has its numbers from this very kernel. */
	if (!o->want_ebpf)
		err_set(&c->tasks_err, -EOPNOTSUPP,
			"loading the eBPF program costs more than it saves in a short run");
	else if (!reader_is_live(&c->reader))
		err_set(&c->tasks_err, -EOPNOTSUPP, "this is not the living machine");
	else
		(void)tasks_open(o->is_as_old, &c->tasks, &c->tasks_err);
	*ret = TAKE_PTR(c);
	return 0;
}

static void roster_release(struct roster *roster, struct reader *r)
{
	for (size_t i = 0; i < roster->n; i++)
		process_cache_free(roster->items[i], r);
	free(roster->items);
	*roster = (struct roster){ 0 };
}

struct collector *collector_free(struct collector *c)
{
	if (!c)
		return NULL;
	roster_release(&c->roster, &c->reader);
	roster_release(&c->next, &c->reader);
	tasks_close(c->tasks);
	feed_release(&c->feed);
	free(c->fed);
	reader_release(&c->reader);
	buf_release(&c->text);
	free(c->pids.items);
	if (c->proc)
		closedir(c->proc);
	free(c);
	return NULL;
}

/* ---- scanning ---- */

/* Some other part of the program needs files: gives back all that are kept. */
static void close_all_files(struct collector *c)
{
	for (size_t i = 0; i < c->roster.n; i++)
		if (c->roster.items[i])
			process_cache_close_files(c->roster.items[i], &c->reader);
	for (size_t i = 0; i < c->next.n; i++)
		process_cache_close_files(c->next.items[i], &c->reader);
	c->reader.budget.max = 0;
	c->reader.budget.is_short = false;
}

static int read_stat_once(struct collector *c, struct process_cache *k, struct pid_stat *ret)
{
	ssize_t n = reader_read(&c->reader, &k->files[KEPT_STAT], k->key.pid, "stat");

	return n < 0 ? (int)n : pid_stat_parse(c->reader.text, ret);
}

/* A second look where the first met a file of the pid's former owner, or a want of files. */
static int read_stat(struct collector *c, struct process_cache *k, struct pid_stat *ret)
{
	bool was_kept = k->files[KEPT_STAT] >= 0;
	int r = read_stat_once(c, k, ret);

	if (r < 0 && c->reader.budget.is_short)
		close_all_files(c);
	else if (r == 0 || !was_kept)
		return r;
	reader_close(&c->reader, &k->files[KEPT_STAT]);
	return read_stat_once(c, k, ret);
}

/*
 * When the scan began: that it is the same moment for all lets the store keep it
 * once. One that was born since is as old as nothing; one that is not born yet
 * cannot be.
 */
static double age_seconds(uint64_t start_ns, uint64_t scan_boot_ns, uint64_t now_boot_ns)
{
	if (u64_known(start_ns) && start_ns > scan_boot_ns && start_ns <= now_boot_ns)
		return 0;
	return u64_to_seconds(u64_delta(scan_boot_ns, start_ns));
}

/*
 * The wall clock may be set at any time: what it said at the first sight stays.
 * A newborn, which the last scan could not have seen, had used no CPU time when that began. Its
 * start is known to the tick only; not having been seen settles the tick in which that scan began.
 */
static void meet(const struct collector *c, const struct snapshot *s, uint64_t start_ticks,
		 struct process_cache *k)
{
	uint64_t boot_wall_ns = u64_delta(s->wall_ns, s->boot_ns);
	uint64_t born_ns = ticks_to_ns(start_ticks + 1, c->clock_ticks);

	k->key.start_ticks = start_ticks;
	k->start_wall_ns = u64_add(boot_wall_ns, ticks_to_ns(start_ticks, c->clock_ticks));
	if (u64_known(c->last_scan_boot_ns) && u64_known(born_ns) && born_ns > c->last_scan_boot_ns)
		k->ticks = k->fine = (struct cpu_mark){ 0, c->last_scan_boot_ns };
}

/*
 * A sample of the process with what is known of it: k, or NULL for a pid that is new. It goes to
 * the next roster. NULL: no memory.
 */
static struct proc_sample *begin_sample(struct collector *c, struct snapshot *s, pid_t pid,
					uint64_t start_ticks, struct process_cache **k)
{
	struct proc_sample *p;

	/* Another process has taken the pid: nothing that was known holds for it. */
	if (*k && u64_known((*k)->key.start_ticks) && (*k)->key.start_ticks != start_ticks)
		*k = process_cache_free(*k, &c->reader);
	if (!*k)
		*k = process_cache_new(pid);
	if (!*k)
		return NULL;
	if (!u64_known((*k)->key.start_ticks))
		meet(c, s, start_ticks, *k);
	c->next.items[c->next.n++] = *k;
	p = snapshot_add_process(s);
	if (p) {
		p->key = (*k)->key;
		p->start_wall_ns = (*k)->start_wall_ns;
	}
	return p;
}

/* Not that the process is gone or hidden: we could not look, and must not report it as gone. */
static bool is_our_fault(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/*
 * Adds the process to the snapshot and to the next roster; takes k, which is
 * NULL for a pid that is new. A process that is gone or hidden is left out.
 */
static int scan_process(struct collector *c, pid_t pid, struct process_cache *k, struct snapshot *s)
{
	struct proc_sample *p;
	struct pid_stat st;
	int r;

	if (!k)
		k = process_cache_new(pid);
	if (!k)
		return -ENOMEM;
	r = read_stat(c, k, &st);
	if (r < 0 || st.pid != pid) {
		process_cache_free(k, &c->reader);
		return is_our_fault(r) ? r : 0;
	}
	if (k->is_by_task)
		process_cache_change_rung(k, &c->reader);
	p = begin_sample(c, s, pid, st.start_ticks, &k);
	if (!p)
		return -ENOMEM;
	k->is_by_task = false;
	p->ppid = st.ppid;
	p->state = st.state;
	memcpy(p->comm, st.comm, sizeof(p->comm));
	p->boot_ns = c->reader.now_boot_ns();
	p->age_seconds =
		age_seconds(ticks_to_ns(st.start_ticks, c->clock_ticks), s->boot_ns, p->boot_ns);
	p->user_ns = ticks_to_ns(st.user_ticks, c->clock_ticks);
	p->system_ns = ticks_to_ns(st.system_ticks, c->clock_ticks);
	p->child_user_ns = ticks_to_ns(st.child_user_ticks, c->clock_ticks);
	p->child_system_ns = ticks_to_ns(st.child_system_ticks, c->clock_ticks);
	p->minor_faults = st.minor_faults;
	p->major_faults = st.major_faults;
	p->threads = st.threads;
	process_cache_count_ticks(k, p);
	if (k->image != st.image)
		k->is_due = true;
	k->image = st.image;
	return 0;
}

/* Both lists ascend by pid, so one walk along them pairs old acquaintances with the living. */
static struct process_cache *take_acquaintance(struct collector *c, size_t *at, pid_t pid)
{
	struct roster *old = &c->roster;
	struct process_cache *found;

	for (; *at < old->n && old->items[*at]->key.pid < pid; (*at)++)
		old->items[*at] = process_cache_free(old->items[*at], &c->reader);
	if (*at == old->n || old->items[*at]->key.pid != pid)
		return NULL;
	found = TAKE_PTR(old->items[*at]);
	(*at)++;
	return found;
}

/* As scan_process(), by what the task iterator has said. */
static int scan_task(struct collector *c, const struct task_process *t, struct process_cache *k,
		     struct snapshot *s)
{
	uint64_t start_ticks = ns_to_ticks(t->start_boot_ns, c->clock_ticks);
	struct proc_sample *p;

	if (k && !k->is_by_task)
		process_cache_change_rung(k, &c->reader);
	p = begin_sample(c, s, (pid_t)t->head.pid, start_ticks, &k);
	if (!p)
		return -ENOMEM;
	k->is_by_task = true;
	p->boot_ns = c->tasks_boot_ns;
	p->age_seconds = age_seconds(t->start_boot_ns, s->boot_ns, p->boot_ns);
	task_fill_sample(t, c->reader.page_bytes, p);
	process_cache_take_task(k, t, p);
	return 0;
}

static void begin_scan(struct collector *c, struct snapshot *s)
{
	const struct host_units units = { c->clock_ticks, c->reader.page_bytes };

	snapshot_reset(s);
	c->listed = (struct task_list){ 0 };
	s->boot_ns = c->reader.now_boot_ns();
	s->wall_ns = c->now_wall_ns();
	if (c->reader.budget.is_short)
		close_all_files(c);
	if (host_read(c->reader.proc_fd, &units, &c->text, s) < 0) { /* for want of files */
		close_all_files(c);
		(void)host_read(c->reader.proc_fd, &units, &c->text,
				s); /* the rest stays unknown */
	}
	if (!c->has_gpu)
		s->gpus = arena_alloc(&s->arena,
				      sizeof(*s->gpus)); /* an empty list: there are none */
	else if (c->gpus)
		gpus_fill(c->gpus, s);
}

static int cannot_read(struct err *err, int r)
{
	return err_set(err, r, "cannot read the processes: %s", strerror(-r));
}

/*
 * One walk along the pids: what the iterator has, if it was asked, and from /proc those of c->pids
 * that it has not. Most of these are gone; but it may leave out what lives, as Linux 6.18 does with
 * pid 1 in a virtual machine.
 */
static int scan_listed(struct collector *c, const struct task_list *list, struct snapshot *s,
		       struct err *err)
{
	size_t at = 0, i = 0, j = 0;
	struct roster scanned;
	int r = 0;

	if (ARRAY_RESERVE(c->next.items, c->next.cap, list->n + c->pids.n) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	while ((i < list->n || j < c->pids.n) && r == 0) {
		pid_t listed = i < list->n ? (pid_t)list->items[i]->head.pid : INT_MAX;
		pid_t expected = j < c->pids.n ? c->pids.items[j] : INT_MAX;
		bool is_listed = i < list->n && listed <= expected;
		pid_t pid = is_listed ? listed : expected;
		struct process_cache *k = take_acquaintance(c, &at, pid);

		r = is_listed ? scan_task(c, list->items[i], k, s) : scan_process(c, pid, k, s);
		i += is_listed;
		j += j < c->pids.n && expected == pid;
	}
	for (; at < c->roster.n; at++)
		c->roster.items[at] = process_cache_free(c->roster.items[at], &c->reader);
	scanned = c->next;
	c->next = c->roster;
	c->next.n = 0;
	c->roster = scanned;
	if (r < 0)
		return cannot_read(err, r);
	c->last_scan_boot_ns = s->boot_ns;
	return 0;
}

/*
 * These, or all if pids is NULL; c->pids are expected. -EAGAIN: the iterator is no more, so /proc
 * has to do. A want of files or of memory may pass, and does not end it.
 */
static int scan_tasks(struct collector *c, const pid_t *pids, size_t n_pids, struct snapshot *s,
		      struct err *err)
{
	struct task_list list;
	int r;

	if (!c->tasks)
		return -EAGAIN;
	r = tasks_read(c->tasks, pids, n_pids, &list);
	if (is_our_fault(r))
		return cannot_read(err, r);
	if (r < 0) {
		err_set(&c->tasks_err, r, "reading through the task iterator failed: %s",
			strerror(-r));
		c->tasks = tasks_close(c->tasks);
		return -EAGAIN;
	}
	c->tasks_boot_ns = c->reader.now_boot_ns();
	if (!pids)
		c->listed = list;
	return scan_listed(c, &list, s, err);
}

static const struct task_list no_tasks; /* where /proc has to do */

int collector_scan(struct collector *c, struct snapshot *s, struct err *err)
{
	int r;

	begin_scan(c, s);
	/* Those that must not be told gone because the iterator does not show them. */
	r = pid_list_set(&c->pids, &(pid_t){ 1 }, 1);
	for (size_t i = 0; i < c->roster.n && r == 0; i++)
		if (c->roster.items[i]->key.pid != 1)
			r = pid_list_add(&c->pids, c->roster.items[i]->key.pid);
	if (r < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = scan_tasks(c, NULL, 0, s, err);
	if (r == -EAGAIN) {
		r = pid_list_read(&c->pids, c->proc);
		r = r < 0 ? err_set(err, r, "cannot list /proc: %s", strerror(-r))
			  : scan_listed(c, &no_tasks, s, err);
	}
	if (r == 0)
		s->system.process_count = s->n_processes;
	return r;
}

int collector_scan_some(struct collector *c, const pid_t *pids, size_t n, struct snapshot *s,
			struct err *err)
{
	int r;

	begin_scan(c, s);
	if (pid_list_set(&c->pids, pids, n) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = scan_tasks(c, pids ? pids : &(pid_t){ 0 }, n, s, err);
	return r == -EAGAIN ? scan_listed(c, &no_tasks, s, err) : r;
}

/* ---- from one collector to another ---- */

bool collector_write_feed(const struct collector *c, struct feed_sender *to, const pid_t *pids,
			  size_t n, struct buf *out)
{
	return c->listed.items && feed_write(to, &c->listed, c->tasks_boot_ns, pids, n, out) == 0;
}

int collector_take_feed(struct collector *c, const void *bytes, size_t n)
{
	return feed_read(&c->feed, bytes, n);
}

uint64_t collector_feed_boot_ns(const struct collector *c)
{
	return c->feed.boot_ns;
}

int collector_scan_fed(struct collector *c, const pid_t *pids, size_t n, struct snapshot *s,
		       struct err *err)
{
	struct task_list list = { 0 };
	size_t at = 0;

	begin_scan(c, s);
	if (pid_list_set(&c->pids, pids, n) < 0 || ARRAY_RESERVE(c->fed, c->cap_fed, n + 1) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < c->pids.n; i++) {
		while (at < c->feed.n && (pid_t)c->feed.items[at]->head.pid < c->pids.items[i])
			at++;
		if (at < c->feed.n && (pid_t)c->feed.items[at]->head.pid == c->pids.items[i])
			c->fed[list.n++] = c->feed.items[at];
	}
	list.items = c->fed;
	c->tasks_boot_ns = c->feed.boot_ns;
	s->wall_ns -= s->boot_ns - c->feed.boot_ns;
	s->boot_ns = c->feed.boot_ns;
	return scan_listed(c, &list, s, err);
}

/* ---- filling ---- */

static int compare_pid_to_known(const void *key, const void *item)
{
	return COMPARE(*(const pid_t *)key, (*(struct process_cache *const *)item)->key.pid);
}

/* Samples stand in the order of the roster unless somebody took some out: then hint is too far. */
static struct process_cache *find_known_pid(const struct collector *c, pid_t pid, size_t hint)
{
	const struct roster *roster = &c->roster;
	struct process_cache **found;

	if (hint < roster->n && roster->items[hint]->key.pid == pid)
		return roster->items[hint];
	found = bsearch(&pid, roster->items, roster->n, sizeof(struct process_cache *),
			compare_pid_to_known);
	return found ? *found : NULL;
}

/*
 * A job file's ranks, which are in the sample already, stand above what a launcher inside of them
 * says. Who has no rank of its own has that of its parent, from then on.
 */
static void fill_rank(const struct collector *c, struct process_cache *k, struct proc_sample *p)
{
	const struct process_cache *parent = NULL;

	if (k->rank.rank == RANK_NONE)
		parent = find_known_pid(c, p->ppid, SIZE_MAX);
	if (parent)
		k->rank = parent->rank;
	if (p->rank == RANK_NONE)
		p->rank = k->rank.rank;
	if (p->rank != k->rank.rank)
		return;
	p->local_rank = k->rank.local_rank;
	p->world_size = k->rank.world_size;
}

void collector_fill(struct collector *c, struct snapshot *s, enum snapshot_scope scope)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		struct proc_sample *p = &s->processes[i];
		struct process_cache *k;

		if (scope == SNAPSHOT_JOBS && !p->job_id)
			continue;
		k = find_known_pid(c, p->key.pid, i);
		k = k && k->key.start_ticks == p->key.start_ticks ? k : NULL;
		if (k && k->is_by_task)
			process_cache_fill_rest(k, &c->reader, p, &s->arena);
		else if (k)
			process_cache_fill(k, &c->reader, p, &s->arena);
		if (k && p->job_id)
			fill_rank(c, k, p);
		if (!c->has_gpu) { /* nobody uses one */
			p->gpu_memory_bytes = 0;
			p->gpu_percent = 0;
		}
	}
	if (c->gpus)
		gpus_fill_processes(c->gpus, s, c->is_between);
	cgroups_read(c->root_fd, s);
}

struct rung collector_rung(const struct collector *c)
{
	return rung_of_samples(c->tasks != NULL, c->tasks_err.text);
}
