/*
 * log_fixture - logs beside a database, written as a recorder writes them.
 */
#ifndef PROCTOR_TESTS_LOG_FIXTURE_H
#define PROCTOR_TESTS_LOG_FIXTURE_H

#include "store_fixture.h"

#include "base/buf.h"
#include "log/log.h"
#include "model/record.h"
#include "model/tick_record.h"

/* A log that is being written. */
struct recording_log {
	struct log_writer *writer;
	struct tick_writer *ticks;
	struct log_id id;
	struct buf bytes;
};

/* The folder of the logs, which is made; the caller closes it. */
static inline int open_logs(const struct fixture *f)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s-logs", f->db);
	mkdir(path, 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* 0: those of this boot. */
static inline void own_boot(uint8_t ret[16])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned byte;

	assert_non_null(file);
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			assert_int_equal(fgetc(file), '-');
		assert_int_equal(fscanf(file, "%2x", &byte), 1);
		ret[i] = (uint8_t)byte;
	}
	fclose(file);
}

/* A log of this boot whose recorder is this process. fd: open_logs(), kept open. */
static inline void log_begin(struct recording_log *log, int fd, struct log_options options)
{
	const struct log_fs fs = log_fs_real(fd);

	options.end_bytes = options.end_bytes ? options.end_bytes : 4096;
	options.origin.uid = geteuid();
	if (!options.origin.created_wall_ns)
		options.origin.created_wall_ns = 1;
	if (!options.origin.boot_id[0])
		own_boot(options.origin.boot_id);
	assert_int_equal(log_id_make(&options.origin.id), 0);
	*log = (struct recording_log){ .id = options.origin.id, .bytes = BUF_INIT };
	log->ticks = tick_writer_new();
	assert_non_null(log->ticks);
	assert_int_equal(log_create(&fs, &options, &log->writer, NULL), 0);
}

/* Lets go of the lock: without log_finish() before, the recorder was killed. */
static inline void log_release(struct recording_log *log)
{
	log_writer_free(log->writer);
	tick_writer_free(log->ticks);
	buf_release(&log->bytes);
}

/* What was written to log->bytes, which is empty then. */
static inline void log_put(struct recording_log *log, enum record_type type)
{
	unsigned flags = type == RECORD_BEGIN ? LOG_KEY : type == RECORD_TICK ? LOG_TICK : 0;

	assert_int_equal(buf_error(&log->bytes), 0);
	assert_int_equal(log_append(log->writer, (uint8_t)type, flags, log->bytes.data,
				    log->bytes.len, NULL),
			 0);
	buf_reset(&log->bytes);
}

static inline void log_put_begin(struct recording_log *log, const struct attempt *a)
{
	record_write_begin(&log->bytes, a);
	record_write_sheets(&log->bytes, a->sheets, a->n_sheets);
	log_put(log, RECORD_BEGIN);
	tick_writer_begin_key(log->ticks);
}

static inline void log_put_tick(struct recording_log *log, const struct snapshot *snap,
				const struct series_point *point)
{
	assert_int_equal(tick_writer_write(log->ticks, snap, point, &log->bytes), 0);
	log_put(log, RECORD_TICK);
}

static inline void log_put_events(struct recording_log *log, const struct proc_event *events,
				  size_t n)
{
	record_write_list(&log->bytes, RECORD_LIST_EVENTS, events, n);
	log_put(log, RECORD_EVENTS);
}

/* The end, and the lock is free. */
static inline void log_finish(struct recording_log *log, const struct attempt *a)
{
	record_write_final(&log->bytes, a, true);
	assert_int_equal(log_end(log->writer, log->bytes.data, log->bytes.len, NULL), 0);
	log_release(log);
}

/* Files in the folder of logs. */
static inline int count_logs(int fd)
{
	DIR *dir = fdopendir(dup(fd));
	int n = 0;

	assert_non_null(dir);
	rewinddir(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_type == DT_REG;
	closedir(dir);
	return n;
}

#endif
