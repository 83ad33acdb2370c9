#include "daemon/guest_members.h"

#include <stdint.h>

#include "base/macros.h"
#include "base/mask.h"
#include "base/path.h"
#include "model/job.h"

#define REASON_MAX_BYTES 1000
#define NAME_MAX_BYTES 300
#define DETAILS_MAX_BYTES 300

#define MEMBER(type, field, kind, max)                    \
	{                                                 \
#field, kind, offsetof(type, field), max, \
	}
#define MEMBER_AS(name, type, field, kind, max)         \
	{                                               \
		name, kind, offsetof(type, field), max, \
	}

#define TABLE(items)                     \
	{                                \
		items, ARRAY_SIZE(items) \
	}

static const struct member attempt_items[] = {
	MEMBER(struct attempt, job_id, MEMBER_TEXT, JOB_ID_MAX),
	MEMBER(struct attempt, command, MEMBER_TEXT, COMMAND_MAX_BYTES),
	MEMBER(struct attempt, workdir, MEMBER_TEXT, PATH_BYTES),
	MEMBER(struct attempt, argv_hash, MEMBER_HASH, 0),
	MEMBER(struct attempt, submission, MEMBER_U64, 0),
	MEMBER(struct attempt, interval_seconds, MEMBER_F64, 86400),
	MEMBER(struct attempt, started_wall_ns, MEMBER_TIME, 0),
	MEMBER(struct attempt, total_sheets, MEMBER_INT, INT32_MAX),
	MEMBER(struct attempt, last_completed_sheet, MEMBER_INT, INT32_MAX),
	MEMBER(struct attempt, current_sheet, MEMBER_INT, INT32_MAX),
};
const struct member_table guest_attempt_members = TABLE(attempt_items);

static const struct member end_items[] = {
	MEMBER(struct attempt, ended_wall_ns, MEMBER_TIME, 0),
	MEMBER(struct attempt, outcome, MEMBER_OUTCOME, 0),
	MEMBER(struct attempt, reason, MEMBER_TEXT, REASON_MAX_BYTES),
	MEMBER_AS("exit_code", struct attempt, status.exit_code, MEMBER_INT, 255),
	MEMBER_AS("signal", struct attempt, status.signal, MEMBER_INT, 64),
};
const struct member_table guest_end_members = TABLE(end_items);

static const struct member sheet_items[] = {
	MEMBER(struct sheet_record, num, MEMBER_INT, INT32_MAX),
	MEMBER(struct sheet_record, try_num, MEMBER_INT, INT32_MAX),
	MEMBER(struct sheet_record, name, MEMBER_TEXT, NAME_MAX_BYTES),
	MEMBER(struct sheet_record, command, MEMBER_TEXT, COMMAND_MAX_BYTES),
	MEMBER(struct sheet_record, total_ranks, MEMBER_INT, INT32_MAX),
	MEMBER(struct sheet_record, started_wall_ns, MEMBER_TIME, 0),
	MEMBER(struct sheet_record, ended_wall_ns, MEMBER_TIME, 0),
	MEMBER(struct sheet_record, outcome, MEMBER_OUTCOME, 0),
	MEMBER(struct sheet_record, reason, MEMBER_TEXT, REASON_MAX_BYTES),
	MEMBER_AS("exit_code", struct sheet_record, status.exit_code, MEMBER_INT, 255),
	MEMBER_AS("signal", struct sheet_record, status.signal, MEMBER_INT, 64),
};
const struct member_table guest_sheet_members = TABLE(sheet_items);

static const struct member usage_items[] = {
	MEMBER(struct usage, wall_ns, MEMBER_U64, 0),
	MEMBER(struct usage, user_ns, MEMBER_U64, 0),
	MEMBER(struct usage, system_ns, MEMBER_U64, 0),
	MEMBER(struct usage, cpu_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct usage, peak_rss_bytes, MEMBER_U64, 0),
	MEMBER(struct usage, peak_rss_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct usage, max_process_rss_bytes, MEMBER_U64, 0),
	MEMBER(struct usage, max_process_rss_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct usage, rchar, MEMBER_U64, 0),
	MEMBER(struct usage, wchar, MEMBER_U64, 0),
	MEMBER(struct usage, syscr, MEMBER_U64, 0),
	MEMBER(struct usage, syscw, MEMBER_U64, 0),
	MEMBER(struct usage, read_bytes, MEMBER_U64, 0),
	MEMBER(struct usage, write_bytes, MEMBER_U64, 0),
	MEMBER(struct usage, io_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct usage, minor_faults, MEMBER_U64, 0),
	MEMBER(struct usage, major_faults, MEMBER_U64, 0),
	MEMBER(struct usage, voluntary_switches, MEMBER_U64, 0),
	MEMBER(struct usage, involuntary_switches, MEMBER_U64, 0),
	MEMBER(struct usage, spawn_count, MEMBER_U64, 0),
	MEMBER(struct usage, spawn_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct usage, peak_processes, MEMBER_U64, 0),
	MEMBER(struct usage, peak_cpu_percent, MEMBER_F64, 1e9),
};
const struct member_table guest_usage_members = TABLE(usage_items);

/* The first so many are those of one that has ended which its runner may lack. */
#define N_DEATH_MEMBERS 16

static const struct member process_items[] = {
	MEMBER_AS("pid", struct proc_record, key.pid, MEMBER_INT, INT32_MAX),
	MEMBER_AS("start_ticks", struct proc_record, key.start_ticks, MEMBER_U64, 0),
	MEMBER(struct proc_record, command, MEMBER_TEXT, COMMAND_MAX_BYTES),
	MEMBER(struct proc_record, died_wall_ns, MEMBER_TIME, 0),
	MEMBER_AS("exit_code", struct proc_record, status.exit_code, MEMBER_INT, 255),
	MEMBER_AS("signal", struct proc_record, status.signal, MEMBER_INT, 64),
	MEMBER(struct proc_record, user_ns, MEMBER_U64, 0),
	MEMBER(struct proc_record, system_ns, MEMBER_U64, 0),
	MEMBER(struct proc_record, max_rss_bytes, MEMBER_U64, 0),
	MEMBER(struct proc_record, evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct proc_record, cpu_evidence, MEMBER_EVIDENCE, 0),
	MEMBER(struct proc_record, rchar, MEMBER_U64, 0),
	MEMBER(struct proc_record, wchar, MEMBER_U64, 0),
	MEMBER(struct proc_record, read_bytes, MEMBER_U64, 0),
	MEMBER(struct proc_record, write_bytes, MEMBER_U64, 0),
	MEMBER(struct proc_record, major_faults, MEMBER_U64, 0),
	MEMBER(struct proc_record, ppid, MEMBER_INT, INT32_MAX),
	MEMBER(struct proc_record, sheet_num, MEMBER_INT, INT32_MAX),
	MEMBER(struct proc_record, rank, MEMBER_INT, INT32_MAX),
	MEMBER(struct proc_record, born_wall_ns, MEMBER_TIME, 0),
	MEMBER(struct proc_record, max_threads, MEMBER_U64, 0),
	MEMBER(struct proc_record, max_fds, MEMBER_U64, 0),
	MEMBER(struct proc_record, n_samples, MEMBER_U64, 0),
};
const struct member_table guest_process_members = TABLE(process_items);
const struct member_table guest_death_members = { process_items, N_DEATH_MEMBERS };

static const struct member event_items[] = {
	MEMBER(struct proc_event, wall_ns, MEMBER_TIME, 0),
	MEMBER_AS("pid", struct proc_event, key.pid, MEMBER_INT, INT32_MAX),
	MEMBER_AS("start_ticks", struct proc_event, key.start_ticks, MEMBER_U64, 0),
	MEMBER(struct proc_event, type, MEMBER_EVENT_TYPE, 0),
	MEMBER_AS("exit_code", struct proc_event, status.exit_code, MEMBER_INT, 255),
	MEMBER_AS("signal", struct proc_event, status.signal, MEMBER_INT, 64),
	MEMBER(struct proc_event, sheet_num, MEMBER_INT, INT32_MAX),
	MEMBER(struct proc_event, details, MEMBER_TEXT, DETAILS_MAX_BYTES),
};
const struct member_table guest_event_members = TABLE(event_items);

static const struct member rung_items[] = {
	MEMBER(struct rung, measurement, MEMBER_TEXT, NAME_MAX_BYTES),
	MEMBER(struct rung, rung, MEMBER_TEXT, NAME_MAX_BYTES),
	MEMBER(struct rung, reason, MEMBER_TEXT, REASON_MAX_BYTES),
};
const struct member_table guest_rung_members = TABLE(rung_items);

static const struct member note_items[] = {
	MEMBER(struct unknown_note, what, MEMBER_TEXT, NAME_MAX_BYTES),
	MEMBER(struct unknown_note, why, MEMBER_TEXT, REASON_MAX_BYTES),
};
const struct member_table guest_note_members = TABLE(note_items);
