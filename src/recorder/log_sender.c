#include "recorder/log_sender.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"

/* In one message, but for a frame that is larger: a socket takes that without being read. */
#define BATCH_BYTES ((size_t)96 << 10)

struct log_sender {
	struct log_reader *reader;
	struct log_id id;
	size_t end_bytes;
	uint64_t from;	 /* the next frame that the daemon lacks, */
	uint64_t behind; /* and that behind those of the last message */
};

int log_sender_open(const struct log_fs *fs, const struct log_id *id, size_t end_bytes,
		    struct log_sender **ret, struct err *err)
{
	struct log_sender *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	*s = (struct log_sender){ .id = *id, .end_bytes = end_bytes };
	r = log_reader_open(fs, id, &s->reader, err);
	if (r < 0)
		free(s);
	else
		*ret = s;
	return r;
}

struct log_sender *log_sender_close(struct log_sender *s)
{
	if (!s)
		return NULL;
	log_reader_close(s->reader);
	free(s);
	return NULL;
}

/* Frames that stand one behind the other. */
struct batch {
	struct buf bytes;
	uint64_t offset, next;
};

static int add_frame(void *ctx, const struct log_frame *frame)
{
	struct batch *b = ctx;
	size_t n = (size_t)(frame->next - frame->offset);

	if (b->bytes.len > 0 && (frame->offset != b->next || b->bytes.len + n > BATCH_BYTES))
		return 1;
	if (b->bytes.len == 0)
		b->offset = frame->offset;
	log_frame_write(frame, &b->bytes);
	b->next = frame->next;
	return buf_error(&b->bytes);
}

/* Where a segment is gone it goes on with the next. */
static bool read_batch(struct log_sender *s, uint64_t from, struct batch *ret)
{
	struct log_read_result result;

	*ret = (struct batch){ .bytes = BUF_INIT };
	if (log_read(s->reader, from, true, add_frame, ret, &result) < 0)
		buf_reset(&ret->bytes);
	return ret->bytes.len > 0;
}

static void write_batch(struct json *j, const struct batch *b)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_add_base64(&text, b->bytes.data, b->bytes.len);
	json_key_u64(j, "offset", b->offset);
	if (text.len > 0)
		json_key_string(j, "frames", text.data);
}

void log_sender_write_hello(struct log_sender *s, struct json *j)
{
	struct batch batch;
	char id[LOG_ID_TEXT_BYTES];

	read_batch(s, 0, &batch);
	log_id_format(&s->id, id);
	json_key_string(j, "log", id);
	json_key_u64(j, "end_bytes", s->end_bytes);
	write_batch(j, &batch);
	buf_release(&batch.bytes);
}

void log_sender_begin(struct log_sender *s, uint64_t from)
{
	s->from = s->behind = from;
}

bool log_sender_next(struct log_sender *s, uint64_t appended, struct buf *ret)
{
	struct batch batch;
	struct json j;
	bool has_some = read_batch(s, s->from, &batch);

	if (!has_some && s->from < appended && log_refresh(s->reader) == 0)
		has_some = read_batch(s, s->from, &batch);
	if (has_some) {
		buf_reset(ret);
		json_init_object(&j, ret);
		write_batch(&j, &batch);
		json_end_object(&j);
		s->behind = batch.next;
	}
	buf_release(&batch.bytes);
	return has_some && buf_error(ret) == 0;
}

void log_sender_accept(struct log_sender *s)
{
	s->from = s->behind;
}

static int write_end(void *ctx, const struct log_frame *end)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json *j = ctx;

	buf_add_base64(&text, end->bytes, end->n);
	json_key_string(j, "end", text.data);
	return buf_error(&text);
}

static int call(struct rpc_client *client, const char *params, uint64_t until_boot_ns)
{
	uint64_t now = clock_boot_ns();

	if (now >= until_boot_ns) /* it may read it when it goes on */
		return rpc_client_notify(client, "runner.frames", params, NULL) < 0 ? -ECONNRESET
										    : -ETIMEDOUT;
	rpc_client_set_timeout(client, (until_boot_ns - now) / 1000000 + 1);
	return rpc_client_call(client, "runner.frames", params, NULL, NULL);
}

int log_sender_finish(struct log_sender *s, struct rpc_client *client, uint64_t until_boot_ns)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;
	int r = 0;

	while (r == 0 && log_sender_next(s, 0, &params)) {
		r = call(client, params.data, until_boot_ns);
		if (r == 0)
			log_sender_accept(s);
	}
	if (r < 0)
		return r;
	buf_reset(&params);
	json_init_object(&j, &params);
	json_key_u64(&j, "offset", s->from);
	r = log_read_end(s->reader, false, write_end, &j);
	json_end_object(&j);
	if (r <= 0 || buf_error(&params) < 0)
		return r < 0 ? r : -ENODATA;
	return call(client, params.data, until_boot_ns);
}

void log_sender_hold(struct log_sender *s)
{
	(void)log_refresh(s->reader);
}

/* ---- to a daemon that comes back ---- */

#define TIMEOUT_MS 5000
#define PAUSE_SECONDS 1
#define GIVE_UP_NS (UINT64_C(3600) * 1000000000)
#define MAX_FILES 64

/* What a daemon says for good: asking it again would change nothing. */
static const int final_answers[] = { -EPROTO, -ENOSYS, -EINVAL, -EACCES,
				     -EPERM,  -ENOENT, -EEXIST, -EMSGSIZE };

/* True: the daemon has it, or does not want to. */
static bool tell(const struct attempt *a, struct log_sender *sender)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_client *client = NULL;
	struct rpc_value *answer = NULL;
	bool is_final = false;
	struct json j;
	int r = rpc_client_open(&options, &client, NULL);

	if (r < 0)
		return false;
	json_init_object(&j, &hello);
	json_key_string(&j, "job_id", a->job_id);
	log_sender_write_hello(sender, &j);
	json_end_object(&j);
	r = buf_error(&hello);
	if (r == 0)
		r = rpc_client_call(client, "runner.hello", hello.data, &answer, NULL);
	if (r == 0) {
		log_sender_begin(sender, rpc_value_u64(rpc_value_get(answer, "from")));
		r = log_sender_finish(sender, client,
				      clock_boot_ns() + TIMEOUT_MS * UINT64_C(1000000));
	}
	rpc_value_free(answer);
	for (size_t i = 0; i < ARRAY_SIZE(final_answers); i++)
		is_final |= r == final_answers[i] && rpc_client_error_code(client) != 0;
	rpc_client_close(client);
	return r == 0 || is_final;
}

static void reset_signals(void)
{
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigprocmask(SIG_SETMASK, &(sigset_t){ 0 }, NULL);
}

/* False: nobody came within the hour. Whoever wants us gone need not ask twice: the job is over. */
static bool tell_until_heard(const struct attempt *a, struct log_sender *sender)
{
	const struct timespec pause = { .tv_sec = PAUSE_SECONDS };
	uint64_t until = clock_boot_ns() + GIVE_UP_NS;
	bool is_heard;

	reset_signals();
	signal(SIGPIPE, SIG_IGN);
	while (!(is_heard = tell(a, sender)) && clock_boot_ns() < until)
		nanosleep(&pause, NULL);
	return is_heard;
}

static int compare_files(const void *a, const void *b)
{
	return COMPARE(*(const int *)a, *(const int *)b);
}

/* All but the standard ones and these. */
static int close_others(int *files, size_t n)
{
	unsigned from = STDERR_FILENO + 1;

	if (n > 0)
		qsort(files, n, sizeof(*files), compare_files);
	for (size_t i = 0; i < n; i++) {
		unsigned file = (unsigned)files[i];

		if (file > from && close_range(from, file - 1, 0) < 0)
			return -errno;
		from = file >= from ? file + 1 : from;
	}
	return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

void become_background(const char *name, int *files, size_t n)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	reset_signals();
	if (null_fd < 0 || chdir("/") < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0 || dup2(null_fd, STDERR_FILENO) < 0 ||
	    close_others(files, n) < 0)
		_exit(1);
	prctl(PR_SET_NAME, name);
}

__attribute__((noreturn)) static void become_courier(const struct attempt *a,
						     struct log_sender *sender)
{
	int files[MAX_FILES] = { 0 };

	become_background("proctor-late", files,
			  log_reader_files(sender->reader, files, MAX_FILES));
	_exit(tell_until_heard(a, sender) ? 0 : 1);
}

void late_word_leave(const struct attempt *a, struct log_sender *sender, bool stays)
{
	bool is_left = false;
	pid_t pid;

	if (sender) { /* whoever finds us, or what we leave, shall know why */
		log_info("no daemon hears how %s ended: it is told when one is back, within an "
			 "hour",
			 a->job_id);
		pid = stays ? getpid() : fork(); /* we end soon: it is then nobody's child */
		if (pid == 0)
			become_courier(a, sender);
		is_left = stays ? tell_until_heard(a, sender) : pid > 0;
	}
	log_sender_close(sender);
	if (!is_left)
		log_warning("the daemon will not know how %s ended; the record of its user does",
			    a->job_id);
}
