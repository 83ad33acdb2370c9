#include <inttypes.h>
#include <stdio.h>

#include "base/unknown.h"
#include "daemon/guest.h"
#include "daemon/guest_members.h"

static void write_hash(struct json *j, uint64_t hash)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	json_str(j, text);
}

static void write_text(struct json *j, const char *text)
{
	if (text)
		json_str(j, text);
	else
		json_none(j);
}

static void write_member(struct json *j, const struct member *m, const void *from)
{
	const void *at = (const char *)from + m->offset;

	json_key(j, m->name);
	switch (m->kind) {
	case MEMBER_U64:
	case MEMBER_TIME:
		json_u64(j,
			 *(const uint64_t *)at <= INT64_MAX ? *(const uint64_t *)at : U64_UNKNOWN);
		return;
	case MEMBER_HASH:
		write_hash(j, *(const uint64_t *)at);
		return;
	case MEMBER_INT:
		json_u64(j, *(const int *)at < 0 ? U64_UNKNOWN : (uint64_t) * (const int *)at);
		return;
	case MEMBER_F64:
		json_f64(j, *(const double *)at);
		return;
	case MEMBER_TEXT:
		write_text(j, *(const char *const *)at);
		return;
	case MEMBER_OUTCOME:
		write_text(j, outcome_name(*(const enum outcome *)at));
		return;
	case MEMBER_EVIDENCE:
		write_text(j, evidence_name(*(const enum evidence *)at));
		return;
	case MEMBER_EVENT_TYPE:
		write_text(j, event_type_name(*(const enum event_type *)at));
		return;
	}
}

static void write_members(struct json *j, const struct member_table *table, const void *from)
{
	for (size_t i = 0; i < table->n; i++)
		write_member(j, &table->items[i], from);
}

static void write_usage(struct json *j, const struct usage *usage)
{
	json_key(j, "usage");
	json_begin_object(j);
	write_members(j, &guest_usage_members, usage);
	json_end_object(j);
}

static void write_sheet(struct json *j, const struct sheet_record *sheet)
{
	json_begin_object(j);
	write_members(j, &guest_sheet_members, sheet);
	if (u64_known(sheet->ended_wall_ns))
		write_usage(j, &sheet->usage);
	json_end_object(j);
}

static void write_object(struct json *j, const struct member_table *table, const void *from)
{
	json_begin_object(j);
	write_members(j, table, from);
	json_end_object(j);
}

/* The first so many, each of so many bytes. */
static void write_list(struct json *j, const struct member_table *table, const void *from, size_t n,
		       size_t max, size_t bytes)
{
	json_begin_array(j);
	for (size_t i = 0; i < n && i < max; i++)
		write_object(j, table, (const char *)from + i * bytes);
	json_end_array(j);
}

static void write_events(struct json *j, const struct attempt *a)
{
	size_t n = 0;

	json_key(j, "events");
	json_begin_array(j);
	for (size_t i = 0; i < a->n_events && n < GUEST_MAX_EVENTS; i++) {
		if (event_type_is_signal(a->events[i].type))
			continue;
		write_object(j, &guest_event_members, &a->events[i]);
		n++;
	}
	json_end_array(j);
}

/* What it lacks is told among what is not known. */
static void write_notes(struct json *j, const struct attempt *a)
{
	static const struct unknown_note cut = { "processes", "there are more than are listed" };
	size_t n = a->n_unknowns < GUEST_MAX_NOTES - 1 ? a->n_unknowns : GUEST_MAX_NOTES - 1;

	json_key(j, "unknowns");
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		write_object(j, &guest_note_members, &a->unknowns[i]);
	if (a->n_processes > GUEST_MAX_PROCESSES)
		write_object(j, &guest_note_members, &cut);
	json_end_array(j);
}

static void write_end(struct json *j, const struct attempt *a)
{
	write_members(j, &guest_end_members, a);
	write_usage(j, &a->usage);
	json_key(j, "processes");
	write_list(j, &guest_process_members, a->processes, a->n_processes, GUEST_MAX_PROCESSES,
		   sizeof(*a->processes));
	write_events(j, a);
	json_key(j, "rungs");
	write_list(j, &guest_rung_members, a->rungs, a->n_rungs, GUEST_MAX_RUNGS,
		   sizeof(*a->rungs));
	write_notes(j, a);
}

void guest_write(struct json *j, const struct attempt *a, const struct sheet_record *sheets,
		 size_t n)
{
	json_begin_object(j);
	write_members(j, &guest_attempt_members, a);
	json_key(j, "sheets");
	json_begin_array(j);
	for (size_t i = n > GUEST_MAX_SHEETS ? n - GUEST_MAX_SHEETS : 0; i < n; i++)
		write_sheet(j, &sheets[i]);
	json_end_array(j);
	if (!a->is_running)
		write_end(j, a);
	json_end_object(j);
}

void guest_write_deaths(struct json *j, const struct proc_record *deaths, size_t n)
{
	write_list(j, &guest_death_members, deaths, n, GUEST_MAX_DEATHS, sizeof(*deaths));
}
