#include "daemon/queue/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/queue/detach.h"
#include "rpc/rpc.h"

#define HEAD "# proctor "
#define HEAD_MAX_BYTES 65536 /* what a path and a name take when every byte is escaped */

void queued_free(struct queued **job)
{
	if (!*job)
		return;
	close_fd(&(*job)->start_fd);
	free((*job)->job_id);
	free((*job)->stem);
	free((*job)->workdir);
	free((*job)->name);
	free(*job);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* As its file is called while it waits, or once it was started. */
static void path_as(const struct queued *job, const char *end, char path[QUEUE_PATH_BYTES])
{
	snprintf(path, QUEUE_PATH_BYTES, "%s%s", job->stem, end);
}

void queued_path(const struct queued *job, char path[QUEUE_PATH_BYTES])
{
	path_as(job, job->is_started ? QUEUE_STARTED : QUEUE_WAITING, path);
}

/* ---- reading ---- */

struct head {
	const char *job_id, *workdir, *name;
	uint64_t submitted_wall_ns, submission, uid, input_bytes;
};

static const struct rpc_field head_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct head, job_id), .is_required = true },
	{ "workdir", RPC_STRING, offsetof(struct head, workdir), .is_required = true },
	{ "name", RPC_STRING, offsetof(struct head, name), .is_required = false },
	{ "uid", RPC_U64, offsetof(struct head, uid), .max = UINT32_MAX - 1 },
	{ "submitted_wall_ns", RPC_U64, offsetof(struct head, submitted_wall_ns),
	  .is_required = true },
	{ "input_bytes", RPC_U64, offsetof(struct head, input_bytes), .is_required = false },
	{ "submission", RPC_U64, offsetof(struct head, submission), .is_required = true },
};

/* Where the first line ends; NULL: it is none of ours. */
static const char *find_head_end(const char *text, size_t len)
{
	const char *end = len > 0 ? memchr(text, '\n', len) : NULL;

	return end && (size_t)(end - text) >= strlen(HEAD) && memcmp(text, HEAD, strlen(HEAD)) == 0
		       ? end
		       : NULL;
}

/* What head points at lives as long as the value, which the caller frees. */
static int read_head(const char *text, const char *end, struct rpc_value **ret_value,
		     struct head *ret, struct err *err)
{
	static const struct rpc_value_limits limits = { 4, 16 };
	const char *line = text + strlen(HEAD);
	int r = rpc_value_parse(line, (size_t)(end - line), &limits, ret_value, err);

	return r < 0 ? r
		     : rpc_fields_read_known(*ret_value, head_fields, ARRAY_SIZE(head_fields), ret,
					     err);
}

/* -EBADMSG, -EINVAL: it is none of ours. */
static int read_file(const char *path, struct queued **ret, struct err *err)
{
	CLEANUP(queued_free) struct queued *job = NULL;
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct rpc_value *value = NULL;
	struct head head = { .uid = geteuid(), .input_bytes = U64_UNKNOWN };
	char text[HEAD_MAX_BYTES];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	const char *end;
	struct stat st;
	int r;

	if (n < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	end = find_head_end(text, (size_t)n);
	if (!end)
		return err_set(err, -EBADMSG, "%s is no queued job", path);
	r = read_head(text, end, &value, &head, err);
	job = r == 0 ? calloc(1, sizeof(*job)) : NULL;
	if (job) {
		job->start_fd = -1;
		job->job_id = strdup(head.job_id);
		job->workdir = strdup(head.workdir);
		job->is_started = ends_with(path, QUEUE_STARTED);
		job->stem = strndup(path, strlen(path) - strlen(job->is_started ? QUEUE_STARTED
										: QUEUE_WAITING));
		job->name = strdup(head.name ? head.name : head.job_id);
		job->uid = (uid_t)head.uid;
		job->n_bytes = (size_t)st.st_size;
		job->submitted_wall_ns = head.submitted_wall_ns;
		job->input_bytes = head.input_bytes;
		job->submission = head.submission;
		job->runner.start_ticks = U64_UNKNOWN;
		job->started_boot_ns = clock_boot_ns();
	}
	rpc_value_free(value);
	if (r < 0)
		return r;
	if (!job || !job->job_id || !job->workdir || !job->stem || !job->name)
		return err_set(err, -ENOMEM, "no memory left for the queue");
	*ret = TAKE_PTR(job);
	return 0;
}

const char *queue_file_job(const char *text, size_t len, uint64_t *ret_submission)
{
	struct head head = { .submission = U64_UNKNOWN };
	struct rpc_value *value = NULL;
	const char *end = find_head_end(text, len);

	if (end)
		(void)read_head(text, end, &value, &head, NULL);
	rpc_value_free(value);
	*ret_submission = head.submission;
	return end ? end + 1 : text;
}

/* ---- writing ---- */

int queue_write(struct queued *job, const char *file, size_t len, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char path[QUEUE_PATH_BYTES], other[QUEUE_PATH_BYTES];
	struct json j;
	int fd, r;

	if (len > QUEUE_FILE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a job file of more than %d MB",
			       QUEUE_FILE_MAX_BYTES >> 20);
	buf_add_str(&text, HEAD);
	json_init_object(&j, &text);
	json_key_string(&j, "job_id", job->job_id);
	json_key_string(&j, "workdir", job->workdir);
	json_key_string(&j, "name", job->name);
	json_key_u64(&j, "uid", job->uid);
	json_key_u64(&j, "submission", job->submission);
	json_key_u64(&j, "submitted_wall_ns", job->submitted_wall_ns);
	if (u64_known(job->input_bytes))
		json_key_u64(&j, "input_bytes", job->input_bytes);
	json_end_object(&j);
	buf_add_char(&text, '\n');
	buf_add(&text, file, len);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "no memory left to queue the job");

	/* Under its name when it is whole and safe. */
	path_as(job, QUEUE_WAITING, path);
	path_as(job, ".new", other);
	fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", other, strerror(errno));
	r = io_write_all(fd, text.data, text.len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(other, path) < 0)
		r = -errno;
	if (r == 0)
		r = io_sync_folder_of(path);
	if (r < 0) {
		unlink(other);
		return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	}
	job->n_bytes = text.len;
	return 0;
}

struct queue {
	char folder[PATH_BYTES];
	struct queued **jobs;
	size_t n, cap;
	struct queue_owner owner;
	int folder_fd; /* locked: of two daemons one has it */
};

struct queue *queue_close(struct queue *q)
{
	if (!q)
		return NULL;
	for (size_t i = 0; i < q->n; i++)
		queued_free(&q->jobs[i]);
	free(q->jobs);
	close_fd(&q->folder_fd);
	free(q);
	return NULL;
}

struct queued *queue_at(struct queue *q, size_t i)
{
	return i < q->n ? q->jobs[i] : NULL;
}

struct queued *queue_find(struct queue *q, const char *job_id, uid_t uid)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->jobs[i]->uid == uid && strcmp(q->jobs[i]->job_id, job_id) == 0)
			return q->jobs[i];
	return NULL;
}

void queue_drop(struct queue *q, struct queued *job)
{
	char path[QUEUE_PATH_BYTES];
	size_t kept = 0;

	/* In this order: a runner on its way marks it before, or finds nothing to mark. */
	path_as(job, QUEUE_WAITING, path);
	unlink(path);
	path_as(job, QUEUE_STARTED, path);
	unlink(path);
	for (size_t i = 0; i < q->n; i++)
		if (q->jobs[i] != job)
			q->jobs[kept++] = q->jobs[i];
	q->n = kept;
	queued_free(&job);
}

/* ---- the folder ---- */

/* Takes over the job, by the time when it was submitted. */
static int insert(struct queue *q, struct queued *job, struct err *err)
{
	size_t at = q->n;

	if (ARRAY_RESERVE(q->jobs, q->cap, q->n + 1) < 0) {
		queued_free(&job);
		return err_set(err, -ENOMEM, "no memory left for the queue");
	}
	for (; at > 0 && q->jobs[at - 1]->submitted_wall_ns > job->submitted_wall_ns; at--)
		q->jobs[at] = q->jobs[at - 1];
	q->jobs[at] = job;
	q->n++;
	return 0;
}

/* What is no queued job is left alone. */
static int load_folder(struct queue *q, struct err *err)
{
	DIR *dir = opendir(q->folder);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return err_set(err, -errno, "cannot read %s: %s", q->folder, strerror(errno));
	while (r != -ENOMEM && (entry = readdir(dir))) {
		char path[QUEUE_PATH_BYTES];
		struct queued *job = NULL;

		if (!ends_with(entry->d_name, QUEUE_WAITING) &&
		    !ends_with(entry->d_name, QUEUE_STARTED))
			continue;
		snprintf(path, sizeof(path), "%s/%s", q->folder, entry->d_name);
		r = read_file(path, &job, err);
		if (r == 0)
			r = insert(q, job, err);
	}
	closedir(dir);
	return r == -ENOMEM ? r : 0;
}

/* Where a file system cannot lock, that of the socket has to do. */
static int own_folder(struct queue *q, struct err *err)
{
	int r = path_make_dir(q->folder, err);

	if (r < 0)
		return r;
	q->folder_fd = open(q->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (q->folder_fd < 0)
		return err_set(err, -errno, "cannot read %s: %s", q->folder, strerror(errno));
	if (flock(q->folder_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_set(err, -EADDRINUSE, "another daemon has the queue %s", q->folder);
	return 0;
}

int queue_renew(struct queue *q, struct err *err)
{
	struct stat here, ours;
	int r;

	if (fstat(q->folder_fd, &ours) == 0 && stat(q->folder, &here) == 0 &&
	    here.st_ino == ours.st_ino && here.st_dev == ours.st_dev)
		return 0;
	close_fd(&q->folder_fd);
	r = own_folder(q, err);
	if (r < 0)
		close_fd(&q->folder_fd);
	return r < 0 ? r : 1;
}

int queue_open(const char *folder, const struct queue_owner *owner, struct queue **ret,
	       struct err *err)
{
	struct queue *q = calloc(1, sizeof(*q));
	int r;

	if (q)
		q->folder_fd = -1;
	if (!q ||
	    (size_t)snprintf(q->folder, sizeof(q->folder), "%s", folder) >= sizeof(q->folder)) {
		free(q);
		return err_set(err, -ENOMEM, "cannot keep a queue in %s", folder);
	}
	if (owner)
		q->owner = *owner;
	r = owner ? own_folder(q, err) : 0;
	if (r == 0)
		r = load_folder(q, err);
	if (r < 0) {
		queue_close(q);
		return r;
	}
	*ret = q;
	return 0;
}

/* ---- a new one ---- */

static int check_new(struct queue *q, const struct queued *job, struct err *err)
{
	size_t n = 0, n_bytes = job->n_bytes;

	if (queue_find(q, job->job_id, job->uid))
		return err_set(err, -EEXIST, "a job %s waits or runs already", job->job_id);
	for (size_t i = 0; i < q->n && job->uid != geteuid(); i++) {
		n += q->jobs[i]->uid == job->uid;
		n_bytes += q->jobs[i]->uid == job->uid ? q->jobs[i]->n_bytes : 0;
	}
	if (n >= QUEUE_USER_MAX_JOBS)
		return err_set(err, -EBUSY, "one user may have %d submitted jobs at a time",
			       QUEUE_USER_MAX_JOBS);
	if (job->uid != geteuid() && n_bytes > QUEUE_USER_MAX_BYTES)
		return err_set(err, -EBUSY, "one user may have submitted %d MB of job files",
			       QUEUE_USER_MAX_BYTES >> 20);
	return 0;
}

struct queued *queue_reserve(const struct queue *q, struct err *err)
{
	CLEANUP(queued_free) struct queued *job = calloc(1, sizeof(*job));
	uint64_t bits;

	/* Clocks are set back and forth: no time is a name. Never 0. */
	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
		err_set(err, -EIO, "there are no random numbers to be had");
		return NULL;
	}
	if (job) {
		job->start_fd = -1;
		job->runner.start_ticks = U64_UNKNOWN;
		job->submission = (bits & INT64_MAX) | 1;
		job->submitted_wall_ns = clock_wall_ns();
	}
	if (!job ||
	    asprintf(&job->stem, "%s/%llu", q->folder, (unsigned long long)job->submission) < 0) {
		err_set(err, -ENOMEM, "no memory left to queue the job");
		return NULL;
	}
	return TAKE_PTR(job);
}

int queue_take(struct queue *q, struct queued *job, struct err *err)
{
	char path[QUEUE_PATH_BYTES];
	int r = check_new(q, job, err);

	queued_path(job, path);
	if (r < 0)
		queued_free(&job);
	else
		r = insert(q, job, err);
	if (r < 0)
		unlink(path);
	return r;
}

/* ---- running ---- */

static void mark(struct queued *job, bool is_started)
{
	job->is_started = is_started;
	job->started_boot_ns = clock_boot_ns();
}

static bool is_there(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int queue_put_back(struct queued *job, struct err *err)
{
	char started[QUEUE_PATH_BYTES], waiting[QUEUE_PATH_BYTES];

	path_as(job, QUEUE_STARTED, started);
	path_as(job, QUEUE_WAITING, waiting);
	if (rename(started, waiting) < 0 && !(errno == ENOENT && is_there(waiting)))
		return err_set(err, -errno, "cannot rename %s: %s", started, strerror(errno));
	mark(job, false);
	return 0;
}

bool queue_is_held(const struct queued *job)
{
	CLEANUP(close_fd) int fd = -1;
	char path[QUEUE_PATH_BYTES];

	queued_path(job, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) /* want of files says nothing: only who is gone holds it no more */
		return errno != ENOENT && errno != ELOOP;
	return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Nothing more is heard of the runner: it was executed, or killed before it had marked its file. */
static int check_marked(const struct queued *job, struct err *err)
{
	char waiting[QUEUE_PATH_BYTES], started[QUEUE_PATH_BYTES];

	path_as(job, QUEUE_WAITING, waiting);
	path_as(job, QUEUE_STARTED, started);
	if (is_there(waiting) && !is_there(started))
		return err_set(err, -EAGAIN, "its runner was killed before it began");
	return 0;
}

int queue_check_start(struct queued *job, struct err *err)
{
	int r;

	if (job->start_fd < 0)
		return 0;
	r = detach_check(&job->start_fd, 0, err);
	if (r > 0)
		return r;
	if (r == 0)
		r = check_marked(job, err);
	if (r == 0) {
		job->was_executed = true;
		job->started_boot_ns = clock_boot_ns();
	} else {
		queue_put_back(job, NULL);
	}
	return r;
}

int queue_start(struct queue *q, struct queued *job, const char *log_folder, struct err *err)
{
	CLEANUP(close_fd) int fd = -1, log_fd = -1;
	char path[QUEUE_PATH_BYTES], started[QUEUE_PATH_BYTES];
	char log[2 * PATH_BYTES], name[JOB_LOG_NAME_BYTES];
	struct detached runner = {
		.job = job,
		.files = q->owner.files,
		.db_path = q->owner.db_path,
		.path = path,
		.started_path = started,
		.queue_fd = q->folder_fd,
	};
	int r = 0;

	/* Where its output goes, which nobody else may read. Whoever is not us keeps a log of their
	 * own. */
	if (job->uid == geteuid()) {
		if (path_make_dir(log_folder, err) < 0)
			return -EAGAIN; /* a full disk, most likely */
		job_log_name(job->job_id, name);
		snprintf(log, sizeof(log), "%s/%s", log_folder, name);
		log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (log_fd < 0)
			return err_set(err, -EAGAIN, "cannot keep the output of %s: %s",
				       job->job_id, strerror(errno));
	}
	/* The lock is the runner's from its first moment on, and so is the name. */
	path_as(job, QUEUE_WAITING, path);
	path_as(job, QUEUE_STARTED, started);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && !is_there(started))
		return err_set(err, -ENOENT, "%s is gone", path);
	if (fd >= 0 || errno != ENOENT) { /* else a daemon started it that was killed meanwhile */
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return err_set(err, -EAGAIN, "cannot lock %s: %s", path, strerror(errno));
		runner.spool_fd = fd;
		runner.log_fd = log_fd;
		r = detach_runner(&runner, &job->runner, &job->start_fd, err);
		if (r == 0 && job->start_fd < 0)
			r = check_marked(job, err);
		job->was_executed = r == 0 && job->start_fd < 0;
	}
	if (r < 0)
		(void)rename(started, path); /* it was about to begin, and could not */
	else
		mark(job, true);
	return r;
}

/* ---- whose turn it is ---- */

struct turn {
	struct queued *job;
	uint64_t n_before; /* of the same user: those that run, and those that wait before it */
	uid_t distance;	   /* of the user from whom it was the turn of */
	size_t order;	   /* in the queue */
};

static int compare(const void *left, const void *right)
{
	const struct turn *a = left, *b = right;

	if (a->n_before != b->n_before)
		return a->n_before < b->n_before ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

int turns_take(struct queue *q, uid_t last_uid, struct queued ***ret, size_t *ret_n)
{
	CLEANUP(free_ptr) struct turn *turns = reallocarray(NULL, q->n + 1, sizeof(*turns));
	CLEANUP(free_ptr) struct queued **jobs = reallocarray(NULL, q->n + 1, sizeof(*jobs));
	CLEANUP(map_release) struct map n_of = MAP_INIT;
	size_t n = 0;

	if (!turns || !jobs)
		return -ENOMEM;
	/* First those that run, then those that wait: each has the number of those before it. */
	for (int waits = 0; waits <= 1; waits++)
		for (size_t i = 0; i < q->n; i++) {
			struct queued *job = q->jobs[i];
			uint64_t n_before = 0;

			if (job->is_started == (waits == 1))
				continue;
			map_get(&n_of, job->uid, &n_before);
			if (map_put(&n_of, job->uid, n_before + 1) < 0)
				return -ENOMEM;
			if (waits)
				turns[n++] = (struct turn){ job, n_before,
							    (uid_t)(job->uid - last_uid - 1), i };
		}
	qsort(turns, n, sizeof(*turns), compare);
	for (size_t i = 0; i < n; i++)
		jobs[i] = turns[i].job;
	*ret = TAKE_PTR(jobs);
	*ret_n = n;
	return 0;
}
