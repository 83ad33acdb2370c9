#include "store/spool_record.h"

#include <errno.h>

#include "base/macros.h"
#include "model/record.h"

/*
 * The format, the beginning, the end, sheets, notes, rungs, and of the events those of processes
 * that live on: a daemon goes on with them.
 */
#define FORMAT 5

int spool_record_write(const struct attempt *a, bool is_bare, struct buf *out)
{
	size_t n_left = 0;

	for (size_t i = 0; !is_bare && i < a->n_events; i++)
		n_left += a->events[i].type == EVENT_ORPHAN;
	record_write_number(out, FORMAT);
	record_write_begin(out, a);
	record_write_end(out, a);
	record_write_sheets(out, a->sheets, is_bare ? 0 : a->n_sheets);
	record_write_list(out, RECORD_NOTES, a->unknowns, is_bare ? 0 : a->n_unknowns);
	record_write_list(out, RECORD_RUNGS, a->rungs, is_bare ? 0 : a->n_rungs);
	record_write_number(out, n_left);
	for (size_t i = 0; n_left > 0 && i < a->n_events; i++)
		if (a->events[i].type == EVENT_ORPHAN)
			record_write_struct(out, &event_columns, &a->events[i]);
	return buf_error(out) < 0 ? -ENOMEM : 0;
}

int spool_record_read(const void *bytes, size_t len, struct attempt *ret)
{
	struct record_reader r = { bytes, (const uint8_t *)bytes + len, &ret->arena, 0 };

	if (record_read_number(&r) != FORMAT)
		return -EBADMSG;
	record_read_begin(&r, ret);
	record_read_end(&r, ret);
	ret->sheets = record_read_sheets(&r, &ret->n_sheets);
	ret->unknowns = record_read_list(&r, RECORD_NOTES, &ret->n_unknowns);
	ret->rungs = record_read_list(&r, RECORD_RUNGS, &ret->n_rungs);
	ret->events = record_read_list(&r, RECORD_EVENTS, &ret->n_events);
	return r.error < 0 ? r.error : r.p == r.end ? 0 : -EBADMSG;
}
