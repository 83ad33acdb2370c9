#include "daemon/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/daemon.h"
#include "daemon/file_limit.h"
#include "daemon/launch.h"
#include "rpc/rpc.h"

#define WAITING ".yaml"
#define STARTED ".started"
#define HEAD "# proctor "
#define HEAD_MAX_BYTES 8192
#define FILE_MAX_BYTES (16 << 20)

struct queue {
	char folder[PATH_BYTES];
	struct queued **jobs;
	size_t n, cap;
	struct rlimit files; /* for runners; rlim_max 0: as ours */
};

static void queued_free(struct queued **job)
{
	if (!*job)
		return;
	free((*job)->job_id);
	free((*job)->path);
	free((*job)->workdir);
	free(*job);
}

struct queue *queue_close(struct queue *q)
{
	if (!q)
		return NULL;
	for (size_t i = 0; i < q->n; i++)
		queued_free(&q->jobs[i]);
	free(q->jobs);
	free(q);
	return NULL;
}

void queue_set_file_limit(struct queue *q, const struct rlimit *limit)
{
	q->files = *limit;
}

struct queued *queue_at(struct queue *q, size_t i)
{
	return i < q->n ? q->jobs[i] : NULL;
}

struct queued *queue_find(struct queue *q, const char *job_id)
{
	for (size_t i = 0; i < q->n; i++)
		if (strcmp(q->jobs[i]->job_id, job_id) == 0)
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

void queue_drop(struct queue *q, struct queued *job)
{
	size_t kept = 0;

	unlink(job->path);
	for (size_t i = 0; i < q->n; i++)
		if (q->jobs[i] != job)
			q->jobs[kept++] = q->jobs[i];
	q->n = kept;
	queued_free(&job);
}

/* ---- files ---- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

struct head {
	const char *job_id, *workdir;
	uint64_t submitted_wall_ns;
};

static const struct rpc_field head_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct head, job_id), .is_required = true },
	{ "workdir", RPC_STRING, offsetof(struct head, workdir), .is_required = true },
	{ "submitted_wall_ns", RPC_U64, offsetof(struct head, submitted_wall_ns),
	  .is_required = true },
};

static struct queued *queued_new(const struct head *head, const char *path)
{
	CLEANUP(queued_free) struct queued *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->job_id = strdup(head->job_id);
	job->workdir = strdup(head->workdir);
	job->path = strdup(path);
	job->submitted_wall_ns = head->submitted_wall_ns;
	job->is_started = ends_with(path, STARTED);
	job->started_boot_ns = clock_boot_ns();
	if (!job->job_id || !job->workdir || !job->path)
		return NULL;
	return TAKE_PTR(job);
}

/* The first line of the file, without what is before the JSON. */
static int read_head(const char *path, struct buf *line, struct err *err)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[HEAD_MAX_BYTES];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

	if (n < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!end || (size_t)(end - text) < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
		return err_set(err, -EBADMSG, "%s is no queued job", path);
	buf_add(line, text + strlen(HEAD), (size_t)(end - text) - strlen(HEAD));
	return buf_error(line);
}

static int load_file(struct queue *q, const char *path, struct err *err)
{
	static const struct rpc_value_limits limits = { 4, 16 };
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct rpc_value *value = NULL;
	struct queued *job = NULL;
	struct head head = { 0 };
	int r = read_head(path, &line, err);

	if (r == 0)
		r = rpc_value_parse(line.data, line.len, &limits, &value, err);
	if (r == 0)
		r = rpc_fields_read_known(value, head_fields, ARRAY_SIZE(head_fields), &head, err);
	if (r == 0)
		job = queued_new(&head, path);
	rpc_value_free(value);
	if (r < 0)
		return r;
	if (!job || keep(q, job) < 0) {
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

		if (!ends_with(entry->d_name, WAITING) && !ends_with(entry->d_name, STARTED))
			continue;
		snprintf(path, sizeof(path), "%s/%s", q->folder, entry->d_name);
		r = load_file(q, path, err);
		if (r == -EBADMSG || r == -EINVAL)
			r = 0;
	}
	closedir(dir);
	return r;
}

int queue_open(const char *folder, struct queue **ret, struct err *err)
{
	struct queue *q = calloc(1, sizeof(*q));
	int r;

	if (!q ||
	    (size_t)snprintf(q->folder, sizeof(q->folder), "%s", folder) >= sizeof(q->folder)) {
		free(q);
		return err_set(err, -ENOMEM, "cannot keep a queue in %s", folder);
	}
	r = path_make_dir(folder, err);
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

static void write_head(struct buf *out, const struct submission *job, uint64_t wall_ns)
{
	struct json j;

	buf_add_str(out, HEAD);
	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job->job_id);
	json_key_string(&j, "workdir", job->workdir);
	json_key_u64(&j, "submitted_wall_ns", wall_ns);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* Under its name when it is whole and safe. */
static int write_file(const char *path, const struct buf *text, struct err *err)
{
	char other[PATH_BYTES + 64];
	int fd, r = 0;

	snprintf(other, sizeof(other), "%s.new", path);
	fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", other, strerror(errno));
	if (write(fd, text->data, text->len) != (ssize_t)text->len || fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(other, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(other);
		return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	}
	return 0;
}

int queue_add(struct queue *q, const struct submission *job, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	uint64_t wall_ns = clock_wall_ns();
	char path[PATH_BYTES + 32];
	int r;

	if (queue_find(q, job->job_id))
		return err_set(err, -EEXIST, "a job %s waits or runs already", job->job_id);
	if (job->len > FILE_MAX_BYTES)
		return err_set(err, -E2BIG, "a job file of more than 16 MB");
	snprintf(path, sizeof(path), "%s/%llu" WAITING, q->folder, (unsigned long long)wall_ns);
	write_head(&text, job, wall_ns);
	buf_add(&text, job->text, job->len);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	r = write_file(path, &text, err);
	return r < 0 ? r : load_file(q, path, err);
}

/* ---- running ---- */

static int rename_to(struct queued *job, const char *end, bool is_started, struct err *err)
{
	size_t stem = strlen(job->path) - strlen(job->is_started ? STARTED : WAITING);
	char *path = NULL;

	if (asprintf(&path, "%.*s%s", (int)stem, job->path, end) < 0)
		return err_set(err, -ENOMEM, "no memory left to run %s", job->job_id);
	if (rename(job->path, path) < 0) {
		free(path);
		return err_set(err, -errno, "cannot rename %s: %s", job->path, strerror(errno));
	}
	free(job->path);
	job->path = path;
	job->is_started = is_started;
	job->started_boot_ns = clock_boot_ns();
	return 0;
}

int queue_put_back(struct queued *job, struct err *err)
{
	return rename_to(job, WAITING, false, err);
}

bool queue_is_held(const struct queued *job)
{
	CLEANUP(close_fd) int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Where the output of a job goes; nobody else may read it. */
static int open_log(const struct queued *job, const char *folder)
{
	char path[2 * PATH_BYTES], name[256];
	size_t n = 0;

	for (; n < sizeof(name) - 1 && job->job_id[n]; n++)
		name[n] = (char)(job->job_id[n] == '/' ? '_' : job->job_id[n]);
	name[n] = '\0';
	snprintf(path, sizeof(path), "%s/%s.log", folder, name);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* What a service manager tells the daemon alone. */
static const char *const not_for_jobs[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
					    "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES" };

/*
 * In the child: becomes the runner, in a session of its own. Signals are as a shell
 * leaves them. The spool file is its stdin, as a launcher hands on no other files.
 */
static void become_runner(const struct queue *q, const struct queued *job, int spool_fd, int log_fd)
{
	char program[PATH_BYTES] = "";
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (chdir(job->workdir) < 0 || dup2(spool_fd, STDIN_FILENO) < 0 ||
	    dup2(log_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		_exit(126);
	for (size_t i = 0; i < ARRAY_SIZE(not_for_jobs); i++)
		unsetenv(not_for_jobs[i]);
	file_limit_set(&q->files);
	setenv(QUEUED_VARIABLE, "1", 1);
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		_exit(127);
	launch_become((const char *const[]){ program, "run", "-q", "--job", job->job_id, "-f",
					     job->path, NULL });
	_exit(127);
}

/* Twice, so that it is nobody's child; the lock is the runner's from its first moment on. */
static int spawn(const struct queue *q, const struct queued *job, int log_fd, struct err *err)
{
	CLEANUP(close_fd) int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int status;
	pid_t pid;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -errno, "cannot lock %s: %s", job->path, strerror(errno));
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "cannot start a runner: %s", strerror(errno));
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_runner(q, job, fd, log_fd);
		_exit(pid < 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : err_set(err, -EAGAIN, "cannot start a runner");
}

int queue_start(struct queue *q, struct queued *job, const char *log_folder, struct err *err)
{
	CLEANUP(close_fd) int log_fd = -1;
	int r = path_make_dir(log_folder, err);

	if (r < 0)
		return r;
	log_fd = open_log(job, log_folder);
	if (log_fd < 0)
		return err_set(err, -errno, "cannot keep the output of %s: %s", job->job_id,
			       strerror(errno));
	r = rename_to(job, STARTED, true, err);
	if (r == 0)
		r = spawn(q, job, log_fd, err);
	if (r < 0 && job->is_started)
		queue_put_back(job, NULL);
	return r;
}
