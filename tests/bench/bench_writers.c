/*
 * bench_writers - ten who write ticks to one database at once, each ten times a second: how
 * late the ticks of each are. Beside it the floor, in the same run: as many who append as many
 * bytes to files of their own and wait for the disk.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "made_up.h"
#include "store/store.h"
#include "store_writer.h"

#define N_WRITERS 10
#define N_PROCESSES 100
#define N_TICKS 150 /* of each, so that each folds once */
#define INTERVAL_MS 100
#define TICK_BYTES 8192 /* about two pages of the log */

struct writer {
	int number, fd;
	const char *dir;
	double wall_us[N_TICKS];
};

typedef void write_fn(struct writer *w);

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void must(int r, const struct err *err)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_writers: %s\n", err->text);
	_exit(1);
}

/* ---- who writes ---- */

static void begin_snapshot(struct snapshot *snap, const char *job_id)
{
	snapshot_init(snap);
	for (unsigned i = 0; i < N_PROCESSES; i++) {
		struct proc_sample *p = snapshot_add_process(snap);

		begin_process(p, i);
		p->job_id = job_id;
	}
}

/* As a run does it: in a loop, and another thread waits for the disk. */
struct looker {
	struct writer *w;
	struct loop *loop;
	struct store *store;
	struct attempt a;
	struct snapshot snap;
	unsigned k, seed;
};

static void on_tick(void *ctx)
{
	struct looker *l = ctx;
	struct err err = ERR_INIT;
	double before;

	go_on_all(&l->snap, l->a.started_wall_ns, l->k, &l->seed);
	before = now_us();
	must(store_write_tick(l->store, &l->a, &l->snap, NULL, &err), &err);
	l->w->wall_us[l->k] = now_us() - before;
	if (++l->k == N_TICKS)
		loop_stop(l->loop);
}

static void begin_looking(struct looker *l, const char *db, const char *job_id)
{
	struct err err = ERR_INIT;

	begin_snapshot(&l->snap, job_id);
	attempt_init(&l->a);
	l->a.job_id = job_id;
	l->a.command = "bench";
	l->a.started_wall_ns = UINT64_C(1700000000000000000);
	must(store_open(db, STORE_WRITE, &l->store, &err), &err);
	must(store_begin_attempt(l->store, &l->a, &err), &err);
}

static void write_ticks(struct writer *w)
{
	struct looker l = { .w = w, .loop = loop_new(), .seed = (unsigned)w->number };
	struct loop_timer *timer = loop_timer_new(l.loop, on_tick, &l);
	char db[192], job_id[16];

	snprintf(db, sizeof(db), "%s/proctor.db", w->dir);
	snprintf(job_id, sizeof(job_id), "writer-%d", w->number);
	begin_looking(&l, db, job_id);
	store_leave_disk(l.store);
	loop_timer_set(timer, 0, INTERVAL_MS);
	loop_run(l.loop);
	store_close(l.store);
	loop_free(l.loop);
	snapshot_release(&l.snap);
}

static void append_bytes(struct writer *w)
{
	static const char bytes[TICK_BYTES];
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/floor-%d", w->dir, w->number);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	for (unsigned k = 0; k < N_TICKS; k++) {
		double before = now_us();

		if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || fdatasync(fd) < 0)
			perror("bench_writers");
		w->wall_us[k] = now_us() - before;
		usleep(INTERVAL_MS * 1000);
	}
	close(fd);
	unlink(path);
}

/* ---- all at once ---- */

static void run_all(const char *dir, write_fn *fn, struct writer *writers)
{
	for (int i = 0; i < N_WRITERS; i++) {
		struct writer *w = &writers[i];
		int fds[2];

		*w = (struct writer){ .number = i, .dir = dir };
		if (pipe(fds) < 0)
			exit(1);
		if (fork() == 0) {
			fn(w);
			_exit(write(fds[1], w->wall_us, sizeof(w->wall_us)) != sizeof(w->wall_us));
		}
		close(fds[1]);
		w->fd = fds[0];
	}
	for (int i = 0; i < N_WRITERS; i++) {
		if (read(writers[i].fd, writers[i].wall_us, sizeof(writers[i].wall_us)) !=
		    sizeof(writers[i].wall_us))
			exit(1);
		close(writers[i].fd);
	}
	while (wait(NULL) > 0)
		;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, double q)
{
	return sorted[(size_t)(q * (N_TICKS - 1))];
}

static void tell(struct json *j, const char *key, struct writer *writers)
{
	json_key(j, key);
	json_begin_array(j);
	for (int i = 0; i < N_WRITERS; i++) {
		double *us = writers[i].wall_us;

		qsort(us, N_TICKS, sizeof(*us), compare);
		json_begin_object(j);
		json_key_f64(j, "p50_ms", quantile(us, 0.5) / 1e3);
		json_key_f64(j, "p99_ms", quantile(us, 0.99) / 1e3);
		json_key_f64(j, "max_ms", us[N_TICKS - 1] / 1e3);
		json_end_object(j);
	}
	json_end_array(j);
}

static double worst_ms(const struct writer *writers)
{
	double worst = 0;

	for (int i = 0; i < N_WRITERS; i++)
		worst = writers[i].wall_us[N_TICKS - 1] > worst ? writers[i].wall_us[N_TICKS - 1]
								: worst;
	return worst / 1e3;
}

static void remove_folder(const char *dir)
{
	static const char *const names[] = { "proctor.db", "proctor.db-wal", "proctor.db-shm" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[192];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

int main(void)
{
	static struct writer writers[N_WRITERS];
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *tmp = getenv("TMPDIR");
	char dir[128];
	struct json j;

	snprintf(dir, sizeof(dir), "%.90s/proctor-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "bench", "writers");
	json_key_u64(&j, "processes", N_PROCESSES);
	json_key_u64(&j, "ticks", N_WRITERS * N_TICKS);
	run_all(dir, append_bytes, writers);
	tell(&j, "floor", writers);
	json_key_f64(&j, "floor_max_ms", worst_ms(writers));
	run_all(dir, write_ticks, writers);
	tell(&j, "writers", writers);
	json_key_f64(&j, "writers_max_ms", worst_ms(writers));
	json_end_object(&j);
	puts(out.data);
	remove_folder(dir);
	return 0;
}
