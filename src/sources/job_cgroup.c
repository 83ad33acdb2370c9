#include "sources/job_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/proc_text.h"

#define NAME_PREFIX "proctor-"
#define NAME_DIGITS 16
#define NAME_BYTES (sizeof(NAME_PREFIX) + NAME_DIGITS)
#define DIR_BYTES 4096
#define SELF_MAX_BYTES 65536
#define MOUNTS_MAX_BYTES (1 << 20)
#define PROCS_MAX_BYTES (1 << 20)
#define FILE_TEXT_BYTES 4096
#define CPU_PERIOD_US 100000
#define STALE_MAX 64 /* folders of dead makers that one call removes */

/* What a hierarchy controls. v2 has all of them. */
enum controller {
	CTL_MEMORY = 1,
	CTL_PIDS = 2,
	CTL_CPU = 4,
	CTL_CPUACCT = 8,
	CTL_V2 = 16,
};

static const struct {
	const char *name; /* as /proc/self/cgroup and the options of a mount have it */
	enum controller bit;
} controllers[] = {
	{ "memory", CTL_MEMORY },
	{ "pids", CTL_PIDS },
	{ "cpu", CTL_CPU },
	{ "cpuacct", CTL_CPUACCT },
};

/* A folder of ours in one hierarchy. */
struct tree {
	unsigned has;	       /* of enum controller */
	char mount[DIR_BYTES]; /* without the leading slash, as all paths below the root */
	char own[DIR_BYTES];   /* the caller's cgroup: the mount, or a folder below it */
	char parent[DIR_BYTES];
	int fd;	      /* of our folder, locked; -1 */
	int entry_fd; /* what "0" written to it moves the writer there; -1 */
};

#define MAX_TREES JOB_CGROUP_MAX_ENTRIES

struct job_cgroup {
	int root_fd;
	char name[NAME_BYTES];
	struct tree trees[MAX_TREES];
	size_t n_trees;
};

/* ---- files of a cgroup ---- */

static bool read_text(int dir_fd, const char *file, char text[FILE_TEXT_BYTES])
{
	return dir_fd >= 0 && io_read_text_at(dir_fd, file, text, FILE_TEXT_BYTES) >= 0;
}

static int write_text(int dir_fd, const char *file, const char *text)
{
	CLEANUP(close_fd) int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	return n < 0 ? -errno : 0;
}

/* Whether a word stands in a list that blanks or commas separate. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; *p; p += strcspn(p, " ,\n"), p += strspn(p, " ,\n"))
		if (strncmp(p, word, n) == 0 && strchr(" ,\n", p[n]))
			return true;
	return false;
}

/* ---- which hierarchies there are, and where the caller is in them ---- */

/* The caller's path in the hierarchy of this controller ("": v2), by the text of proc/self/cgroup.
 */
static bool find_own_path(const char *self, const char *controller, char ret[DIR_BYTES])
{
	for (const char *line = self, *end; (end = strchr(line, '\n')); line = end + 1) {
		const char *names = memchr(line, ':', (size_t)(end - line));
		const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
		char list[256];

		if (!path || end - path > DIR_BYTES || (size_t)(path - names) > sizeof(list))
			continue;
		snprintf(list, sizeof(list), "%.*s", (int)(path - names - 1), names + 1);
		if (controller[0] ? !has_word(list, controller) : list[0] != '\0')
			continue;
		snprintf(ret, DIR_BYTES, "%.*s", (int)(end - path - 1), path + 1);
		return true;
	}
	return false;
}

/* A line of proc/self/mountinfo. False: none of a hierarchy that is of use. */
static bool read_mount(const char *line, const char *self, struct tree *ret)
{
	char root[DIR_BYTES], point[DIR_BYTES], type[16], options[512], path[DIR_BYTES];
	const char *behind = strstr(line, " - "), *rest;
	const char *first = "";
	size_t n;

	if (!behind || sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2 ||
	    sscanf(behind, " - %15s %*s %511s", type, options) != 2 || strchr(point, '\\'))
		return false;
	*ret = (struct tree){ .fd = -1, .entry_fd = -1 };
	if (strcmp(type, "cgroup2") == 0)
		ret->has = CTL_V2;
	else if (strcmp(type, "cgroup") != 0)
		return false;
	for (size_t i = ARRAY_SIZE(controllers); i-- > 0 && ret->has != CTL_V2;)
		if (has_word(options, controllers[i].name)) {
			ret->has |= controllers[i].bit;
			first = controllers[i].name;
		}
	if (ret->has == 0 || !find_own_path(self, first, path))
		return false;
	/* A container may see only the part of the tree below its own cgroup. */
	n = strcmp(root, "/") == 0 ? 0 : strlen(root);
	rest = path + n;
	if (strncmp(path, root, n) != 0 || (*rest && *rest != '/') || strncmp(path, "/..", 3) == 0)
		return false;
	snprintf(ret->mount, sizeof(ret->mount), "%s", point + 1);
	if (strlen(point + 1) + strlen(rest) >= sizeof(ret->own))
		return false;
	strcpy(stpcpy(ret->own, point + 1), strcmp(rest, "/") == 0 ? "" : rest);
	return true;
}

/* v1 wins where it has memory: v2 has no controllers there then. */
static int find_trees(struct job_cgroup *c, struct err *err)
{
	CLEANUP(buf_release) struct buf self = BUF_INIT, mounts = BUF_INIT;
	unsigned has = 0;
	size_t n = 0;

	if (io_read_at(c->root_fd, "proc/self/cgroup", SELF_MAX_BYTES, &self) < 0 ||
	    io_read_at(c->root_fd, "proc/self/mountinfo", MOUNTS_MAX_BYTES, &mounts) < 0)
		return err_set(err, -ENOENT, "/proc does not show the cgroups of this process");
	for (char *line = mounts.data, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct tree tree;

		*end = '\0';
		if (c->n_trees == MAX_TREES || !read_mount(line, self.data, &tree) ||
		    (tree.has & has))
			continue;
		has |= tree.has;
		c->trees[c->n_trees++] = tree;
	}
	for (size_t i = 0; i < c->n_trees; i++) {
		bool is_v2 = c->trees[i].has == CTL_V2;

		if (is_v2 == !(has & CTL_MEMORY))
			c->trees[n++] = c->trees[i];
	}
	c->n_trees = n;
	if (n == 0)
		return err_set(err, -ENOENT, "no cgroup hierarchy is mounted");
	return 0;
}

/* ---- where ours is to be ---- */

/*
 * Whether a cgroup of v2 passes these controllers on to those below it. Only the root is asked to:
 * another that has processes refuses memory, and takes cpu and pids in exchange for children that
 * can have no processes.
 */
static bool passes_on(int fd, unsigned wanted)
{
	char text[FILE_TEXT_BYTES], request[32];
	bool is_root = !read_text(fd, "cgroup.type", text);

	if (!read_text(fd, "cgroup.subtree_control", text))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		if (!(wanted & controllers[i].bit) || has_word(text, controllers[i].name))
			continue;
		snprintf(request, sizeof(request), "+%s", controllers[i].name);
		if (!is_root || write_text(fd, "cgroup.subtree_control", request) < 0)
			return false;
	}
	return true;
}

/* An empty list of CPUs or devices is none. */
static bool has_limits(int fd)
{
	static const char *const files[] = { "memory.max",  "memory.high", "memory.swap.max",
					     "pids.max",    "cpu.max",	   "cpuset.cpus",
					     "cpuset.mems", "io.max" };
	char text[FILE_TEXT_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (read_text(fd, files[i], text) && text[0] && text[0] != '\n' &&
		    strncmp(text, "max", 3) != 0)
			return true;
	return false;
}

/*
 * In v2 the caller's cgroup has processes, the caller at least, and so passes no controllers on
 * unless it is the root. An ancestor may, and is as good if no limit is between.
 */
static void choose_parent(struct job_cgroup *c, struct tree *tree, unsigned wanted)
{
	char dir[DIR_BYTES];

	strcpy(tree->parent, tree->own);
	strcpy(dir, tree->own);
	while (tree->has == CTL_V2) {
		CLEANUP(close_fd)
		int fd = openat(c->root_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		char *slash = strrchr(dir, '/');

		if (fd < 0)
			return;
		if (passes_on(fd, wanted)) {
			strcpy(tree->parent, dir);
			return;
		}
		if (has_limits(fd) || strlen(dir) <= strlen(tree->mount) || !slash)
			return;
		*slash = '\0';
	}
}

static bool is_name(const char *name)
{
	return strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 &&
	       strlen(name) == NAME_BYTES - 1 &&
	       strspn(name + strlen(NAME_PREFIX), "0123456789abcdef") == NAME_DIGITS;
}

/* Folders whose makers are dead, and that have no processes any more. */
static void remove_stale(struct job_cgroup *c, const struct tree *tree)
{
	CLEANUP(dir_close) DIR *dir = dir_open_at(c->root_fd, tree->parent);
	struct dirent *entry;
	int n = 0;

	while (dir && n < STALE_MAX && (entry = readdir(dir))) {
		CLEANUP(close_fd) int fd = -1;

		if (!is_name(entry->d_name))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			n += unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0;
	}
}

/* Another caller may take a new folder for a stale one before it is locked: then it is made again.
 */
static int make_folder(struct job_cgroup *c, struct tree *tree, struct err *err)
{
	CLEANUP(close_fd) int parent = -1;
	int r;

	remove_stale(c, tree);
	parent = openat(c->root_fd, tree->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = -errno;
	for (int tries = 0; parent >= 0 && tries < 10; tries++) {
		struct stat st;

		if (mkdirat(parent, c->name, 0755) < 0) {
			r = -errno;
			break;
		}
		tree->fd = openat(parent, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (tree->fd >= 0 && flock(tree->fd, LOCK_EX | LOCK_NB) == 0 &&
		    fstatat(parent, c->name, &st, 0) == 0) {
			tree->entry_fd =
				openat(tree->fd, tree->has == CTL_V2 ? "cgroup.procs" : "tasks",
				       O_WRONLY | O_CLOEXEC);
			return tree->entry_fd >= 0
				       ? 0
				       : err_set(err, -errno, "cannot use the cgroup /%s/%s: %s",
						 tree->parent, c->name, strerror(errno));
		}
		r = -errno;
		close_fd(&tree->fd);
		(void)unlinkat(parent, c->name, AT_REMOVEDIR);
	}
	return err_set(err, r, "cannot make a cgroup below /%s: %s", tree->parent, strerror(-r));
}

/* ---- limits ---- */

static struct tree *find_tree(const struct job_cgroup *c, enum controller bit)
{
	for (size_t i = 0; i < c->n_trees; i++)
		if (c->trees[i].has & (bit | CTL_V2))
			return (struct tree *)&c->trees[i];
	return NULL;
}

/* False: the kernel does not enforce it here. */
static bool set_limit(struct job_cgroup *c, enum controller bit, const char *v1_file,
		      const char *v2_file, const char *text)
{
	const struct tree *tree = find_tree(c, bit);

	return tree && write_text(tree->fd, tree->has == CTL_V2 ? v2_file : v1_file, text) == 0;
}

/* Those that are set are taken out of limits. */
static void set_limits(struct job_cgroup *c, struct job_limits *limits)
{
	const struct tree *memory = find_tree(c, CTL_MEMORY), *cpu = find_tree(c, CTL_CPU);
	char text[64];

	if (u64_known(limits->memory_bytes)) {
		/*
		 * v2 slows the job down when it is near the limit, and takes page cache back. The
		 * kernel's penalty grows with the square of the share that is exceeded: a sixteenth
		 * made a job that ate memory live for 25 s more.
		 */
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)(limits->memory_bytes - limits->memory_bytes / 64));
		if (memory && memory->has == CTL_V2)
			(void)write_text(memory->fd, "memory.high", text);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)limits->memory_bytes);
		if (set_limit(c, CTL_MEMORY, "memory.limit_in_bytes", "memory.max", text))
			limits->memory_bytes = U64_UNKNOWN;
	}
	if (u64_known(limits->max_processes)) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)limits->max_processes);
		if (set_limit(c, CTL_PIDS, "pids.max", "pids.max", text))
			limits->max_processes = U64_UNKNOWN;
	}
	if (!isnan(limits->cpus)) {
		bool is_v2 = cpu && cpu->has == CTL_V2;

		snprintf(text, sizeof(text), is_v2 ? "%.0f %d" : "%.0f",
			 limits->cpus * CPU_PERIOD_US, CPU_PERIOD_US);
		if (set_limit(c, CTL_CPU, "cpu.cfs_quota_us", "cpu.max", text))
			limits->cpus = F64_UNKNOWN;
	}
}

/* ---- its life ---- */

int job_cgroup_new(int root_fd, struct job_limits *limits, struct job_cgroup **ret, struct err *err)
{
	unsigned wanted = (u64_known(limits->memory_bytes) ? CTL_MEMORY : 0) |
			  (u64_known(limits->max_processes) ? CTL_PIDS : 0) |
			  (isnan(limits->cpus) ? 0 : CTL_CPU);
	struct job_cgroup *c = calloc(1, sizeof(*c));
	uint64_t number;
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->root_fd = root_fd;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = (uint64_t)getpid();
	snprintf(c->name, sizeof(c->name), NAME_PREFIX "%016llx", (unsigned long long)number);
	r = find_trees(c, err);
	for (size_t i = 0; r == 0 && i < c->n_trees; i++) {
		choose_parent(c, &c->trees[i], wanted);
		r = make_folder(c, &c->trees[i], err);
	}
	if (r < 0) {
		job_cgroup_free(c);
		return r;
	}
	set_limits(c, limits);
	*ret = c;
	return 0;
}

struct job_cgroup *job_cgroup_free(struct job_cgroup *c)
{
	for (size_t i = 0; c && i < c->n_trees; i++) {
		struct tree *tree = &c->trees[i];
		char path[DIR_BYTES + NAME_BYTES];

		if (tree->fd < 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", tree->parent, c->name);
		(void)unlinkat(c->root_fd, path, AT_REMOVEDIR); /* busy: processes are left */
		close_fd(&tree->fd);
		close_fd(&tree->entry_fd);
	}
	free(c);
	return NULL;
}

size_t job_cgroup_entries(const struct job_cgroup *c, int ret_fds[JOB_CGROUP_MAX_ENTRIES],
			  int *ret_folder)
{
	for (size_t i = 0; i < c->n_trees; i++)
		ret_fds[i] = c->trees[i].entry_fd;
	*ret_folder = c->trees[0].has == CTL_V2 ? c->trees[0].fd : -1;
	return c->n_trees;
}

/* ---- what was counted ---- */

/* A value of a file: the only one, or the one behind a key ("some" is followed by "total="). */
struct cgroup_value {
	enum controller in; /* its hierarchy in v1; CTL_V2 */
	const char *file;
	const char *key; /* NULL: the file has one number */
	uint64_t unit;	 /* what it is multiplied by */
	size_t offset;	 /* in a cgroup_use */
};

#define VALUE(in_, file_, key_, unit_, field_)                               \
	{                                                                    \
		in_, file_, key_, unit_, offsetof(struct cgroup_use, field_) \
	}

static const struct cgroup_value values[] = {
	VALUE(CTL_V2, "memory.peak", NULL, 1, peak_memory_bytes), /* since Linux 5.19 */
	VALUE(CTL_V2, "memory.stat", "file", 1, cache_bytes),
	VALUE(CTL_V2, "memory.events", "max", 1, memory_hits),
	VALUE(CTL_V2, "memory.events", "oom_kill", 1, oom_kills),
	VALUE(CTL_V2, "cpu.stat", "usage_usec", 1000, cpu_ns),
	VALUE(CTL_V2, "cpu.stat", "user_usec", 1000, user_ns),
	VALUE(CTL_V2, "cpu.stat", "system_usec", 1000, system_ns),
	VALUE(CTL_V2, "cpu.stat", "throttled_usec", 1000, throttled_ns),
	VALUE(CTL_V2, "pids.peak", NULL, 1, peak_tasks), /* since Linux 6.1 */
	VALUE(CTL_V2, "pids.events", "max", 1, task_hits),
	VALUE(CTL_V2, "cpu.pressure", "total=", 1000, cpu_stall_ns),
	VALUE(CTL_V2, "memory.pressure", "total=", 1000, memory_stall_ns),
	VALUE(CTL_V2, "io.pressure", "total=", 1000, io_stall_ns),
	VALUE(CTL_MEMORY, "memory.max_usage_in_bytes", NULL, 1, peak_memory_bytes),
	VALUE(CTL_MEMORY, "memory.stat", "total_cache", 1, cache_bytes),
	VALUE(CTL_MEMORY, "memory.failcnt", NULL, 1, memory_hits),
	VALUE(CTL_MEMORY, "memory.oom_control", "oom_kill", 1, oom_kills),
	VALUE(CTL_CPUACCT, "cpuacct.usage", NULL, 1, cpu_ns),
	VALUE(CTL_CPUACCT, "cpuacct.usage_user", NULL, 1, user_ns),
	VALUE(CTL_CPUACCT, "cpuacct.usage_sys", NULL, 1, system_ns),
	VALUE(CTL_CPU, "cpu.stat", "throttled_time", 1, throttled_ns),
	VALUE(CTL_PIDS, "pids.peak", NULL, 1, peak_tasks),
	VALUE(CTL_PIDS, "pids.events", "max", 1, task_hits),
};

/* U64_UNKNOWN: the text has none. A key is a word at the beginning of a line, or ends with "=". */
static uint64_t find_number(const char *text, const char *key)
{
	const char *p = text;
	size_t n = key ? strlen(key) : 0;
	uint64_t number;
	char *end;

	while (key && (p = strstr(p, key)) && key[n - 1] != '=' &&
	       !((p == text || p[-1] == '\n') && p[n] == ' '))
		p += n;
	if (!p || (!key && (*p < '0' || *p > '9')))
		return U64_UNKNOWN;
	errno = 0;
	number = strtoull(p + n, &end, 10);
	return errno || end == p + n ? U64_UNKNOWN : number;
}

/* Values of one file stand together: it is read once. */
void job_cgroup_read(const struct job_cgroup *c, struct cgroup_use *ret)
{
	char text[FILE_TEXT_BYTES];
	bool is_read = false;

	memset(ret, 0xff, sizeof(*ret)); /* every field U64_UNKNOWN */
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		const struct cgroup_value *v = &values[i], *last = i > 0 ? v - 1 : NULL;
		const struct tree *tree = find_tree(c, v->in);
		uint64_t number;

		if (!tree || (tree->has == CTL_V2) != (v->in == CTL_V2))
			continue;
		if (!last || last->in != v->in || strcmp(last->file, v->file) != 0)
			is_read = read_text(tree->fd, v->file, text);
		number = is_read ? find_number(text, v->key) : U64_UNKNOWN;
		if (u64_known(number))
			*(uint64_t *)(void *)((char *)ret + v->offset) = number * v->unit;
	}
}

uint64_t job_cgroup_count_oom(const struct job_cgroup *c)
{
	const struct tree *tree = find_tree(c, CTL_MEMORY);
	char text[FILE_TEXT_BYTES];

	if (!tree || !read_text(tree->fd,
				tree->has == CTL_V2 ? "memory.events" : "memory.oom_control", text))
		return U64_UNKNOWN;
	return oom_kills_parse(text);
}

/* ---- the processes in it ---- */

/* The hierarchy by which processes are listed: one that can also keep them from starting others. */
static const struct tree *tree_of_processes(const struct job_cgroup *c)
{
	const struct tree *tree = find_tree(c, CTL_PIDS);

	return tree ? tree : &c->trees[0];
}

/* Zombies do not count in v2. False where that cannot be read. */
static bool has_processes(const struct job_cgroup *c)
{
	const struct tree *tree = tree_of_processes(c);
	char text[FILE_TEXT_BYTES];

	if (tree->has == CTL_V2)
		return read_text(tree->fd, "cgroup.events", text) &&
		       find_number(text, "populated") == 1;
	return read_text(tree->fd, "cgroup.procs", text) && text[0];
}

/* Whether the process that a pidfd was opened for is in our folder: the pid may be another's. */
static bool is_inside(const struct job_cgroup *c, pid_t pid)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/cgroup", pid);
	return io_read_at(c->root_fd, path, SELF_MAX_BYTES, &text) >= 0 &&
	       strstr(text.data, c->name);
}

int job_cgroup_kill(struct job_cgroup *c)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct tree *tree = tree_of_processes(c);
	char limit[FILE_TEXT_BYTES] = "";
	const char *rest;
	char *end;
	int n = 0, r;

	if (tree->has == CTL_V2 && write_text(tree->fd, "cgroup.kill", "1") == 0) /* since 5.14 */
		return has_processes(c);
	(void)read_text(tree->fd, "pids.max", limit);
	(void)write_text(tree->fd, "pids.max", "0");
	r = io_read_at(tree->fd, "cgroup.procs", PROCS_MAX_BYTES, &text);
	for (rest = r < 0 ? "" : text.data; *rest; rest = end) {
		pid_t pid = (pid_t)strtol(rest, &end, 10);
		CLEANUP(close_fd) int pidfd = -1;

		if (end == rest)
			break;
		pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
		if (pidfd < 0 || !is_inside(c, pid))
			continue;
		n += syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
	}
	/* Who has SIGKILL pending starts nobody; the next try has to. */
	(void)write_text(tree->fd, "pids.max", limit[0] ? limit : "max");
	return r < 0 ? r : n;
}
