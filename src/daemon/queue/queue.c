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
	free((*job)->path);
	free((*job)->workdir);
	free((*job)->name);
	free(*job);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

bool queue_file_is_one(const char *name)
{
	return ends_with(name, QUEUE_WAITING) || ends_with(name, QUEUE_STARTED);
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

int queue_file_read(const char *path, struct queued **ret, struct err *err)
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
		job->path = strdup(path);
		job->name = strdup(head.name ? head.name : head.job_id);
		job->uid = (uid_t)head.uid;
		job->n_bytes = (size_t)st.st_size;
		job->submitted_wall_ns = head.submitted_wall_ns;
		job->input_bytes = head.input_bytes;
		job->submission = head.submission;
		job->is_started = ends_with(path, QUEUE_STARTED);
		job->started_boot_ns = clock_boot_ns();
	}
	rpc_value_free(value);
	if (r < 0)
		return r;
	if (!job || !job->job_id || !job->workdir || !job->path || !job->name)
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

int queue_file_write(const char *path, const struct submission *job, uint64_t id, uint64_t wall_ns,
		     struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char other[PATH_BYTES + 64];
	struct json j;
	int fd, r;

	if (job->len > QUEUE_FILE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a job file of more than %d MB",
			       QUEUE_FILE_MAX_BYTES >> 20);
	buf_add_str(&text, HEAD);
	json_init(&j, &text);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job->job_id);
	json_key_string(&j, "workdir", job->workdir);
	json_key_string(&j, "name", job->name);
	json_key_u64(&j, "uid", job->uid);
	json_key_u64(&j, "submission", id);
	json_key_u64(&j, "submitted_wall_ns", wall_ns);
	if (u64_known(job->input_bytes))
		json_key_u64(&j, "input_bytes", job->input_bytes);
	json_end_object(&j);
	buf_add_char(&text, '\n');
	buf_add(&text, job->text, job->len);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "no memory left to queue the job");

	/* Under its name when it is whole and safe. */
	snprintf(other, sizeof(other), "%s.new", path);
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
	return 0;
}

struct queue {
	char folder[PATH_BYTES];
	struct queued **jobs;
	size_t n, cap;
	struct rlimit files; /* for runners; rlim_max 0: as ours */
	const char *db_path;
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
	queued_free(&job);
}

/* ---- the folder ---- */

static int load_file(struct queue *q, const char *path, struct err *err)
{
	struct queued *job = NULL;
	int r = queue_file_read(path, &job, err);
	size_t at = q->n;

	if (r < 0)
		return r;
	job->runner.start_ticks = U64_UNKNOWN;
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

static int check_new(struct queue *q, const struct submission *job, struct err *err)
{
	size_t n = 0, n_bytes = job->len;

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

int queue_reserve(const struct queue *q, struct queue_place *ret, struct err *err)
{
	uint64_t bits;

	/* Clocks are set back and forth: no time is a name. Never 0. */
	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return err_set(err, -EIO, "there are no random numbers to be had");
	ret->submission = (bits & INT64_MAX) | 1;
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

int queue_start(struct queue *q, struct queued *job, const char *log_folder, struct err *err)
{
	CLEANUP(close_fd) int log_fd = -1;
	CLEANUP(free_ptr) char *path = NULL;
	char log[2 * PATH_BYTES], name[JOB_LOG_NAME_BYTES];
	int r;

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
