#include "base/macros.h"
#include "model/attempts.h"
#include "store/damage.h"
#include "store/sql/vtab.h"
#include "store/sql/vtab_ticks.h"
#include "store/store.h"
#include "store/walk.h"

/* A moment; its snapshot is told as far as columns were asked for. */
struct snapshot_row {
	int64_t tick_id;
	uint64_t wall_ns;
	double resolution_seconds;
	struct snapshot snap;
};

struct snapshots_cursor {
	struct vtab_cursor base;
	struct vtab_ticks ticks;
	struct snapshot_row row;
	unsigned told;		  /* parts of the snapshot */
	struct attempts attempts; /* whose progress it may be… */
	bool has_attempts;	  /* …once that was asked for */
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct snapshot_row, field_)
#define HOST(field_) ROW(snap.field_), VTAB_NO_KEY, FOLD_HOST
#define PROCESSES (FOLD_PROCESSES | FOLD_ATTEMPTS)

static const struct vtab_column columns[] = {
	{ "id", "INTEGER", vtab_give_i64, ROW(tick_id), VTAB_TICK, 0,
	  "the snapshot's number; process_metrics.snapshot_id" },
	{ "timestamp", "REAL", vtab_give_seconds, ROW(wall_ns), VTAB_TIME, 0, "unix seconds" },
	{ "daemon_pid", "INTEGER", vtab_give_pid, HOST(daemon_pid), "the daemon that recorded it" },
	{ "system_memory_total_mb", "REAL", vtab_give_mb, HOST(system.memory_total_bytes),
	  "memory of the host" },
	{ "system_memory_available_mb", "REAL", vtab_give_mb, HOST(system.memory_available_bytes),
	  "what programs could still get" },
	{ "system_memory_used_mb", "REAL", vtab_give_mb, HOST(system.memory_used_bytes),
	  "total less available" },
	{ "daemon_rss_mb", "REAL", vtab_give_mb, HOST(daemon_rss_bytes), "proctor's own memory" },
	{ "load_avg_1", "REAL", vtab_give_f64, HOST(system.load1), "load over a minute" },
	{ "load_avg_5", "REAL", vtab_give_f64, HOST(system.load5), "over 5 minutes" },
	{ "load_avg_15", "REAL", vtab_give_f64, HOST(system.load15), "over 15 minutes" },
	{ "pressure_level", "TEXT", vtab_give_text, HOST(pressure_level), "none, low, …" },
	{ "running_jobs", "INTEGER", vtab_give_int, HOST(running_jobs), "jobs that ran" },
	{ "active_sheets", "INTEGER", vtab_give_int, HOST(active_sheets), "sheets that ran" },
	{ "zombie_count", "INTEGER", vtab_give_zombie_count, ROW(snap), VTAB_NO_KEY, PROCESSES,
	  "recorded processes that were zombies" },
	{ "zombie_pids", "TEXT", vtab_give_zombie_pids, ROW(snap), VTAB_NO_KEY, PROCESSES,
	  "a JSON array" },
	{ "gpus", "TEXT", vtab_give_gpus, ROW(snap), VTAB_NO_KEY, FOLD_THINGS,
	  "a JSON array of objects; NULL: nobody could look" },
	{ "job_progress", "TEXT", vtab_give_progress, ROW(snap), VTAB_NO_KEY,
	  FOLD_THINGS | PROCESSES, /* which tell of several attempts whose it is */
	  "a JSON array of objects" },
	{ "cgroups", "TEXT", vtab_give_cgroups, ROW(snap), VTAB_NO_KEY, FOLD_THINGS,
	  "of jobs, with their memory: a JSON array of objects; NULL: nobody looked" },
	{ "conductor_uptime_seconds", "REAL", vtab_give_f64, HOST(daemon_uptime_seconds),
	  "how long the recorder was up" },
	{ "boot_id", "TEXT", vtab_give_chars, HOST(boot_id), "of the host" },
	{ "swap_total_mb", "REAL", vtab_give_mb, HOST(system.swap_total_bytes), "swap space" },
	{ "swap_free_mb", "REAL", vtab_give_mb, HOST(system.swap_free_bytes), "not used" },
	{ "cpu_user_seconds", "REAL", vtab_give_seconds, HOST(system.cpu_user_ns),
	  "CPU time of all cores since boot, in programs" },
	{ "cpu_system_seconds", "REAL", vtab_give_seconds, HOST(system.cpu_system_ns),
	  "in the kernel" },
	{ "cpu_idle_seconds", "REAL", vtab_give_seconds, HOST(system.cpu_idle_ns), "idle" },
	{ "cpu_iowait_seconds", "REAL", vtab_give_seconds, HOST(system.cpu_iowait_ns),
	  "waiting for disks" },
	{ "cpu_steal_seconds", "REAL", vtab_give_seconds, HOST(system.cpu_steal_ns),
	  "taken by the hypervisor" },
	{ "cpu_count", "INTEGER", vtab_give_count, HOST(system.cpu_count), "cores" },
	{ "psi_cpu", "TEXT", vtab_give_psi, HOST(system.psi_cpu),
	  "stalls for lack of CPU: a JSON object, psi_cpu ->> '$.some.avg10'" },
	{ "psi_memory", "TEXT", vtab_give_psi, HOST(system.psi_memory), "of memory" },
	{ "psi_io", "TEXT", vtab_give_psi, HOST(system.psi_io), "of I/O" },
	{ "process_count", "INTEGER", vtab_give_u64, HOST(system.process_count),
	  "processes on the host" },
	{ "forks_total", "INTEGER", vtab_give_u64, HOST(system.forks_total), "forks since boot" },
	{ "oom_kills_total", "INTEGER", vtab_give_u64, HOST(system.oom_kills_total),
	  "OOM kills since boot" },
	{ "swap_in_mb", "REAL", vtab_give_mb, HOST(system.swap_in_bytes),
	  "read back from swap since boot" },
	{ "swap_out_mb", "REAL", vtab_give_mb, HOST(system.swap_out_bytes),
	  "written to swap since boot" },
	{ "uptime_seconds", "REAL", vtab_give_f64, HOST(system.uptime_seconds), "since boot" },
	{ "resolution_seconds", "REAL", vtab_give_f64, ROW(resolution_seconds), VTAB_NO_KEY, 0,
	  "NULL: a moment; 60: a minute, of which only GPUs are kept of the host" },
	{ "covers", "TEXT", vtab_give_covers, HOST(covers),
	  "host: all jobs; job: the one of its runner; look: one, between two ticks" },
};

static unsigned n_words(const struct vtab_column *column)
{
	return column->parts & FOLD_PROCESSES ? SAMPLE_state + 1 : 0;
}

static double count_rows(const struct vtab_size *size)
{
	return size->n_ticks;
}

/* ---- rows ---- */

static int take_tick(struct snapshots_cursor *c, int r)
{
	if (r <= 0)
		return r;
	c->row.tick_id = vtab_ticks_id(&c->ticks);
	c->row.wall_ns = vtab_ticks_wall_ns(&c->ticks);
	c->row.resolution_seconds = vtab_ticks_resolution(&c->ticks);
	snapshot_reset(&c->row.snap);
	c->told = 0;
	return 1;
}

static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	return take_tick(c, vtab_ticks_begin(&c->ticks, base->store, filter, err));
}

static int next_row(struct vtab_cursor *base, struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	return take_tick(c, vtab_ticks_next(&c->ticks, err));
}

/* Of a minute there is all or nothing. */
static int tell_parts(struct snapshots_cursor *c, unsigned parts, struct err *err)
{
	if (parts == 0)
		return 0;
	if (c->ticks.fold)
		return open_fold_snapshot(c->base.store, c->ticks.fold, parts, &c->row.snap, err);
	return c->told ? 0
		       : minute_rows_snapshot(c->base.store, &c->ticks.minute, false, &c->row.snap,
					      err);
}

/* All there are: a statement asks for some, and what it will want next nobody knows. */
static int read_attempts(struct snapshots_cursor *c, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { 0 };
	int r = store_list_attempts(c->base.store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (attempts_add(&c->attempts, &list.items[i]) < 0)
			r = store_no_memory(c->base.store, err);
	c->has_attempts = r == 0;
	return r;
}

static int name_progress(struct snapshots_cursor *c, struct err *err)
{
	int r = c->has_attempts || c->row.snap.n_progress == 0 ? 0 : read_attempts(c, err);

	if (r == 0) {
		c->row.snap.wall_ns = c->row.wall_ns;
		attempts_name(&c->attempts, &c->row.snap);
	}
	return r;
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;
	unsigned missing = column->parts & ~c->told;

	if (tell_parts(c, missing, err) < 0)
		return NULL;
	c->told |= missing;
	if (column->give == vtab_give_progress && name_progress(c, err) < 0)
		return NULL;
	return &c->row;
}

static int64_t row_id(const struct vtab_cursor *base)
{
	return ((const struct snapshots_cursor *)base)->row.tick_id;
}

static void open_rows(struct vtab_cursor *base)
{
	snapshot_init(&((struct snapshots_cursor *)base)->row.snap);
}

static void close_rows(struct vtab_cursor *base)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	snapshot_release(&c->row.snap);
	attempts_release(&c->attempts);
	vtab_ticks_release(&c->ticks);
}

const struct vtab_table vtab_snapshots = {
	.name = "snapshots",
	.about = "the host, each time that somebody looked; a row for each minute of what is older",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct snapshots_cursor),
	.count = count_rows,
	.n_words = n_words,
	.open = open_rows,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};
