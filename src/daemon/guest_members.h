/*
 * guest_members - what a runner tells of a job, member by member: one table for both
 * sides, so that what is written is what is read.
 */
#ifndef PROCTOR_DAEMON_GUEST_MEMBERS_H
#define PROCTOR_DAEMON_GUEST_MEMBERS_H

#include <stddef.h>

enum member_kind {
	MEMBER_U64,
	MEMBER_TIME, /* in nanoseconds of the wall clock */
	MEMBER_HASH, /* 16 hex digits: its 64 bits are more than a whole number in JSON may have */
	MEMBER_INT,  /* below 0: unknown */
	MEMBER_F64,
	MEMBER_TEXT,
	MEMBER_OUTCOME,
	MEMBER_EVIDENCE,
	MEMBER_EVENT_TYPE,
};

/* One member: what it is, where it is, and the largest it may be (of a text its bytes). */
struct member {
	const char *name;
	enum member_kind kind;
	size_t offset;
	double max;
};

struct member_table {
	const struct member *items;
	size_t n;
};

extern const struct member_table guest_attempt_members; /* of struct attempt */
extern const struct member_table guest_end_members;	/* the same, once it has ended */
extern const struct member_table guest_sheet_members;	/* of struct sheet_record */
extern const struct member_table guest_usage_members;	/* of struct usage */
extern const struct member_table guest_process_members; /* of struct proc_record */
extern const struct member_table guest_death_members;	/* the same, of its end alone */
extern const struct member_table guest_event_members;	/* of struct proc_event */
extern const struct member_table guest_rung_members;	/* of struct rung */
extern const struct member_table guest_note_members;	/* of struct unknown_note */

#endif
