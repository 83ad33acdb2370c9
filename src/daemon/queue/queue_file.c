#include "daemon/queue/queue_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "rpc/rpc.h"

#define HEAD "# proctor "
#define HEAD_MAX_BYTES 65536 /* what a path and a name take when every byte is escaped */

void queued_free(struct queued **job)
{
	if (!*job)
		return;
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
	size_t n_bytes; /* of the file */
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
	job->input_bytes = head->input_bytes;
	job->submission = head->submission;
	job->is_started = ends_with(path, QUEUE_STARTED);
	job->started_boot_ns = clock_boot_ns();
	if (!job->job_id || !job->workdir || !job->path || !job->name)
		return NULL;
	return TAKE_PTR(job);
}

/* The JSON of the first line. -EBADMSG: it is none of ours. */
static int find_head(const char *text, size_t len, struct buf *ret)
{
	const char *end = len > 0 ? memchr(text, '\n', len) : NULL;

	if (!end || (size_t)(end - text) < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
		return -EBADMSG;
	buf_add(ret, text + strlen(HEAD), (size_t)(end - text) - strlen(HEAD));
	return buf_error(ret);
}

/* What head points at lives as long as the value, which the caller frees. */
static int read_head(const struct buf *line, struct rpc_value **ret_value, struct head *ret,
		     struct err *err)
{
	static const struct rpc_value_limits limits = { 4, 16 };
	int r = rpc_value_parse(line->data, line->len, &limits, ret_value, err);

	return r < 0 ? r
		     : rpc_fields_read_known(*ret_value, head_fields, ARRAY_SIZE(head_fields), ret,
					     err);
}

static int read_first_line(const char *path, struct buf *line, size_t *ret_n_bytes, struct err *err)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[HEAD_MAX_BYTES];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	struct stat st;
	int r;

	if (n < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	r = find_head(text, (size_t)n, line);
	if (r < 0)
		return err_set(err, r, "%s is no queued job", path);
	*ret_n_bytes = (size_t)st.st_size;
	return 0;
}

int queue_file_read(const char *path, struct queued **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct rpc_value *value = NULL;
	struct queued *job = NULL;
	struct head head = { .uid = geteuid(), .input_bytes = U64_UNKNOWN };
	int r = read_first_line(path, &line, &head.n_bytes, err);

	if (r == 0)
		r = read_head(&line, &value, &head, err);
	if (r == 0)
		job = queued_new(&head, path);
	rpc_value_free(value);
	if (r == 0 && !job)
		r = err_set(err, -ENOMEM, "no memory left for the queue");
	if (r == 0)
		*ret = job;
	return r;
}

const char *queue_file_job(const char *text, size_t len, uint64_t *ret_submission)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct head head = { .submission = U64_UNKNOWN };
	struct rpc_value *value = NULL;
	bool has_head = find_head(text, len, &line) == 0;

	if (has_head)
		(void)read_head(&line, &value, &head, NULL);
	rpc_value_free(value);
	*ret_submission = head.submission;
	return has_head ? (const char *)memchr(text, '\n', len) + 1 : text;
}

/* ---- writing ---- */

static void write_head(struct buf *out, const struct submission *job, uint64_t id, uint64_t wall_ns)
{
	struct json j;

	buf_add_str(out, HEAD);
	json_init(&j, out);
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
	buf_add_char(out, '\n');
}

/* Under its name when it is whole and safe. */
static int write_safely(const char *path, const struct buf *text, struct err *err)
{
	char other[PATH_BYTES + 64];
	int fd, r;

	snprintf(other, sizeof(other), "%s.new", path);
	fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot write %s: %s", other, strerror(errno));
	r = io_write_all(fd, text->data, text->len);
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

int queue_file_write(const char *path, const struct submission *job, uint64_t id, uint64_t wall_ns,
		     struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (job->len > QUEUE_FILE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a job file of more than %d MB",
			       QUEUE_FILE_MAX_BYTES >> 20);
	write_head(&text, job, id, wall_ns);
	buf_add(&text, job->text, job->len);
	if (buf_error(&text) < 0)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	return write_safely(path, &text, err);
}
