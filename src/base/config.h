/*
 * config - proctor.yaml: what the user set, with defaults for the rest.
 *
 * The table in config.c has a row for each key: what it must be, and where it
 * goes in these structs. Nothing else knows the keys: reading, checking and
 * listing go by the table. Unknown keys, wrong types and values out of range are
 * refused with file, line and what would be right. A file that is not there is
 * the defaults.
 *
 * Some keys are for what this version does not do yet. They are known, checked like
 * the others, and have no effect; config_each() says so of each. They are not
 * refused, as one file then serves hosts with an older and a newer proctor, and
 * an older one that refuses its file records nothing at all. They are not passed
 * over in silence either: "proctor config", "proctor doctor" and the daemon's log
 * name those that the file has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/mask.h"
#include "base/path.h"
#include "base/yaml.h"

/* In each struct, lines has the line of each key in the file, in the order of the table; 0: it is
 * not there, and has its default. */

/* How long what is recorded is kept; job summaries and outcomes stay. */
struct config_retention {
	int full_resolution_hours; /* every sample; 24 */
	int downsampled_days;	   /* 1-minute values; 7 */
	int events_days;	   /* process events; 30 */
	uint64_t max_bytes;	   /* of the database; 0: no limit; 1 GiB */
	int lines[4];
};

/* From when on something is out of the ordinary. What each check does with its own:
 * detect/checks.h. */
struct config_anomaly {
	double memory_spike_threshold;	       /* memory now over memory then; more than 1; 1.5 */
	double memory_spike_window_seconds;    /* how long ago then is at most; 30 */
	double memory_spike_floor_mb;	       /* growth that is less is no news; 64 */
	double memory_leak_window_seconds;     /* it grows steadily for so long; 300 */
	double memory_leak_floor_mb;	       /* by this much at least; 32 */
	double memory_leak_horizon_seconds;    /* what lasts longer than this is not urgent; 3600 */
	double memory_pressure_percent;	       /* less than this of the host's is available; 10 */
	double memory_pressure_stall_percent;  /* of the time everybody waits for memory; 10 */
	double memory_pressure_cgroup_percent; /* of what a cgroup may have; 95 */
	double runaway_cpu_threshold;	       /* percent of a core; 50 to 100; 90 */
	double runaway_duration_seconds;       /* for so long without a break; 60 */
	double stuck_duration_seconds;	       /* no progress for so long; 300 */
	double zombie_duration_seconds;	       /* not waited for for so long; 30 */
	double fd_exhaustion_percent;	       /* of the process's own limit; 90 */
	double fd_exhaustion_horizon_seconds;  /* or its limit is so near at this rate; 600 */
	uint64_t thread_explosion_threads;     /* so many, and four times those before; 512 */
	uint64_t process_explosion_processes;  /* the same for the processes of a job; 200 */
	double io_stall_percent;	       /* of the time everybody waits for I/O; 40 */
	double io_stall_duration_seconds;      /* for so long; 30 */
	double swap_storm_mb_per_second;       /* in and out together; 16 */
	double swap_storm_duration_seconds;    /* for so long; 10 */
	double gpu_memory_percent;	       /* in use; 95 */
	double gpu_idle_duration_seconds;      /* its memory is held and it does nothing; 300 */
	double gpu_temperature_c;	       /* 85 */
	double orphan_duration_seconds;	       /* after the end of its job; 30 */
	double clear_seconds;		       /* it has to be over for so long; 60 */
	double evidence_interval_seconds;      /* how often a culprit is looked at; 0.1 */
	double evidence_duration_seconds;      /* and for how long; 0 is not at all; 10 */
	double evidence_trace_seconds;	       /* for which its calls are traced; 0 is not; 0 */
	int lines[29];
};

/* When resource use is compared with how jobs ended. */
struct config_correlation {
	int interval_minutes; /* 5 or more; 30 */
	int min_sample_size;  /* completed jobs; 2 or more; 5 */
	int lines[2];
};

/* What jobs may take of the host, and the daemon of a core. */
struct config_limits {
	uint64_t max_memory_mb;	       /* that all of the host's processes use; 0: what it has; 0 */
	uint64_t max_processes;	       /* of the host; 0: any number; 0 */
	uint64_t max_concurrent_jobs;  /* of those submitted; 0: one for each core; 0 */
	double max_daemon_cpu_percent; /* of one core, 0.1 to 100; 1 */
	int lines[4];
};

/* Who may ask the daemon about jobs of others, besides root and the daemon's own user. */
struct config_access {
	const char *read_group; /* the name of a group; NULL: nobody */
	int lines[1];
};

/* The page that the daemon serves. */
struct config_web {
	bool enabled;	    /* true */
	const char *listen; /* "127.0.0.1:9797", or the absolute path of a Unix socket */
	int lines[2];
};

/* What later versions will have: it can be said to be off, and nothing else (config.c refuses it).
 */
struct config_later {
	bool enabled; /* false */
	int lines[1];
};

struct config {
	bool enabled;		 /* whether a daemon may run; true */
	double interval_seconds; /* 0.1 to 300; 5 */
	bool gpu_enabled;	 /* true */
	bool ebpf_enabled;	 /* whether programs may be loaded into the kernel; true */
	bool syscalls_enabled;	 /* whether the daemon counts system calls while a job runs; true */
	int syscalls_time_every; /* one call in so many is timed, by chance; all are counted; 1 */
	bool strace_enabled;	 /* whether runs do by strace(1) where nothing better is; false */
	bool strace_full_on_demand;	   /* whether one may ask for a full trace; true */
	int capture;			   /* 1: nothing of what jobs print is kept; 0 */
	bool mask_secrets;		   /* true */
	struct yaml_strings mask_patterns; /* further names to mask, see base/mask.h */
	const char *storage_path;	   /* for paths_set_db() */
	const char *jsonl_path;		   /* for paths_set_jsonl(); NULL: none is written */
	uint64_t jsonl_max_bytes;	   /* of one file, before it is rotated; 50 MiB */
	struct config_retention retention;
	struct config_anomaly anomaly;
	struct config_correlation correlation;
	struct config_limits limits;
	struct config_access access;
	struct config_web web;
	struct config_later export; /* what is pushed to other systems */
	struct config_later fleet;  /* a store for many hosts */
	int lines[22];
	bool was_read; /* false: there was no file */
	struct arena arena;
};

void config_init(struct config *c); /* the defaults */
void config_release(struct config *c);

/* jsonl_max_bytes, but no more than retention.max_bytes, which counts the log in, leaves for it. */
/*
 * The address of web.listen: "127.0.0.1:9797", "[::1]:9797" or an absolute path. -EINVAL: none, or
 * one that other hosts reach, as the page is not encrypted.
 */
int config_parse_listen(const char *listen, struct sockaddr_storage *ret, socklen_t *ret_len);

uint64_t config_log_bytes(const struct config *c);

/*
 * Fills c (already initialised) from the file. On failure c holds the defaults. With slips, for who
 * goes on whatever happens: what is wrong in a section that does no harm by its defaults (anomaly,
 * correlation, limits) is a line of them, with what is used instead. NULL: it is an error.
 */
int config_load(const char *path, struct config *c, struct buf *slips, struct err *err);

/*
 * One setting by its name ("anomaly.memory_spike_threshold"), as a file would give it. Its line
 * stays what it was. -EINVAL: no such setting, a whole section, or not such a value; c is then
 * as before.
 */
int config_set(struct config *c, const char *name, const char *value, struct err *err);

/* One setting, as config_each() tells of it. */
struct config_setting {
	const char *section; /* "retention"; NULL: it is in none */
	const char *key;
	char name[64]; /* "retention.max_bytes" */
	const struct yaml_field *field;
	size_t offset;	     /* of the value in struct config, for yaml_write_value() */
	int line;	     /* where the file has it; 0: it has not, and this is the default */
	const char *not_yet; /* "read GPUs": what this version does not do yet; NULL: it has its
				effect */
};
typedef void config_setting_fn(void *ctx, const struct config *c,
			       const struct config_setting *setting);

/* Every setting, in the order of the table. */
void config_each(const struct config *c, config_setting_fn *fn, void *ctx);

/* The line of the one with this name; 0: the file has it not, or there is no such setting. */
int config_line(const struct config *c, const char *name);

/*
 * ---- where things are and how they are wanted: what a verb begins with, ----
 * and what the daemon reads again on request.
 */

struct settings {
	struct paths paths; /* with what the configuration says of them */
	struct config config;
	struct mask *mask; /* NULL: the user wants none */
};

/* From the environment and the configuration; a bad file is an error. */
int settings_open(struct settings *ret, struct err *err);
/* As config_load() reads it with slips. */
int settings_open_loosely(struct settings *ret, struct buf *slips, struct err *err);
void settings_close(struct settings *s); /* also after a failure, and a second time */

/*
 * Puts the record and the log where c, read from file, says. -EINVAL, with file and line: another
 * of proctor's files is at that place (its configuration, socket, what the daemon says), which one
 * of the two would spoil; or the record would be a folder.
 */
int settings_place(struct paths *p, const char *file, const struct config *c, struct err *err);
