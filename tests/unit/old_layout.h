/*
 * old_layout - a database as an older proctor has left it.
 */
#ifndef PROCTOR_TESTS_OLD_LAYOUT_H
#define PROCTOR_TESTS_OLD_LAYOUT_H

#include "store_fixture.h"

/* What leads back: the layout that each step is the last of, newest first. */
static const struct {
	int from;
	const char *sql;
} steps_back[] = {
	{ 9, "DROP TRIGGER points_lose_seal" },
	{ 9, "ALTER TABLE folds DROP COLUMN seal" },
	{ 9, "ALTER TABLE chunks DROP COLUMN seal" },
	{ 9, "ALTER TABLE points DROP COLUMN seal" },
	{ 9, "ALTER TABLE rollups DROP COLUMN seal" },
	{ 8, "ALTER TABLE processes DROP COLUMN gpu_idle_ns" },
	{ 7, "DROP TRIGGER folds_stay" },
	{ 7, "DROP TRIGGER points_lose_sum" },
	{ 6, "ALTER TABLE anomalies DROP COLUMN seen_wall_ns" },
	{ 6, "ALTER TABLE ticks DROP COLUMN sum" },
	{ 6, "ALTER TABLE folds DROP COLUMN sum" },
	{ 6, "ALTER TABLE chunks DROP COLUMN sum" },
	{ 6, "ALTER TABLE points DROP COLUMN sum" },
	{ 6, "ALTER TABLE rollups DROP COLUMN sum" },
	{ 5, "ALTER TABLE patterns DROP COLUMN n_looks" },
	{ 5, "ALTER TABLE patterns DROP COLUMN lapsed_wall_ns" },
	{ 5, "DROP TABLE anomaly_changes" },
	{ 4, "DROP INDEX anomalies_by_end" },
	{ 4, "ALTER TABLE processes DROP COLUMN is_raised" },
	{ 4, "DROP INDEX attempts_by_submission" },
	{ 4, "ALTER TABLE attempts DROP COLUMN submission" },
	{ 4, "ALTER TABLE processes DROP COLUMN cpu_evidence" },
	{ 4, "ALTER TABLE processes DROP COLUMN syscalls" },
	{ 4, "DROP INDEX runs_by_command" },
	{ 4, "DROP INDEX runs_by_end" },
	{ 4, "DROP INDEX phases_open" },
	{ 4, "ALTER TABLE attempts DROP COLUMN n_lost_marks" },
	{ 4, "DROP TRIGGER attempts_take_ticks" },
	{ 4, "CREATE TRIGGER attempts_take_ticks AFTER DELETE ON attempts BEGIN"
	     " DELETE FROM ticks WHERE recorder = OLD.id;"
	     " DELETE FROM folds WHERE recorder = OLD.id; END" },
	{ 3, "ALTER TABLE attempts DROP COLUMN clock_error_ns" },
	{ 3, "ALTER TABLE attempts DROP COLUMN is_clock_synchronised" },
	{ 3, "ALTER TABLE processes DROP COLUMN local_rank" },
	{ 3, "ALTER TABLE processes DROP COLUMN world_size" },
	{ 3, "DROP TABLE syscalls" },
	{ 2, "DROP INDEX processes_by_pid" },
	{ 2, "DROP INDEX folds_by_time" },
	{ 2, "ALTER TABLE folds DROP COLUMN rolled_to" },
	{ 2, "CREATE INDEX folds_by_time ON folds (first_ns, last_ns, recorder, is_rolled)" },
};

/* With an attempt and a sample, as proctor made it when that was the layout. */
static inline void make_old_layout(const struct fixture *f, int version)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;
	char stamp[48];

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	fill_snapshot(&snap, "j", 1, 0);
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	store_close(store);
	for (size_t i = 0; i < ARRAY_SIZE(steps_back); i++)
		if (steps_back[i].from > version)
			raw_sql(f->db, steps_back[i].sql);
	snprintf(stamp, sizeof(stamp), "PRAGMA user_version = %d", version);
	raw_sql(f->db, stamp);
}

#endif
