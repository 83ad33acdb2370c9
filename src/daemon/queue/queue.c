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

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/queue/detach.h"
#include "daemon/queue/queue_file.h"

struct queue {
	char folder[PATH_BYTES];
	struct queued **jobs;
	size_t n, cap;
	struct rlimit files; /* for runners; rlim_max 0: as ours */
	const char *db_path;
	int folder_fd; /* locked: of two daemons one has it */
};

static void release(struct queued *job)
{
	close_fd(&job->start_fd);
	queued_free(&job);
}

struct queue *queue_close(struct queue *q)
{
	if (!q)
		return NULL;
	for (size_t i = 0; i < q->n; i++)
		release(q->jobs[i]);
	free(q->jobs);
	close_fd(&q->folder_fd);
	free(q);
	return NULL;
}

void queue_set_file_limit(struct queue *q, const struct rlimit *limit)
{
	q->files = *limit;
}

void queue_set_db(struct queue *q, const char *path)
{
	q->db_path = path;
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

static int keep(struct queue *q, struct queued *job)
{
	size_t at = q->n;

	if (q->n == q->cap) {
		size_t cap = q->cap ? q->cap * 2 : 16;
		struct queued **jobs = reallocarray(q->jobs, cap, sizeof(*jobs));

		if (!jobs)
			return -ENOMEM;
		q->jobs = jobs;
		q->cap = cap;
	}
	for (; at > 0 && q->jobs[at - 1]->submitted_wall_ns > job->submitted_wall_ns; at--)
		q->jobs[at] = q->jobs[at - 1];
	q->jobs[at] = job;
	q->n++;
	return 0;
}

/* How much of its path is the same whatever has become of it. */
static int stem_length(const struct queued *job)
{
	return (int)(strlen(job->path) - strlen(job->is_started ? QUEUE_STARTED : QUEUE_WAITING));
}

static void unlink_as(const struct queued *job, const char *end)
{
	char path[PATH_BYTES + 256];

	snprintf(path, sizeof(path), "%.*s%s", stem_length(job), job->path, end);
	unlink(path);
}

void queue_drop(struct queue *q, struct queued *job)
{
	size_t kept = 0;

	/* In this order: a runner on its way marks it before, or finds nothing to mark. */
	unlink_as(job, QUEUE_WAITING);
	unlink_as(job, QUEUE_STARTED);
	for (size_t i = 0; i < q->n; i++)
		if (q->jobs[i] != job)
			q->jobs[kept++] = q->jobs[i];
	q->n = kept;
	release(job);
}

/* ---- the folder ---- */

static int load_file(struct queue *q, const char *path, struct err *err)
{
	struct queued *job = NULL;
	int r = queue_file_read(path, &job, err);

	if (r < 0)
		return r;
	job->start_fd = -1;
	job->runner.start_ticks = U64_UNKNOWN;
	if (keep(q, job) < 0) {
		queued_free(&job);
		return err_set(err, -ENOMEM, "no memory left for the queue");
	}
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
	while (r == 0 && (entry = readdir(dir))) {
		char path[PATH_BYTES + 256];

		if (!queue_file_is_one(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", q->folder, entry->d_name);
		r = load_file(q, path, err);
		if (r < 0 && r != -ENOMEM)
			r = 0;
	}
	closedir(dir);
	return r;
}

/* Where a file system cannot lock, that of the socket has to do. */
static int lock_folder(struct queue *q, struct err *err)
{
	q->folder_fd = open(q->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (q->folder_fd < 0)
		return err_set(err, -errno, "cannot read %s: %s", q->folder, strerror(errno));
	if (flock(q->folder_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_set(err, -EADDRINUSE, "another daemon has the queue %s", q->folder);
	return 0;
}

static bool is_our_folder(const struct queue *q)
{
	struct stat here, ours;

	return fstat(q->folder_fd, &ours) == 0 && stat(q->folder, &here) == 0 &&
	       here.st_ino == ours.st_ino && here.st_dev == ours.st_dev;
}

static int own_folder(struct queue *q, struct err *err)
{
	int r = path_make_dir(q->folder, err);

	return r < 0 ? r : lock_folder(q, err);
}

static void leave_folder(struct queue *q)
{
	close_fd(&q->folder_fd);
	q->folder_fd = -1;
}

int queue_renew(struct queue *q, struct err *err)
{
	int r;

	if (is_our_folder(q))
		return 0;
	leave_folder(q);
	r = own_folder(q, err);
	if (r < 0)
		leave_folder(q);
	return r < 0 ? r : 1;
}

static int open_folder(const char *folder, bool is_owner, struct queue **ret, struct err *err)
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
	r = is_owner ? own_folder(q, err) : 0;
	if (r == 0)
		r = load_folder(q, err);
	if (r < 0) {
		queue_close(q);
		return r;
	}
	*ret = q;
	return 0;
}

int queue_open(const char *folder, struct queue **ret, struct err *err)
{
	return open_folder(folder, true, ret, err);
}

int queue_open_to_read(const char *folder, struct queue **ret, struct err *err)
{
	return open_folder(folder, false, ret, err);
}

/* ---- a new one ---- */

static int check_share(const struct queue *q, const struct submission *job, struct err *err)
{
	size_t n = 0, n_bytes = job->len;

	for (size_t i = 0; i < q->n; i++) {
		n += q->jobs[i]->uid == job->uid;
		n_bytes += q->jobs[i]->uid == job->uid ? q->jobs[i]->n_bytes : 0;
	}
	if (n >= QUEUE_USER_MAX_JOBS)
		return err_set(err, -EBUSY, "one user may have %d submitted jobs at a time",
			       QUEUE_USER_MAX_JOBS);
	if (n_bytes > QUEUE_USER_MAX_BYTES)
		return err_set(err, -EBUSY, "one user may have submitted %d MB of job files",
			       QUEUE_USER_MAX_BYTES >> 20);
	return 0;
}

/* Clocks are set back and forth: no time is a name. Never 0. */
static int draw_id(uint64_t *ret, struct err *err)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return err_set(err, -EIO, "there are no random numbers to be had");
	*ret = (bits & INT64_MAX) | 1;
	return 0;
}

static int check_new(struct queue *q, const struct submission *job, struct err *err)
{
	if (queue_find(q, job->job_id, job->uid))
		return err_set(err, -EEXIST, "a job %s waits or runs already", job->job_id);
	return job->uid == geteuid() ? 0 : check_share(q, job, err);
}

int queue_reserve(const struct queue *q, struct queue_place *ret, struct err *err)
{
	int r = draw_id(&ret->submission, err);

	if (r < 0)
		return r;
	ret->wall_ns = clock_wall_ns();
	snprintf(ret->path, sizeof(ret->path), "%s/%llu" QUEUE_WAITING, q->folder,
		 (unsigned long long)ret->submission);
	return 0;
}

int queue_write(const struct queue_place *place, const struct submission *job, struct err *err)
{
	return queue_file_write(place->path, job, place->submission, place->wall_ns, err);
}

int queue_take(struct queue *q, const struct queue_place *place, const struct submission *job,
	       struct err *err)
{
	int r = check_new(q, job, err);

	if (r == 0)
		r = load_file(q, place->path, err);
	if (r < 0)
		unlink(place->path);
	return r;
}

int queue_add(struct queue *q, const struct submission *job, struct err *err)
{
	struct queue_place place;
	int r = check_new(q, job, err);

	if (r == 0)
		r = queue_reserve(q, &place, err);
	if (r == 0)
		r = queue_write(&place, job, err);
	return r < 0 ? r : queue_take(q, &place, job, err);
}

/* ---- running ---- */

/* As its file is called while it waits, or when it was started. */
static int name_as(const struct queued *job, const char *end, char **ret, struct err *err)
{
	if (asprintf(ret, "%.*s%s", stem_length(job), job->path, end) >= 0)
		return 0;
	*ret = NULL;
	return err_set(err, -ENOMEM, "no memory left to run %s", job->job_id);
}

/* Takes over the path. */
static void set_path(struct queued *job, char *path, bool is_started)
{
	free(job->path);
	job->path = path;
	job->is_started = is_started;
	job->started_boot_ns = clock_boot_ns();
}

static bool is_there(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int queue_put_back(struct queued *job, struct err *err)
{
	CLEANUP(free_ptr) char *path = NULL;
	int r = name_as(job, QUEUE_WAITING, &path, err);

	if (r < 0)
		return r;
	if (rename(job->path, path) < 0 && !(errno == ENOENT && is_there(path)))
		return err_set(err, -errno, "cannot rename %s: %s", job->path, strerror(errno));
	set_path(job, TAKE_PTR(path), false);
	return 0;
}

bool queue_is_held(const struct queued *job)
{
	CLEANUP(close_fd) int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0) /* want of files says nothing: only who is gone holds it no more */
		return errno != ENOENT && errno != ELOOP;
	return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Where the output of a job goes; nobody else may read it. */
static int open_log(const struct queued *job, const char *folder)
{
	char path[2 * PATH_BYTES], name[JOB_LOG_NAME_BYTES];

	job_log_name(job->job_id, name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Nothing more is heard of the runner: it was executed, or killed before it had marked its file. */
static int check_marked(const char *path, const char *started_path, struct err *err)
{
	if (is_there(path) && !is_there(started_path))
		return err_set(err, -EAGAIN, "its runner was killed before it began");
	return 0;
}

/* The lock is the runner's from its first moment on, and so is the name. */
static int hand_over(const struct queue *q, struct queued *job, const char *started_path,
		     int log_fd, struct err *err)
{
	CLEANUP(close_fd) int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const struct detached runner = {
		.job_id = job->job_id,
		.name = job->name,
		.workdir = job->workdir,
		.uid = job->uid,
		.files = &q->files,
		.db_path = q->db_path,
		.path = job->path,
		.started_path = started_path,
		.queue_fd = q->folder_fd,
		.spool_fd = fd,
		.log_fd = log_fd,
	};
	int r;

	if (fd < 0 && errno == ENOENT)
		return is_there(started_path) ? 0 /* by a daemon that was killed meanwhile */
					      : err_set(err, -ENOENT, "%s is gone", job->path);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -EAGAIN, "cannot lock %s: %s", job->path, strerror(errno));
	r = detach_runner(&runner, &job->runner, &job->start_fd, err);
	if (r == 0 && job->start_fd < 0)
		r = check_marked(job->path, started_path, err);
	job->was_executed = r == 0 && job->start_fd < 0;
	return r;
}

int queue_check_start(struct queued *job, struct err *err)
{
	CLEANUP(free_ptr) char *waiting = NULL;
	int r;

	if (job->start_fd < 0)
		return 0;
	r = name_as(job, QUEUE_WAITING, &waiting, err);
	if (r < 0)
		return 1; /* it is asked again */
	r = detach_check(&job->start_fd, err);
	if (r == 0)
		r = check_marked(waiting, job->path, err);
	if (r == 0) {
		job->was_executed = true;
		job->started_boot_ns = clock_boot_ns();
	} else if (r < 0) {
		queue_put_back(job, NULL);
	}
	return r;
}

/* Whoever is not us keeps a log of their own. */
static int open_own_log(const struct queued *job, const char *folder, int *ret_fd, struct err *err)
{
	int r;

	if (job->uid != geteuid())
		return 0;
	r = path_make_dir(folder, err);
	if (r < 0)
		return -EAGAIN; /* a full disk, most likely */
	*ret_fd = open_log(job, folder);
	if (*ret_fd < 0)
		return err_set(err, -EAGAIN, "cannot keep the output of %s: %s", job->job_id,
			       strerror(errno));
	return 0;
}

int queue_start(struct queue *q, struct queued *job, const char *log_folder, struct err *err)
{
	CLEANUP(close_fd) int log_fd = -1;
	CLEANUP(free_ptr) char *path = NULL;
	int r = open_own_log(job, log_folder, &log_fd, err);

	if (r == 0)
		r = name_as(job, QUEUE_STARTED, &path, err);
	if (r == 0)
		r = hand_over(q, job, path, log_fd, err);
	if (r < 0) {
		if (path) /* it was about to begin, and could not */
			(void)rename(path, job->path);
		return r;
	}
	set_path(job, TAKE_PTR(path), true);
	return 0;
}
