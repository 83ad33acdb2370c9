/*
 * service_guest - runners that say hello, and guests among them: those whose log is not in our
 * folder, as of another user or of another PROCTOR_HOME.
 *
 * A guest sends the frames of its log. We append them to a copy in our folder of logs, with the
 * same id, offsets and numbers, and the copy is ingested as any other log. All that comes is
 * hostile: whose the copy is and who runs it the kernel says, frames have their checksums, a user
 * has a share of bytes and of guests, and the rest is ingest's to judge (store/ingest.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/process_handle.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "log/log.h"
#include "model/record.h"

/* Those that are larger are left out: what they are decoded to is a multiple of that. */
#define COPY_FRAME_MAX ((size_t)4 << 20)
#define COPY_OFFSET_MAX (UINT64_C(1) << 48)
#define COPY_QUEUE_BYTES ((size_t)64 << 10)

/* What guests have sent is looked at soon, that of many at once, and no more often than takes one
 * part in so many of our time. */
#define LOOK_SOON_NS UINT64_C(10000000)
#define LOOK_COST_LIMIT 20

struct guest {
	struct service *service;
	struct rpc_subscriber *line;
	uid_t uid;
	struct log_options copy;   /* its origin, and where the next segment begins */
	struct log_writer *writer; /* of the last segment; NULL: there was no frame on this line */
	uint64_t wanted;	   /* the offset of the frame that it is to send next */
	bool is_over;		   /* it has sent its end */
	unsigned n_gaps;	   /* before segments of it, on this line */
	struct guest *next;
};

/* The attempt that its copy is of; NULL: nothing of it was read yet, or it is over. */
static struct watched *job_of(const struct guest *guest)
{
	return watch_find_log(guest->service->watch, &guest->copy.origin.id);
}

/* ---- the share of one user ---- */

#define MAX_GUESTS_PER_USER 256
#define MAX_USERS_KNOWN 4096

/* Bytes come no faster than this, but for a burst. A message is some work, however short, and a new
 * job is a row for good. */
#define BYTES_PER_SECOND (UINT64_C(256) << 10)
#define BURST_NS (UINT64_C(256) * 1000000000)
#define MESSAGE_BYTES ((size_t)4 << 10)
#define NEW_JOB_BYTES ((size_t)64 << 10)

/*
 * Each byte moves the moment on from which the user has all of the burst again. Those whose moment
 * is over are no different from those who are not known.
 */
static int spend(struct service *s, uid_t uid, size_t bytes, struct err *err)
{
	uint64_t now = clock_boot_ns(), due = now;

	if (uid == 0 || uid == geteuid())
		return 0;
	bytes = bytes > MESSAGE_BYTES ? bytes : MESSAGE_BYTES;
	if (!map_get(&s->guests.due_ns, uid, &due) || due < now)
		due = now;
	if (due - now > BURST_NS)
		return err_set(err, -EBUSY, "too much of one user in too short a time");
	if (s->guests.due_ns.len >= MAX_USERS_KNOWN)
		map_clear(&s->guests.due_ns);
	if (map_put(&s->guests.due_ns, uid, due + bytes * UINT64_C(1000000000) / BYTES_PER_SECOND) <
	    0)
		return err_set(err, -ENOMEM, "no memory left for a job");
	return 0;
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) : 0;
}

int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err)
{
	size_t n, n_jobs = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	if (service_is_owner(peer))
		return 0;
	for (size_t i = 0; i < n; i++)
		n_jobs += jobs[i]->a.uid == peer->uid;
	for (const struct guest *guest = s->guests.first; guest; guest = guest->next)
		n_jobs += guest->uid == peer->uid && !job_of(guest);
	if (n_jobs >= MAX_GUESTS_PER_USER)
		return err_set(err, -EBUSY,
			       "one user may have %d jobs watched that are recorded elsewhere",
			       MAX_GUESTS_PER_USER);
	return spend(s, peer->uid, NEW_JOB_BYTES, err);
}

/* ---- the list of them ---- */

/* Also when its line has hung up. */
static void forget(void *ctx)
{
	struct guest *guest = ctx;

	LIST_REMOVE(guest->service->guests.first, guest, next);
	log_writer_free(guest->writer);
	free(guest);
}

static void hang_up(struct guest *guest)
{
	rpc_subscriber_hang_up(guest->line);
	forget(guest);
}

void service_drop_guests(struct service *s)
{
	while (s->guests.first)
		forget(s->guests.first);
	close_fd(&s->guests.copies_fd);
	map_release(&s->guests.due_ns);
}

/* Whose connection a call came on; NULL: no guest's. */
static struct guest *guest_of(const struct rpc_call *call)
{
	return rpc_call_subscription(call, forget);
}

void service_tend_guests(struct service *s)
{
	struct stat st;

	if (s->guests.copies_fd < 0 || fstat(s->guests.copies_fd, &st) < 0 || st.st_nlink > 0)
		return;
	/* Nobody would find what is appended there: who says hello again sends it again. */
	while (s->guests.first)
		hang_up(s->guests.first);
	close_fd(&s->guests.copies_fd);
}

/* ---- its copy ---- */

static int open_folder(struct service *s, struct log_fs *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	int r;

	buf_printf(&path, "%s-logs", s->database.path);
	if (s->guests.copies_fd < 0) {
		r = path_make_dir(path.data, err);
		if (r < 0)
			return r;
		s->guests.copies_fd =
			open(path.data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (s->guests.copies_fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", path.data, strerror(errno));
	*ret = log_fs_real(s->guests.copies_fd);
	return 0;
}

/* Frames are lost where a runner had no room for them, which is rare. Each gap is a segment, as
 * what comes when the last one is full: it reserves room for the end. */
#define MAX_GAPS 8

static int begin_segment(struct guest *guest, const struct log_frame *frame, bool is_gap,
			 struct err *err)
{
	struct log_fs fs;
	int r = open_folder(guest->service, &fs, err);

	if (r == 0 && is_gap && ++guest->n_gaps > MAX_GAPS)
		r = err_set(err, -EINVAL, "too many frames of the log are missing");
	if (r == 0)
		r = spend(guest->service, guest->uid, guest->copy.end_bytes, err);
	if (r < 0)
		return r;
	guest->writer = log_writer_free(guest->writer);
	guest->copy.first_offset = frame->offset;
	guest->copy.first_seq = frame->seq;
	r = log_create(&fs, &guest->copy, &guest->writer, err);
	if (r == 0)
		guest->copy.first_index++;
	return r;
}

/*
 * Those that are there already are passed over. Where some are missing, it goes on with the next
 * key: the attempt as it was by then. *ret_is_news: among them are others than ticks.
 */
static int take_frames(struct guest *guest, uint64_t offset, const char *text, bool *ret_is_news,
		       struct err *err)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct log_frame frame;
	int r = text ? buf_add_unbase64(&bytes, text) : 0;

	/* It is nothing but whole frames. */
	if (r == 0)
		r = buf_error(&bytes);
	for (size_t at = 0; r == 0 && at < bytes.len; at += (size_t)frame.next)
		r = log_frame_read(bytes.data + at, bytes.len - at, &frame);
	if (r < 0)
		return err_set(err, -EINVAL, "'frames' has bytes that are none");
	for (size_t at = 0; at < bytes.len; at += (size_t)(frame.next - frame.offset)) {
		bool is_key, is_gap, is_next;

		(void)log_frame_read(bytes.data + at, bytes.len - at, &frame);
		frame.offset = offset + at;
		frame.next += frame.offset;
		is_key = frame.flags & LOG_KEY && frame.type == RECORD_BEGIN;
		is_gap = guest->writer && frame.offset != log_appended(guest->writer);
		is_next = !guest->writer || is_gap ||
			  (is_key && frame.offset - guest->copy.first_offset >= LOG_SEGMENT_BYTES);
		if (frame.n > COPY_FRAME_MAX || frame.next > COPY_OFFSET_MAX ||
		    (guest->writer && frame.offset < log_appended(guest->writer)) ||
		    (is_next && !is_key))
			continue;
		if (is_next)
			r = begin_segment(guest, &frame, is_gap, err);
		if (r < 0)
			return r;
		r = log_append_frame(guest->writer, &frame, err);
		if (r == -ENOBUFS || r == -EINVAL)
			return r; /* else the disk may have no room now, and it waits in memory */
		*ret_is_news |= frame.type != RECORD_TICK;
	}
	if (offset + bytes.len > guest->wanted)
		guest->wanted = offset + bytes.len;
	return 0;
}

/* ---- a runner says hello ---- */

struct hello_params {
	const char *job_id;
	const char *log;	/* its id */
	uint64_t device, inode; /* of the folder of it */
	bool keeps_calls;	/* counts its system calls itself, or nobody is to */
	bool wants_calls;	/* they are to be counted before the answer */
	uint64_t offset;	/* of these: */
	const char *frames;
	uint64_t end_bytes; /* room for its end */
};

static const struct rpc_field hello_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct hello_params, job_id), .is_required = true },
	{ "log", RPC_STRING, offsetof(struct hello_params, log), .is_required = true },
	{ "device", RPC_U64, offsetof(struct hello_params, device), .is_required = false },
	{ "inode", RPC_U64, offsetof(struct hello_params, inode), .is_required = false },
	{ "keeps_calls", RPC_BOOL, offsetof(struct hello_params, keeps_calls),
	  .is_required = false },
	{ "wants_calls", RPC_BOOL, offsetof(struct hello_params, wants_calls),
	  .is_required = false },
	{ "offset", RPC_U64, offsetof(struct hello_params, offset), .is_required = true,
	  .max = (double)COPY_OFFSET_MAX },
	{ "frames", RPC_STRING, offsetof(struct hello_params, frames), .is_required = false },
	{ "end_bytes", RPC_U64, offsetof(struct hello_params, end_bytes), .is_required = true,
	  .max = (double)LOG_END_MAX / 2 },
};

/* Where the copy goes on, or begins. */
static int find_copy(struct guest *guest, const struct rpc_peer *peer, const char *job_id,
		     struct err *err)
{
	struct service *s = guest->service;
	struct log_id id = guest->copy.origin.id;
	struct stored_log stored = { .uid = peer->uid };
	struct attempt a = { .job_id = job_id,
			     .uid = peer->uid,
			     .started_wall_ns = clock_wall_ns(),
			     .pid_ns = own_pid_ns() };
	struct log_fs fs;
	int r;

	if (s->store)
		(void)store_find_log(s->store, id.bytes, &stored, NULL);
	if (stored.uid != peer->uid)
		return err_set(err, -EEXIST, "the log is another's");
	r = open_folder(s, &fs, err);
	if (r < 0)
		return r;
	/* Its files go when a sync has covered what is stored of them: not before that nobody need
	 * send it any more. */
	r = log_continue(&fs, &id, &guest->copy, err);
	if (r == -EEXIST)
		return err_set(err, -EBUSY, "the end of the job is not on the disk yet");
	if (stored.is_over)
		return err_set(err, -EEXIST, "the job is over already");
	if (r == 0 && !guest->copy.origin.is_copy)
		return err_set(err, -EEXIST, "the log is here already");
	guest->wanted = guest->copy.key_offset;
	if (r == 0 && guest->copy.origin.uid != peer->uid)
		return err_set(err, -EEXIST, "the log is another's");
	if (r != -ENOENT)
		return r;
	/* Whose it is, and who runs it: the process that asks. Others have attempts of this job,
	 * too: it has a number of its own here. */
	r = guest_check_share(s, peer, err);
	if (r == 0)
		r = caller_find_process(peer, &a.runner, err);
	if (r == 0)
		r = attempt_log_take_number(s->database.path, &a, err);
	if (r < 0)
		return r;
	proc_boot_id(a.boot_id);
	attempt_log_describe_origin(&a, &guest->copy.origin);
	guest->copy.origin.id = id;
	guest->copy.origin.attempt_num = a.attempt_num;
	guest->copy.origin.is_copy = true;
	return 0;
}

static int receive(struct service *s, struct rpc_call *call, const struct hello_params *params,
		   struct err *err)
{
	struct guest *guest = calloc(1, sizeof(*guest)), *before = s->guests.first;
	const struct rpc_peer *peer = rpc_call_peer(call);
	bool is_news = false;
	int r;

	if (!guest)
		return err_set(err, -ENOMEM, "no memory left to record the job");
	*guest = (struct guest){ .service = s, .uid = peer->uid };
	r = log_id_parse(params->log, &guest->copy.origin.id) < 0
		    ? err_set(err, -EINVAL, "'log' is not the id of a log")
		    : spend(s, peer->uid, text_bytes(params->frames), err);
	/* One that says hello again may still have the line before. */
	while (r == 0 && before &&
	       memcmp(&before->copy.origin.id, &guest->copy.origin.id,
		      sizeof(guest->copy.origin.id)) != 0)
		before = before->next;
	if (r == 0 && before && before->uid != peer->uid)
		r = err_set(err, -EEXIST, "the log is another's");
	else if (r == 0 && before)
		hang_up(before);
	if (r == 0)
		r = find_copy(guest, peer, params->job_id, err);
	guest->copy.end_bytes = params->end_bytes;
	guest->copy.segment_bytes = SIZE_MAX; /* we begin them */
	guest->copy.queue_bytes = COPY_QUEUE_BYTES;
	if (r == 0 && guest->copy.first_index == 0) /* else it sends what is missing */
		r = take_frames(guest, params->offset, params->frames, &is_news, err);
	if (r == 0)
		r = rpc_call_subscribe(call, forget, guest, &guest->line, err);
	if (r < 0) {
		log_writer_free(guest->writer);
		free(guest);
		return r;
	}
	guest->next = s->guests.first;
	s->guests.first = guest;
	service_look(s);
	return 0;
}

int method_runner_hello(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(buf_release) struct buf folder = BUF_INIT;
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct hello_params params = { 0 };
	struct guest *guest = NULL;
	struct watched *job;
	bool counts = false;
	struct stat st;
	struct json *j;
	int r = rpc_call_read(call, hello_fields, ARRAY_SIZE(hello_fields), &params, err);

	if (r == 0 && !job_id_is_valid(params.job_id))
		r = err_set(err, -EINVAL, "'%s' cannot be the id of a job", params.job_id);
	if (r == 0 && guest_of(call))
		r = err_set(err, -EEXIST, "this connection is a runner's already");
	if (r == 0)
		r = spend(s, peer->uid, 0, err); /* a look is work */
	if (r < 0)
		return r;
	service_look(s);
	buf_printf(&folder, "%s-logs", s->database.path);
	if (buf_error(&folder) == 0 && stat(folder.data, &st) == 0 &&
	    (uint64_t)st.st_dev == params.device && (uint64_t)st.st_ino == params.inode) {
		job = service_find_own_job(s, peer, params.job_id);
	} else {
		r = receive(s, call, &params, err);
		if (r < 0)
			return r;
		guest = guest_of(call); /* the look may have hung up on it */
		if (!guest)
			return err_set(err, -EBUSY, "the job cannot be watched now");
		job = job_of(guest);
	}
	if (job && params.keeps_calls)
		service_leave_calls_of(s, job);
	if (job && params.wants_calls)
		counts = service_count_calls_now(s, job);
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_bool(j, "guest", guest != NULL);
	service_write_stream(s, j, service_open_stream(s, call, params.job_id));
	json_key_bool(j, "counts_calls", counts);
	if (guest)
		json_key_u64(j, "from", guest->wanted);
	json_end_object(j);
	return 0;
}

/* ---- what it sends ---- */

/* Something has changed in a log. */
static void look_at_changes(struct service *s)
{
	service_drain_life(s);
	service_look(s);
	service_run_queue(s); /* where one has ended, another may begin */
}

static void on_look_timer(void *ctx)
{
	struct service *s = ctx;
	uint64_t began_ns = clock_boot_ns(), now;

	s->guests.is_look_planned = false;
	look_at_changes(s);
	now = clock_boot_ns();
	s->guests.next_look_boot_ns = now + LOOK_COST_LIMIT * (now - began_ns);
}

static void look_soon(struct service *s)
{
	uint64_t at = clock_boot_ns(), wait_ns = LOOK_SOON_NS;

	if (s->guests.is_look_planned)
		return;
	if (s->guests.next_look_boot_ns > at + wait_ns)
		wait_ns = s->guests.next_look_boot_ns - at;
	if (!s->guests.timer)
		s->guests.timer = loop_timer_new(s->loop, on_look_timer, s);
	s->guests.is_look_planned = s->guests.timer != NULL; /* else the next tick looks */
	if (s->guests.timer)
		loop_timer_set(s->guests.timer, wait_ns / 1000000, 0);
}

/* The end of a copy on its way to the disk: it is acknowledged when it is there. */
struct ending {
	struct rpc_call *call; /* NULL: nobody waits for the answer any more */
	struct log_reader *copy;
	int folder_fd, result;
};

static void sync_end(void *ctx)
{
	struct ending *e = ctx;

	e->result = log_reader_sync(e->copy);
}

static void on_synced(void *ctx)
{
	struct ending *e = ctx;
	struct err err = ERR_INIT;

	if (e->result < 0)
		err_set(&err, e->result, "the disk refuses the end of the job: %s",
			strerror(-e->result));
	if (e->call && e->result < 0)
		rpc_call_fail(e->call, e->result, &err);
	else if (e->call)
		rpc_call_answer(e->call);
	log_reader_close(e->copy);
	close_fd(&e->folder_fd);
	free(e);
}

static void on_gone(void *ctx)
{
	((struct ending *)ctx)->call = NULL;
}

/* Another thread waits for the disk; without memory for it the runner sends its end again. */
static int answer_when_synced(struct service *s, const struct guest *guest, struct rpc_call *call,
			      struct err *err)
{
	struct ending *e = calloc(1, sizeof(*e));
	struct log_fs fs;
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "no memory left to record the job");
	e->folder_fd = fcntl(s->guests.copies_fd, F_DUPFD_CLOEXEC, 0);
	fs = log_fs_real(e->folder_fd);
	r = log_reader_open(&fs, &guest->copy.origin.id, &e->copy, err);
	if (r == 0)
		r = loop_queue_work(s->loop, sync_end, on_synced, e);
	if (r < 0) {
		log_reader_close(e->copy);
		close_fd(&e->folder_fd);
		free(e);
		return r;
	}
	e->call = call;
	rpc_call_defer(call, on_gone, e);
	return 0;
}

struct frames_params {
	uint64_t offset;
	const char *frames;
	const char *end;
};

static const struct rpc_field frames_fields[] = {
	{ "offset", RPC_U64, offsetof(struct frames_params, offset), .is_required = true,
	  .max = (double)COPY_OFFSET_MAX },
	{ "frames", RPC_STRING, offsetof(struct frames_params, frames), .is_required = false },
	{ "end", RPC_STRING, offsetof(struct frames_params, end), .is_required = false },
};

int method_runner_frames(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(buf_release) struct buf end = BUF_INIT;
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct frames_params params = { 0 };
	struct guest *guest = guest_of(call);
	bool is_news = false;
	struct json *j;
	int r = rpc_call_read(call, frames_fields, ARRAY_SIZE(frames_fields), &params, err);

	if (r == 0 && !guest)
		r = err_set(err, -EINVAL, "this connection is no guest's");
	if (r == 0 && guest->is_over && params.frames)
		r = err_set(err, -EINVAL, "the job is over already");
	if (r == 0)
		r = spend(s, peer->uid, text_bytes(params.frames) + text_bytes(params.end), err);
	if (r == 0)
		r = take_frames(guest, params.offset, params.frames, &is_news, err);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_u64(j, "appended", guest->wanted);
	json_end_object(j);
	if (!params.end) {
		if (is_news)
			look_soon(s);
		return 0;
	}
	if (!guest->is_over) {
		if (buf_add_unbase64(&end, params.end) < 0 || !guest->writer)
			return err_set(err, -EINVAL, "'end' is none, or no frames came before it");
		r = log_write_end(guest->writer, end.data, end.len, NULL, err);
		if (r < 0)
			return r;
		guest->is_over = true;
		guest->writer = log_writer_free(guest->writer);
	}
	if (rpc_call_wants_answer(call))
		r = answer_when_synced(s, guest, call, err);
	look_at_changes(s);
	return r;
}

/* Something has changed in a log that we read. */
int method_runner_changed(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);

	if (!service_is_owner(peer) && !guest_of(call))
		return err_set(err, -EINVAL, "this connection is no runner's");
	if (rpc_call_wants_answer(call) && service_is_owner(peer))
		look_at_changes(s);
	else
		look_soon(s);
	return 0;
}

/* ---- whose end may still come ---- */

/* A courier asks for us every second (log_sender.h). */
#define WORD_COMES_NS UINT64_C(10000000000)

bool service_expects_word(void *service, const struct attempt *a)
{
	const struct service *s = service;

	return geteuid() == 0 && u64_known(a->uid) && a->uid != 0 &&
	       strcmp(a->boot_id, s->record.boot_id) == 0 &&
	       clock_boot_ns() - s->ticking.started_boot_ns < WORD_COMES_NS;
}

/* ---- what it asks for ---- */

struct calls_params {
	bool is_final, wants_all;
};

static const struct rpc_field calls_fields[] = {
	{ "final", RPC_BOOL, offsetof(struct calls_params, is_final), .is_required = false },
	{ "all", RPC_BOOL, offsetof(struct calls_params, wants_all), .is_required = false },
};

/* What was counted of the caller's own job: so far, or at its end for its record. */
int method_runner_calls(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct guest *guest = guest_of(call);
	/* By its line, or by its process if it holds none yet. */
	struct watched *job =
		guest ? job_of(guest) : service_find_own_job(ctx, rpc_call_peer(call), NULL);
	struct calls_params params = { 0 };
	int r = rpc_call_read(call, calls_fields, ARRAY_SIZE(calls_fields), &params, err);
	struct json *j;

	if (r == 0 && !job)
		r = err_set(err, -EINVAL, "this connection is no runner's");
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	service_write_calls_of(ctx, job, params.is_final, params.wants_all, j);
	json_end_object(j);
	return 0;
}
