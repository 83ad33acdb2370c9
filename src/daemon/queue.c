#include "daemon/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/detach.h"
#include "rpc/rpc.h"

#define WAITING ".yaml"
#define STARTED ".started"
#define HEAD "# proctor "
#define HEAD_MAX_BYTES 65536 /* what a path and a name take when every byte is escaped */
#define FILE_MAX_BYTES (16 << 20)

struct queue {
	char folder[PATH_BYTES];
	struct queued **jobs;
	size_t n, cap;
};

static void queued_free(struct queued **job)
{
	if (!*job)
		return;
	free((*job)->job_id);
	free((*job)->path);
	free((*job)->workdir);
	free((*job)->name);
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
	const char *job_id, *workdir, *name;
	uint64_t submitted_wall_ns, uid;
	size_t n_bytes; /* of the file */
};

static const struct rpc_field head_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct head, job_id), .is_required = true },
	{ "workdir", RPC_STRING, offsetof(struct head, workdir), .is_required = true },
	{ "name", RPC_STRING, offsetof(struct head, name), .is_required = false },
	{ "uid", RPC_U64, offsetof(struct head, uid), .max = UINT32_MAX - 1 },
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
	job->name = strdup(head->name ? head->name : head->job_id);
	job->uid = (uid_t)head->uid;
	job->n_bytes = head->n_bytes;
	job->submitted_wall_ns = head->submitted_wall_ns;
	job->is_started = ends_with(path, STARTED);
	job->started_boot_ns = clock_boot_ns();
	if (!job->job_id || !job->workdir || !job->path || !job->name)
		return NULL;
	return TAKE_PTR(job);
}

/* The first line of the file, without what is before the JSON. */
static int read_head(const char *path, struct buf *line, size_t *ret_n_bytes, struct err *err)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[HEAD_MAX_BYTES];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
	struct stat st;

	if (n < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!end || (size_t)(end - text) < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
		return err_set(err, -EBADMSG, "%s is no queued job", path);
	buf_add(line, text + strlen(HEAD), (size_t)(end - text) - strlen(HEAD));
	*ret_n_bytes = (size_t)st.st_size;
	return buf_error(line);
}

static int load_file(struct queue *q, const char *path, struct err *err)
{
	static const struct rpc_value_limits limits = { 4, 16 };
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct rpc_value *value = NULL;
	struct queued *job = NULL;
	struct head head = { .uid = geteuid() };
	int r = read_head(path, &line, &head.n_bytes, err);

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
	json_key_string(&j, "name", job->name);
	json_key_u64(&j, "uid", job->uid);
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

int queue_add(struct queue *q, const struct submission *job, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	uint64_t wall_ns = clock_wall_ns();
	char path[PATH_BYTES + 32];
	int r;

	if (queue_find(q, job->job_id, job->uid))
		return err_set(err, -EEXIST, "a job %s waits or runs already", job->job_id);
	if (job->len > FILE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a job file of more than 16 MB");
	r = job->uid == geteuid() ? 0 : check_share(q, job, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/%llu" WAITING, q->folder, (unsigned long long)wall_ns);
	write_head(&text, job, wall_ns);
	buf_add(&text, job->text, job->len);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	r = write_file(path, &text, err);
	if (r < 0)
		return r;
	r = load_file(q, path, err);
	if (r < 0)
		unlink(path);
	return r;
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

/* The lock is the runner's from its first moment on. */
static int hand_over(struct queued *job, int log_fd, struct err *err)
{
	CLEANUP(close_fd) int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const struct detached runner = {
		.job_id = job->job_id,
		.name = job->name,
		.workdir = job->workdir,
		.uid = job->uid,
		.spool_fd = fd,
		.log_fd = log_fd,
	};
	int r;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -EAGAIN, "cannot lock %s: %s", job->path, strerror(errno));
	r = detach_runner(&runner, err);
	job->was_executed = r == 0;
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
	int r = open_own_log(job, log_folder, &log_fd, err);

	(void)q;
	if (r < 0)
		return r;
	r = rename_to(job, STARTED, true, err);
	if (r < 0)
		return -EAGAIN;
	r = hand_over(job, log_fd, err);
	if (r < 0)
		queue_put_back(job, NULL);
	return r;
}
