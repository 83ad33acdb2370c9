#include "daemon/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/process_handle.h"
#include "model/record.h"
#include "recorder/recorder.h"
#include "store/store.h"

/* Of one user whose logs are copies: whatever they have recorded, there is room for so much. */
#define USER_MAX_SHEETS 16384

/* Anomalies of one job that last. */
#define MAX_ACTIVE 256

/* Attempts whose logs are remembered when they are over. */
#define MAX_KNOWN ((size_t)1 << 16)

enum log_state {
	LOG_UNREAD,
	LOG_RUNS,
	LOG_LOST, /* a copy without an end: that may still come */
	LOG_OVER, /* or it is none of ours: nothing of it will be reported */
};

/* A log of the folder. */
struct followed {
	struct log_id id;
	enum log_state state;
	bool was_alive; /* its recorder, at the first look */
	uint64_t created_wall_ns;
	uint64_t offset; /* of the first frame that was not read */
	struct watched *job;
	/* Of its files when it was read last: what is the same has nothing new. */
	size_t n_files;
	uint64_t bytes, changed_ns;
	size_t listed; /* its place in the folder's list */
};

struct known {
	struct log_id log;
	uint64_t uid;
};

struct watch {
	struct watch_ops ops;
	void *ctx;
	const char *db_path;
	struct log_origin own; /* of a log of this boot */
	int folder_fd;	       /* locked: nobody else removes logs; -1 */
	struct log_folder folder;
	struct followed *logs; /* sorted by id */
	size_t n_logs;
	struct watched **jobs;
	size_t n, cap;
	struct map by_id;      /* attempt -> address of its job */
	struct watched *ended; /* until watch_drop_ended() */
	struct known *known;   /* of attempt i: at (i - 1) % MAX_KNOWN */
	size_t cap_known;
	int64_t last_id;
	uint64_t looked_wall_ns;
	bool has_looked, is_looking;
};

struct watch *watch_new(const char *db_path, const struct watch_ops *ops, void *ctx)
{
	struct watch *w = calloc(1, sizeof(*w));
	struct attempt own = { 0 };

	if (!w)
		return NULL;
	w->db_path = db_path;
	w->ops = *ops;
	w->ctx = ctx;
	w->folder_fd = -1;
	proc_boot_id(own.boot_id);
	attempt_log_describe_origin(&own, &w->own);
	return w;
}

static void watched_free(struct watched **job)
{
	if (!*job)
		return;
	free((*job)->a.sheets); /* which attempt_release() forgets */
	attempt_release(&(*job)->a);
	close_fd(&(*job)->runner_fd);
	signal_list_release(&(*job)->signals);
	free((*job)->active);
	free((*job)->job_id);
	free(*job);
}

void watch_drop_ended(struct watch *w)
{
	struct watched *next;

	for (struct watched *job = w->ended; job; job = next) {
		next = job->next;
		watched_free(&job);
	}
	w->ended = NULL;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < w->n; i++)
		watched_free(&w->jobs[i]);
	watch_drop_ended(w);
	free(w->jobs);
	free(w->logs);
	free(w->known);
	map_release(&w->by_id);
	log_folder_release(&w->folder);
	close_fd(&w->folder_fd);
	free(w);
	return NULL;
}

/* ---- finding ---- */

struct watched **watch_jobs(struct watch *w, size_t *ret_n)
{
	*ret_n = w->n;
	return w->jobs;
}

struct watched *watch_find_of(struct watch *w, const char *job_id, uint64_t uid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i]->a.uid == uid && strcmp(w->jobs[i]->job_id, job_id) == 0)
			return w->jobs[i];
	return NULL;
}

struct watched *watch_find_attempt(struct watch *w, int64_t id)
{
	uint64_t found;

	return map_get(&w->by_id, (uint64_t)id, &found) ? (struct watched *)(uintptr_t)found : NULL;
}

struct watched *watch_find_log(struct watch *w, const struct log_id *id)
{
	for (size_t i = 0; i < w->n; i++)
		if (memcmp(&w->jobs[i]->log, id, sizeof(*id)) == 0)
			return w->jobs[i];
	return NULL;
}

struct watched *watch_find_submission(struct watch *w, uint64_t submission)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i]->a.submission == submission)
			return w->jobs[i];
	return NULL;
}

struct watched *watch_find_runner(struct watch *w, const struct proc_key *runner)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->jobs[i]->a.runner.pid == runner->pid &&
		    w->jobs[i]->a.runner.start_ticks == runner->start_ticks)
			return w->jobs[i];
	return NULL;
}

bool watch_log_of(const struct watch *w, int64_t id, struct log_id *ret, uint64_t *ret_uid)
{
	const struct known *known;

	if (id <= 0 || id > w->last_id || (uint64_t)(w->last_id - id) >= MAX_KNOWN)
		return false;
	known = &w->known[(size_t)(id - 1) % MAX_KNOWN];
	*ret = known->log;
	*ret_uid = known->uid;
	return true;
}

int64_t watch_id_of(struct watch *w, const struct log_id *log, uint64_t uid)
{
	size_t n = (size_t)w->last_id < MAX_KNOWN ? (size_t)w->last_id : MAX_KNOWN;

	for (size_t i = 0; i < n; i++) {
		int64_t id = w->last_id - (int64_t)i;

		if (memcmp(&w->known[(size_t)(id - 1) % MAX_KNOWN].log, log, sizeof(*log)) == 0)
			return id;
	}
	if (n < MAX_KNOWN && ARRAY_RESERVE(w->known, w->cap_known, n + 1) < 0)
		return -ENOMEM;
	w->known[(size_t)w->last_id % MAX_KNOWN] = (struct known){ *log, uid };
	return ++w->last_id;
}

uint64_t watch_looked_wall_ns(const struct watch *w)
{
	return w->looked_wall_ns;
}

/* ---- records ---- */

/* One log, while it is read. */
struct reading {
	struct watch *w;
	struct followed *f;
	const struct log_origin *origin;
	bool is_past; /* what it has was there before the first look */
	bool is_late; /* an end may have come after the job was lost: nothing else is reported */
	struct arena arena; /* of the record that is read */
};

/* How far it is, with these sheets: its own are in their order, without their ranks. */
static void take_sheets(const struct reading *in, const struct sheet_record *sheets, size_t n)
{
	struct watch *w = in->w;
	struct watched *job = in->f->job;
	struct attempt *a = &job->a;
	size_t n_of_user = 0;

	for (size_t i = 0; job->is_copy && i < w->n; i++)
		if (w->jobs[i]->is_copy && w->jobs[i]->a.uid == a->uid)
			n_of_user += w->jobs[i]->a.n_sheets;
	for (size_t i = 0; i < n; i++) {
		const struct sheet_record *from = &sheets[i];
		struct sheet_record *s = NULL;
		size_t at = a->n_sheets;
		bool is_new, is_over;

		while (at > 0 && (from->num < a->sheets[at - 1].num ||
				  (from->num == a->sheets[at - 1].num &&
				   from->try_num < a->sheets[at - 1].try_num)))
			at--;
		is_new = at == 0 || a->sheets[at - 1].num != from->num ||
			 a->sheets[at - 1].try_num != from->try_num;
		is_over = u64_known(from->ended_wall_ns);
		if (is_new) {
			if (job->is_copy && n_of_user++ >= USER_MAX_SHEETS)
				return;
			s = reallocarray(a->sheets, a->n_sheets + 1, sizeof(*s));
			if (!s)
				return;
			a->sheets = s;
			memmove(s + at + 1, s + at, (a->n_sheets++ - at) * sizeof(*s));
			s += at;
		} else {
			s = &a->sheets[at - 1];
			if (u64_known(s->ended_wall_ns) || !is_over)
				continue;
		}
		*s = *from;
		s->name = arena_strdup(&a->arena, s->name);
		s->command = arena_strdup(&a->arena, s->command);
		s->reason = arena_strdup(&a->arena, s->reason);
		s->ranks = NULL;
		s->n_ranks = 0;
		if (is_new && !in->is_late)
			w->ops.change(w->ctx, CHANGE_SHEET_STARTED, job, s);
		if (is_over && !in->is_late)
			w->ops.change(w->ctx, CHANGE_SHEET_ENDED, job, s);
	}
}

/* Takes over the attempt. */
static int add_job(struct reading *in, struct attempt *a)
{
	CLEANUP(watched_free) struct watched *job = calloc(1, sizeof(*job));
	struct watch *w = in->w;
	/* The runner of a job whose log somebody has removed has begun another. */
	struct watched *same = in->is_late ? NULL : watch_find_runner(w, &a->runner);
	struct rlimit limit;

	if (same && same->a.uid == a->uid && same->a.is_attached == a->is_attached &&
	    strcmp(same->job_id, a->job_id) == 0) {
		same->log = in->f->id;
		in->f->job = same;
		return 0;
	}
	if (!job)
		return -ENOMEM;
	job->a = *a;
	attempt_init(a);
	job->runner_fd = -1;
	job->log = in->f->id;
	job->is_copy = in->origin->is_copy;
	estimate_init(&job->estimate);
	job->point = (struct series_point){ .rss_bytes = U64_UNKNOWN, .cpu_percent = F64_UNKNOWN };
	job->job_id = strdup(job->a.job_id);
	job->a.job_id = job->job_id;
	job->a.is_running = true;
	job->a.id = watch_id_of(w, &in->f->id, job->a.uid);
	if (!job->job_id || job->a.id < 0 || ARRAY_RESERVE(w->jobs, w->cap, w->n + 1) < 0 ||
	    (!in->is_late && map_put(&w->by_id, (uint64_t)job->a.id, (uintptr_t)job) < 0))
		return -ENOMEM;
	in->f->job = job;
	if (!in->is_late) {
		w->jobs[w->n++] = job;
		if (!job->a.is_attached)
			job->runner_fd = open_process(&job->a.runner);
		/* Where few files may be open, others need them more: then its start time tells
		 * whether it lives. */
		if (job->runner_fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		    (rlim_t)job->runner_fd > limit.rlim_cur / 2)
			close_fd(&job->runner_fd);
		w->ops.change(w->ctx, CHANGE_JOB_STARTED, job, NULL);
	}
	job = NULL;
	return 0;
}

/* A log has it at the beginning of each segment, and now and then. */
static int take_begin(struct reading *in, const struct log_frame *frame)
{
	CLEANUP(attempt_release) struct attempt a;
	bool is_copy = in->origin->is_copy, was_lost;
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, &a.arena, 0,
				   is_copy ? RECORD_FOREIGN_TEXT : 0 };
	struct watched *job = in->f->job;
	struct sheet_record *sheets;
	size_t n = 0;
	int result = 0;

	attempt_init(&a);
	record_read_begin(&r, &a);
	sheets = record_read_sheets(&r, &n);
	if (r.error || !a.job_id || !job_id_is_valid(a.job_id))
		return r.error == -ENOMEM ? -ENOMEM : 0;
	if (is_copy)
		store_identify_copy(in->origin, &a);
	if (job) {
		job->a.last_completed_sheet = a.last_completed_sheet;
		job->a.current_sheet = a.current_sheet;
		take_sheets(in, sheets, n);
		return 0;
	}
	/* Whether its recorder was gone when we began, and nothing is expected of it any more. */
	was_lost = is_copy ? !proc_is_alive("", a.runner.pid, a.runner.start_ticks) &&
				     !in->w->ops.expects_end(in->w->ctx, &a)
			   : !in->f->was_alive && !a.is_attached;
	if (in->is_past && was_lost) {
		in->f->state = is_copy ? LOG_LOST : LOG_OVER;
		return -ECANCELED;
	}
	result = add_job(in, &a);
	if (result == 0)
		take_sheets(in, sheets, n);
	return result;
}

static void end_job(struct watch *w, struct watched *job)
{
	job->a.is_running = false;
	w->ops.change(w->ctx, CHANGE_JOB_ENDED, job, NULL);
}

/* ---- a log and its frames: log_sink ---- */

static int sink_find(void *ctx, const struct log_origin *origin, struct log_cursor *ret)
{
	struct reading *in = ctx;

	in->origin = origin;
	*ret = (struct log_cursor){ .offset = in->f->offset, .is_ready = true };
	return in->f->offset ? 0 : -ENOENT;
}

/* What is of the job. What a runner says of the host the daemon knows itself. */
static void take_anomaly(struct reading *in, struct record_reader *r)
{
	struct watched *job = in->f->job;
	struct anomaly_evidence evidence;
	struct episode e;
	int change = 0;
	size_t i = 0;

	if (record_read_anomaly(r, &e, &evidence, &change) < 0 || !e.worst.job_id)
		return;
	episode_set_job(&e, job->job_id);
	e.attempt_id = job->a.id;
	while (i < job->n_active && strcmp(job->active[i].name, e.name) != 0)
		i++;
	if (change == EPISODE_CLEARED && i < job->n_active) {
		job->active[i] = job->active[--job->n_active];
	} else if (change != EPISODE_CLEARED && i == job->n_active && i < MAX_ACTIVE &&
		   ARRAY_RESERVE(job->active, job->cap_active, i + 1) == 0) {
		job->n_active++;
		job->active[i].type = e.worst.type;
		snprintf(job->active[i].name, sizeof(job->active[i].name), "%s", e.name);
	}
	if (change != RECORD_RENEWED && !in->is_past)
		in->w->ops.anomaly(in->w->ctx, job, &e, (enum episode_change)change);
}

static int sink_frame(void *ctx, const struct log_frame *frame, bool is_new)
{
	struct reading *in = ctx;
	struct watched *job = in->f->job;
	bool is_ours = job && !job->a.is_attached && !in->is_late; /* to report */
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, &in->arena, 0,
				   job && job->is_copy ? RECORD_FOREIGN_TEXT : 0 };
	uint64_t now = clock_wall_ns();
	struct proc_event *events;
	size_t n = 0;

	if (!is_new)
		return 0;
	in->f->offset = frame->next;
	arena_reset(&in->arena);
	if (frame->type == RECORD_HOST) {
		in->f->state = LOG_OVER;
		return -ECANCELED;
	}
	if (frame->type == RECORD_BEGIN)
		return take_begin(in, frame);
	if (frame->type == RECORD_SHEETS && job) {
		struct attempt a = { .total_sheets = job->a.total_sheets };

		record_read_sheets_changed(&r, &a);
		if (r.error)
			return 0;
		job->a.last_completed_sheet = a.last_completed_sheet;
		job->a.current_sheet = a.current_sheet;
		take_sheets(in, a.sheets, a.n_sheets);
	} else if (frame->type == RECORD_EVENTS && is_ours && !in->is_past) {
		events = record_read_list(&r, RECORD_LIST_EVENTS, &n);
		for (size_t i = 0; i < n; i++) {
			if (job->is_copy && (events[i].key.pid <= 0 || events[i].wall_ns > now))
				break;
			events[i].job_id = job->job_id;
			events[i].attempt_id = job->a.id;
			in->w->ops.event(in->w->ctx, job, &events[i]);
		}
	} else if (frame->type == RECORD_ANOMALY && is_ours) {
		take_anomaly(in, &r);
	}
	return 0;
}

static int sink_end(void *ctx, const struct log_frame *frame)
{
	struct reading *in = ctx;
	struct watched *job = in->f->job;
	struct record_reader r = { frame->bytes, frame->bytes + frame->n, NULL, 0, 0 };
	uint64_t now = clock_wall_ns();
	struct sheet_record *sheets;
	size_t n = 0;

	in->f->state = LOG_OVER;
	if (!job)
		return 0;
	r.arena = &job->a.arena;
	r.text_max = job->is_copy ? RECORD_FOREIGN_TEXT : 0;
	record_read_end(&r, &job->a);
	sheets = record_read_sheets(&r, &n);
	if (r.error == 0)
		take_sheets(in, sheets, n);
	if (job->is_copy && job->a.ended_wall_ns > now)
		job->a.ended_wall_ns = now;
	end_job(in->w, job);
	return 0;
}

/* Its lock is free, and it has no end. Of an attached tree the next daemon continues it; of a copy
 * settle_copy() judges. */
static int sink_is_gone(void *ctx, const struct log_origin *origin)
{
	const struct reading *in = ctx;

	return !origin->is_copy && !(in->f->job && in->f->job->a.is_attached);
}

static int sink_lost(void *ctx)
{
	struct reading *in = ctx;

	in->f->state = LOG_OVER;
	if (!in->f->job)
		return 0;
	in->f->job->a.is_lost = true;
	end_job(in->w, in->f->job);
	return 0;
}

static int sink_move(void *ctx, const struct log_origin *origin, const struct log_cursor *from,
		     const struct log_cursor *to, uint64_t lost_bytes)
{
	struct reading *in = ctx;

	(void)origin;
	(void)from;
	(void)lost_bytes;
	in->f->offset = to->offset;
	return 0;
}

/* A pidfd can be read when the process has ended. */
static bool is_alive(const struct watched *job)
{
	struct pollfd p = { .fd = job->runner_fd, .events = POLLIN };

	if (job->runner_fd >= 0)
		return poll(&p, 1, 0) == 0;
	return proc_is_alive("", job->a.runner.pid, job->a.runner.start_ticks);
}

/* ---- looking ---- */

/* Whether something was written to it since; what its files are is noted. */
static bool has_changed(struct watch *w, struct followed *f)
{
	const struct log_listed *log = &w->folder.logs[f->listed];
	uint64_t bytes = 0, changed_ns = 0;
	bool has_changed;

	for (size_t i = 0; i < log->n; i++) {
		struct stat st;
		uint64_t ns;

		if (fstatat(w->folder_fd, w->folder.names[log->first + i], &st,
			    AT_SYMLINK_NOFOLLOW) < 0)
			return true;
		ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
		bytes += (uint64_t)st.st_size;
		changed_ns = ns > changed_ns ? ns : changed_ns;
	}
	has_changed = f->n_files != log->n || f->bytes != bytes || f->changed_ns != changed_ns;
	f->n_files = log->n;
	f->bytes = bytes;
	f->changed_ns = changed_ns;
	return has_changed;
}

/* One that was not seen before. One whose header is not written yet stays as it is. */
static void meet(struct watch *w, struct followed *f)
{
	const struct log_origin *origin;
	struct log_reader *r;

	w->folder.current = &w->folder.logs[f->listed];
	if (log_reader_open(&w->folder.fs, &f->id, &r, NULL) < 0)
		return;
	origin = log_reader_origin(r);
	f->created_wall_ns = origin->created_wall_ns;
	f->was_alive = log_is_alive(r) != 0;
	f->state = memcmp(origin->boot_id, w->own.boot_id, sizeof(origin->boot_id)) == 0 ? LOG_RUNS
											 : LOG_OVER;
	/* Those that were over before the first look matter to nobody. */
	if (!w->has_looked && log_read_end(r, f->was_alive, NULL, NULL) != 0)
		f->state = LOG_OVER;
	log_reader_close(r);
}

static void read_log(struct watch *w, struct followed *f)
{
	struct reading in = { .w = w,
			      .f = f,
			      .is_past = !w->has_looked,
			      .is_late = f->state == LOG_LOST,
			      .arena = ARENA_INIT };
	const struct log_sink sink = { &in,	     sink_find, sink_frame, sink_end,
				       sink_is_gone, sink_lost, sink_move };
	struct log_cursor cursor;
	struct watched *job;

	if (in.is_late)
		f->offset = 0;
	w->folder.current = &w->folder.logs[f->listed];
	(void)log_ingest(&w->folder.fs, &f->id, &sink, 0, &cursor, NULL);
	arena_release(&in.arena);
	job = f->job;
	if (in.is_late) {
		watched_free(&f->job);
	} else if (job && job->is_copy && job->a.is_running && !is_alive(job)) {
		/* The runner of a copy is gone, and it has no end (yet). */
		job->a.is_lost = true;
		job->is_awaited = w->ops.expects_end(w->ctx, &job->a);
		job->a.is_lost = !job->is_awaited;
		if (!job->is_awaited) {
			f->state = LOG_LOST;
			end_job(w, job);
		}
	}
	if (f->state != LOG_RUNS)
		f->job = NULL;
}

static int by_creation(const void *a, const void *b)
{
	const struct followed *x = *(struct followed *const *)a, *y = *(struct followed *const *)b;

	if (x->created_wall_ns != y->created_wall_ns)
		return x->created_wall_ns < y->created_wall_ns ? -1 : 1;
	return memcmp(&x->id, &y->id, sizeof(x->id));
}

/* The folder is there, and ours: -ENOENT: there is none. */
static int open_folder(struct watch *w, struct err *err)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	struct stat st, now, db;

	buf_printf(&path, "%s-logs", w->db_path);
	if (buf_error(&path) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (path_refuse_links(path.data, err) < 0)
		return -ELOOP;
	fd = open(path.data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s cannot be read: %s", path.data, strerror(errno));
	if (st.st_uid != geteuid() && stat(w->db_path, &db) == 0 && db.st_uid != st.st_uid)
		return err_set(err, -EPERM, "%s is another user's", path.data);
	if (w->folder_fd < 0 || fstat(w->folder_fd, &now) < 0 || now.st_ino != st.st_ino ||
	    now.st_dev != st.st_dev) {
		close_fd(&w->folder_fd);
		w->folder_fd = fd;
		fd = -1;
		log_folder_release(&w->folder);
		log_folder_init(&w->folder, w->folder_fd);
	}
	(void)flock(w->folder_fd, LOCK_EX | LOCK_NB); /* again and again: it may be held for long */
	return 0;
}

/* What is known of each log that is there; those that are gone are forgotten. */
static int list_logs(struct watch *w, struct err *err)
{
	struct followed *logs;
	size_t at = 0;
	int r = open_folder(w, err);

	if (r == 0)
		r = log_folder_list(&w->folder);
	if (r == -ENOENT)
		w->folder.n = 0;
	else if (r < 0)
		return err && err->code == r ? r : err_set(err, r, "logs cannot be listed");
	logs = calloc(w->folder.n + 1, sizeof(*logs));
	if (!logs)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < w->folder.n; i++) {
		const struct log_id *id = &w->folder.logs[i].id;

		while (at < w->n_logs && memcmp(&w->logs[at].id, id, sizeof(*id)) < 0)
			at++;
		logs[i].id = *id;
		if (at < w->n_logs && memcmp(&w->logs[at].id, id, sizeof(*id)) == 0)
			logs[i] = w->logs[at];
		logs[i].listed = i;
	}
	free(w->logs);
	w->logs = logs;
	w->n_logs = w->folder.n;
	return 0;
}

int watch_look(struct watch *w, struct err *err)
{
	CLEANUP(free_ptr) struct followed **news = NULL;
	uint64_t now = clock_wall_ns();
	size_t n = 0, kept = 0;
	int r;

	if (w->is_looking)
		return 0;
	r = list_logs(w, err);
	if (r < 0)
		return r;
	news = calloc(w->n_logs + 1, sizeof(*news));
	if (!news)
		return err_set(err, -ENOMEM, "out of memory");
	w->is_looking = true;
	for (size_t i = 0; i < w->n_logs; i++) {
		struct followed *f = &w->logs[i];
		bool has_new = has_changed(w, f);

		if (f->state == LOG_UNREAD)
			meet(w, f);
		if (f->state == LOG_OVER || f->state == LOG_UNREAD)
			continue;
		if (has_new || (f->state == LOG_RUNS &&
				!(f->job && (f->job->a.is_attached || is_alive(f->job)))))
			news[n++] = f;
	}
	qsort(news, n, sizeof(struct followed *), by_creation);
	for (size_t i = 0; i < n; i++)
		read_log(w, news[i]);

	/* Somebody has removed its log, and its runner, which would begin another, is gone as well.
	 */
	for (size_t i = 0; i < w->n; i++)
		w->jobs[i]->has_log = false;
	for (size_t i = 0; i < w->n_logs; i++)
		if (w->logs[i].job)
			w->logs[i].job->has_log = true;
	for (size_t i = 0; i < w->n; i++) {
		struct watched *job = w->jobs[i];

		if (job->has_log || !job->a.is_running || job->a.is_attached || is_alive(job))
			continue;
		job->a.is_lost = true;
		end_job(w, job);
	}
	/* Those that are over were reported, and are forgotten. */
	for (size_t i = 0; i < w->n; i++) {
		struct watched *job = w->jobs[i];

		if (job->a.is_running) {
			w->jobs[kept++] = job;
			continue;
		}
		map_remove(&w->by_id, (uint64_t)job->a.id);
		job->next = w->ended;
		w->ended = job;
	}
	w->n = kept;
	w->has_looked = true;
	w->looked_wall_ns = now;
	w->is_looking = false;
	return 0;
}

/* ---- sheets ---- */

#define UNTOLD_NS UINT64_C(500000000)
#define CLOCK_TICK_NS UINT64_C(10000000) /* births are told by the kernel's ticks */

int watch_sheet_at(const struct watch *w, const struct watched *job, uint64_t born_wall_ns)
{
	const struct attempt *a = &job->a;
	const struct sheet_record *last = a->n_sheets ? &a->sheets[a->n_sheets - 1] : NULL;
	bool is_final = last && last->num >= a->total_sheets;
	int num = SHEET_NONE; /* of the last that had begun by then */

	if (a->total_sheets <= 1 || !last)
		return last ? last->num : a->current_sheet;
	if (!u64_known(born_wall_ns) || (!is_final && born_wall_ns + UNTOLD_NS > w->looked_wall_ns))
		return SHEET_NONE;
	for (size_t i = 0; i < a->n_sheets; i++)
		if (u64_known(a->sheets[i].started_wall_ns) &&
		    a->sheets[i].started_wall_ns <= born_wall_ns + CLOCK_TICK_NS)
			num = a->sheets[i].num;
	return num;
}
