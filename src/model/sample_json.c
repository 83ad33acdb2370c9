#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"
#include "model/snapshot.h"

/* ---- system calls ---- */

/* Where nobody counts them null says so: {} would claim there were none. */
void syscall_uses_write_counts(struct json *j, const struct syscall_use *uses, size_t n)
{
	if (!uses) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	for (size_t i = 0; i < n; i++)
		json_key_u64(j, uses[i].name, uses[i].count);
	json_end_object(j);
}

/* To 1/1,000,000: more would be digits of the clock's noise, and dear to write. */
static double percent_of(uint64_t part_ns, double total_ns)
{
	return round(1e8 * (double)part_ns / total_ns) / 1e6;
}

void syscall_uses_write_times(struct json *j, const struct syscall_use *uses, size_t n)
{
	double total_ns = 0;

	if (!uses) {
		json_none(j);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (u64_known(uses[i].cpu_ns))
			total_ns += (double)uses[i].cpu_ns;
	json_begin_object(j);
	for (size_t i = 0; i < n; i++)
		if (u64_known(uses[i].cpu_ns) && total_ns > 0)
			json_key_f64(j, uses[i].name, percent_of(uses[i].cpu_ns, total_ns));
	json_end_object(j);
}

/* ---- one process ----
 *
 * A snapshot of a thousand processes has more than forty thousand of these: keys are written as
 * they stand here, no more is decided than what kind of value it is, and room is asked for once for
 * all that stands between two strings.
 */

#define ROW(kind_, member_, key_, is_rare_)                                    \
	{                                                                      \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, FIELD_##kind_, \
			offsetof(struct proc_sample, member_), is_rare_        \
	}

const struct sample_field sample_fields[] = {
#define SAMPLE_FIELD(kind_, member_, key_, help_) ROW(kind_, member_, key_, false),
#define SAMPLE_RARE(kind_, member_, key_, help_) ROW(kind_, member_, key_, true),
#include "model/sample_fields.def"
};
const size_t n_sample_fields = ARRAY_SIZE(sample_fields);

/* Between ,\" and \": */
bool sample_field_is(size_t i, const char *name, size_t len)
{
	return sample_fields[i].len == len + 4 && memcmp(sample_fields[i].key + 2, name, len) == 0;
}

static uint64_t u64_at(const void *place)
{
	return *(const uint64_t *)place;
}

/* Unlimited has no number; it is known all the same, so it is a word. */
static char *put_limit(char *at, uint64_t limit)
{
	return limit == FD_LIMIT_UNLIMITED ? stpcpy(at, "\"unlimited\"") : json_put_u64(at, limit);
}

static char *put_number(char *at, enum field_kind kind, const void *place)
{
	int n;

	switch (kind) {
	case FIELD_PID:
		return json_put_i64(at, *(const pid_t *)place);
	case FIELD_INT:
		n = *(const int *)place;
		return json_put_u64(at, n < 0 ? U64_UNKNOWN : (uint64_t)n);
	case FIELD_F64:
		return json_put_f64(at, *(const double *)place);
	case FIELD_MB:
		return json_put_f64(at, u64_to_mb(u64_at(place)));
	case FIELD_SECONDS:
		return json_put_f64(at, u64_to_seconds(u64_at(place)));
	case FIELD_LIMIT:
		return put_limit(at, u64_at(place));
	case FIELD_ID:
		return json_put_i64(at, *(const int64_t *)place);
	case FIELD_FLAG:
		return stpcpy(at, *(const signed char *)place > 0 ? "true" : "false");
	default:
		return json_put_u64(at, u64_at(place));
	}
}

/* Those that have no bound worth having room for. */
static bool is_long(enum field_kind kind)
{
	return kind == FIELD_STRING || kind == FIELD_CHAR || kind == FIELD_COMM ||
	       kind == FIELD_COUNTS || kind == FIELD_TIMES;
}

static void write_long(struct json *j, enum field_kind kind, const void *place,
		       const struct proc_sample *p)
{
	switch (kind) {
	case FIELD_STRING:
		json_str(j, *(const char *const *)place);
		break;
	case FIELD_CHAR:
		json_str_n(j, place, *(const char *)place ? 1 : 0);
		break;
	case FIELD_COMM:
		json_str(j, place);
		break;
	case FIELD_COUNTS:
		syscall_uses_write_counts(j, p->syscalls, p->n_syscalls);
		break;
	default:
		syscall_uses_write_times(j, p->syscalls, p->n_syscalls);
	}
}

/* One that may be left out. */
static bool is_known(enum field_kind kind, const void *place)
{
	switch (kind) {
	case FIELD_INT:
		return *(const int *)place >= 0;
	case FIELD_ID:
		return *(const int64_t *)place > 0;
	case FIELD_FLAG:
		return *(const signed char *)place >= 0;
	default:
		return u64_known(u64_at(place));
	}
}

/* For all of them, so that it is enough for those that are left. */
#define ROOM (n_sample_fields * (FIELD_KEY_BYTES + JSON_NUMBER_BYTES))

/* The whole row, which is two moves; what is too much the value overwrites. */
static char *put_key(char *at, const struct sample_field *f, bool has_comma)
{
	size_t skip = has_comma ? 0 : 1;

	memcpy(at, f->key + skip, FIELD_KEY_BYTES - 1);
	return at + f->len - skip;
}

void proc_sample_write_fields(struct json *j, const struct proc_sample *p)
{
	bool has_comma = j->need_comma;
	char *at = json_room(j, ROOM);

	for (size_t i = 0; at && i < ARRAY_SIZE(sample_fields); i++) {
		const struct sample_field *f = &sample_fields[i];
		const void *place = (const char *)p + f->offset;

		if (f->is_rare && !is_known(f->kind, place))
			continue;
		at = put_key(at, f, has_comma);
		has_comma = true;
		if (is_long(f->kind)) {
			json_room_end(j, at, true);
			write_long(j, f->kind, place, p);
			at = json_room(j, ROOM);
		} else {
			at = put_number(at, f->kind, place);
		}
	}
	if (at)
		json_room_end(j, at, false);
}
