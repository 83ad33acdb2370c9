/*
 * service_store - the database: opened when it can be, and another consumer of the logs.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "recorder/recorder.h"

/* When a job that was attached is over is ours to say: it may outlive what was attached. */
enum store_alive service_check_alive(void *ctx, const struct attempt *a)
{
	enum store_alive alive = daemon_check_alive(ctx, a);

	return a->is_attached && alive == STORE_CANNOT_TELL ? STORE_ALIVE : alive;
}

static int try_to_open(struct service *s, struct err *err)
{
	struct stat st;
	int r = store_open_timeout(s->database.path, STORE_WRITE, LOOP_PATIENCE_MS, &s->store, err);

	if (r < 0)
		return r;
	store_set_alive_check(s->store, service_check_alive, NULL);
	store_leave_disk(s->store);
	if (stat(s->database.path, &st) < 0)
		r = err_set(err, -errno, "%s is gone", s->database.path);
	if (r < 0) {
		s->store = store_close(s->store);
		return r;
	}
	s->database.device = st.st_dev;
	s->database.inode = st.st_ino;
	s->database.n_opened++;
	return 0;
}

/* ---- what logs have becomes rows ---- */

/* A batch each minute, and before it when a job has ended or somebody reads the database. One that
 * failed is tried again at each tick. */
#define INGEST_NS UINT64_C(60000000000)

static int ingest(struct service *s, struct err *err)
{
	struct stat st;
	int r;

	/* What is written to a file that somebody has moved or removed nobody will find. */
	if (s->store && (stat(s->database.path, &st) < 0 || st.st_dev != s->database.device ||
			 st.st_ino != s->database.inode)) {
		log_error("%s was removed or replaced: another is made", s->database.path);
		upkeep_leave(s->upkeep);
		s->database.record_err = (struct err)ERR_INIT;
		s->anomaly.adopt_until_ns = 0; /* in the next one others may last */
		s->store = store_close(s->store);
	}
	r = s->store ? 0 : try_to_open(s, err);
	if (r < 0 && upkeep_make_room(s->upkeep, s->database.path, r))
		r = try_to_open(s, err);
	if (r < 0) {
		s->database.err = *err;
		return r;
	}
	s->database.ingest_err = (struct err)ERR_INIT;
	s->database.ingested_boot_ns = clock_boot_ns();
	s->database.is_ingest_due = false;
	store_take_in(s->store, &s->database.ingest_err);
	return 0;
}

int service_ingest_if_due(struct service *s, struct err *err)
{
	if (s->store && !s->database.is_ingest_due && s->database.ingest_err.code == 0 &&
	    clock_boot_ns() - s->database.ingested_boot_ns < INGEST_NS)
		return 0;
	return ingest(s, err);
}

/* What is wrong the next tick finds as well, and says. */
void service_take_in(struct service *s)
{
	struct err err = ERR_INIT;

	(void)ingest(s, &err);
}

void service_look(struct service *s)
{
	(void)watch_look(s->watch, NULL);
}

int64_t service_attempt_of_row(struct service *s, int64_t row)
{
	struct stored_log stored;
	struct log_id id;
	int64_t found;

	if (row == 0 || !s->store || store_find_log_of(s->store, row, id.bytes, &stored, NULL) < 0)
		return 0;
	found = watch_id_of(s->watch, &id, stored.uid);
	return found > 0 ? found : 0;
}

bool service_may_have_store(const struct service *s)
{
	return s->store || s->database.err.code == 0 || s->database.err.code == -EBUSY;
}

int service_need_store(struct service *s, struct err *err)
{
	service_take_in(s);
	if (s->store)
		return 0;
	return err_set(err, -EBUSY, "the database cannot be used now: %s",
		       s->database.err.code ? s->database.err.text : "it is not open yet");
}

/* ---- the disk ---- */

static void sweep(void *ctx)
{
	struct service *s = ctx;

	s->database.sweep.swept = store_sweep(s->database.path, s->database.sweep.followed_wall_ns);
}

static void on_swept(void *ctx)
{
	struct service *s = ctx;

	s->database.sweep.is_under_way = false;
	s->database.sweep.last_ns = s->database.sweep.swept.wait_ns;
	if (s->store)
		store_end_sweep(s->store, &s->database.sweep.swept);
}

/* A wait for the disk that lasts longer is worth a warning. */
#define SLOW_DISK_NS UINT64_C(2000000000)

/* Another thread waits for the disk and removes logs that are stored. */
int service_settle_disk(struct service *s, struct err *err)
{
	struct sweep *sweeping = &s->database.sweep;
	uint64_t wait_ns = sweeping->is_under_way ? clock_boot_ns() - sweeping->began_boot_ns
						  : sweeping->last_ns;

	s->stats.disk_wait_ns = wait_ns > s->stats.log_wait_ns ? wait_ns : s->stats.log_wait_ns;
	if (s->store && !sweeping->is_under_way && store_wants_sweep(s->store)) {
		sweeping->began_boot_ns = clock_boot_ns();
		sweeping->followed_wall_ns = watch_looked_wall_ns(s->watch);
		sweeping->is_under_way = loop_queue_work(s->loop, sweep, on_swept, s) == 0;
		if (sweeping->is_under_way)
			store_begin_sweep(s->store);
	}
	if (s->store && store_check_disk(s->store, err) < 0)
		return err->code;
	if (s->stats.disk_wait_ns < SLOW_DISK_NS)
		return 0;
	return err_set(err, -ETIMEDOUT,
		       "the disk takes %.1f s for what is recorded: a power cut would lose what "
		       "came since",
		       clock_ns_to_seconds(s->stats.disk_wait_ns));
}
