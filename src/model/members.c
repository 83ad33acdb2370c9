#include "model/members.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/snapshot.h"

static const struct member psi_line_members[] = {
	MEMBER(psi_line, F64, avg10, "avg10"),
	MEMBER(psi_line, F64, avg60, "avg60"),
	MEMBER(psi_line, F64, avg300, "avg300"),
	MEMBER(psi_line, U64, total_us, "total_us"),
};

static const struct member psi_members[] = {
	MEMBER(psi, PSI_LINE, some, "some"),
	MEMBER(psi, PSI_LINE, full, "full"),
};

static const struct {
	uint64_t bit;
	const char *name;
} throttles[] = {
	{ GPU_THROTTLE_IDLE, "idle" },
	{ GPU_THROTTLE_SETTING, "clock_setting" },
	{ GPU_THROTTLE_POWER_CAP, "power_cap" },
	{ GPU_THROTTLE_HARDWARE, "hardware" },
	{ GPU_THROTTLE_SYNC_BOOST, "sync_boost" },
	{ GPU_THROTTLE_THERMAL, "thermal" },
	{ GPU_THROTTLE_HARDWARE_THERMAL, "hardware_thermal" },
	{ GPU_THROTTLE_POWER_BRAKE, "power_brake" },
	{ GPU_THROTTLE_DISPLAY, "display_clock_setting" },
};

const char *gpu_throttle_name(size_t i, uint64_t *ret_bit)
{
	if (i >= ARRAY_SIZE(throttles))
		return NULL;
	*ret_bit = throttles[i].bit;
	return throttles[i].name;
}

static uint64_t u64_at(const void *place)
{
	return *(const uint64_t *)place;
}

/* ---- writing ---- */

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
	/* To 1/1,000,000 %: more would be digits of the clock's noise, and dear to write. */
	for (size_t i = 0; i < n; i++)
		if (u64_known(uses[i].cpu_ns) && total_ns > 0)
			json_key_f64(j, uses[i].name,
				     round(1e8 * (double)uses[i].cpu_ns / total_ns) / 1e6);
	json_end_object(j);
}

static void write_object(struct json *j, const struct member *members, size_t n, const void *from)
{
	json_begin_object(j);
	members_write(j, members, n, from);
	json_end_object(j);
}

void psi_write_json(struct json *j, const struct psi *psi)
{
	if (u64_known(psi->some.total_us) || u64_known(psi->full.total_us))
		write_object(j, psi_members, ARRAY_SIZE(psi_members), psi);
	else
		json_none(j);
}

/* Bits that nobody has named are left out. */
static void write_throttle(struct json *j, uint64_t bits)
{
	if (!u64_known(bits)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(throttles); i++)
		if (bits & throttles[i].bit)
			json_str(j, throttles[i].name);
	json_end_array(j);
}

static void write_items(struct json *j, const struct member *m, const char *from)
{
	const struct member_items *items = m->items;
	const void *known = from + items->known_offset;
	size_t n = *(const size_t *)(const void *)(from + items->n_offset);

	if (items->is_known_by_count ? !u64_known(u64_at(known)) : !*(const bool *)known) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		write_object(j, items->members, items->n_members,
			     from + m->offset + i * items->size);
	json_end_array(j);
}

char *member_put_number(char *at, enum field_kind kind, const void *place)
{
	int n;
	uint64_t limit;

	switch (kind) {
	case FIELD_PID:
		return json_put_i64(at, *(const pid_t *)place);
	case FIELD_INT:
	case FIELD_POSITIVE:
		n = *(const int *)place;
		return json_put_u64(at, n < (kind == FIELD_POSITIVE) ? U64_UNKNOWN : (uint64_t)n);
	case FIELD_F64:
		return json_put_f64(at, *(const double *)place);
	case FIELD_MB:
		return json_put_f64(at, u64_to_mb(u64_at(place)));
	case FIELD_SECONDS:
		return json_put_f64(at, u64_to_seconds(u64_at(place)));
	case FIELD_LIMIT:
		/* Unlimited has no number; it is known all the same, so it is a word. */
		limit = u64_at(place);
		return limit == FD_LIMIT_UNLIMITED ? stpcpy(at, "\"unlimited\"")
						   : json_put_u64(at, limit);
	case FIELD_LIMIT_MB:
		limit = u64_at(place);
		return json_put_f64(at, limit == MEMORY_UNLIMITED ? F64_UNKNOWN : u64_to_mb(limit));
	case FIELD_UNLIMITED:
		limit = u64_at(place);
		return stpcpy(at, !u64_known(limit)	      ? "null"
				  : limit == MEMORY_UNLIMITED ? "true"
							      : "false");
	case FIELD_ID:
		return json_put_i64(at, *(const int64_t *)place);
	case FIELD_FLAG:
		return stpcpy(at, *(const signed char *)place > 0 ? "true" : "false");
	case FIELD_TRUE:
		return stpcpy(at, "true");
	default:
		return json_put_u64(at, u64_at(place));
	}
}

/* Those that have no bound worth having room for. */
static bool is_long(enum field_kind kind)
{
	return (kind >= FIELD_STRING && kind <= FIELD_TIMES) || kind >= FIELD_PSI;
}

static void write_long(struct json *j, const struct member *m, const char *from)
{
	const void *place = from + m->offset;
	const struct proc_sample *p = (const void *)from; /* of system calls */
	const struct psi_line *line = place;

	switch (m->kind) {
	case FIELD_STRING:
		json_str(j, *(const char *const *)place);
		break;
	case FIELD_CHAR:
		json_str_n(j, place, *(const char *)place ? 1 : 0);
		break;
	case FIELD_COMM:
		json_str(j, place);
		break;
	case FIELD_NAME:
		json_str(j, *(const char *)place ? place : NULL);
		break;
	case FIELD_COUNTS:
		syscall_uses_write_counts(j, p->syscalls, p->n_syscalls);
		break;
	case FIELD_TIMES:
		syscall_uses_write_times(j, p->syscalls, p->n_syscalls);
		break;
	case FIELD_PSI:
		psi_write_json(j, place);
		break;
	case FIELD_PSI_LINE:
		if (u64_known(line->total_us))
			write_object(j, psi_line_members, ARRAY_SIZE(psi_line_members), line);
		else
			json_none(j);
		break;
	case FIELD_THROTTLE:
		write_throttle(j, u64_at(place));
		break;
	default:
		write_items(j, m, from);
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
	case FIELD_TRUE:
		return *(const bool *)place;
	case FIELD_F64:
		return f64_known(*(const double *)place);
	default:
		return u64_known(u64_at(place));
	}
}

void members_write(struct json *j, const struct member *members, size_t n, const void *from)
{
	/* For all of them, so that it is enough for those that are left. */
	const size_t room = n * (FIELD_KEY_BYTES + JSON_NUMBER_BYTES);
	bool has_comma = j->need_comma;
	char *at = json_room(j, room);
	size_t skip;

	for (const struct member *m = members; at && m < members + n; m++) {
		const void *place = (const char *)from + m->offset;

		if (m->is_rare && !is_known(m->kind, place))
			continue;
		/* The whole row, which is two moves; what is too much the value overwrites. */
		skip = has_comma ? 0 : 1;
		memcpy(at, m->key + skip, FIELD_KEY_BYTES - 1);
		at += m->len - skip;
		has_comma = true;
		if (is_long(m->kind)) {
			json_room_end(j, at, true);
			write_long(j, m, from);
			at = json_room(j, room);
		} else {
			at = member_put_number(at, m->kind, place);
		}
	}
	if (at)
		json_room_end(j, at, !has_comma);
}

/* ---- reading ---- */

/* To the whole, as it was: what does not fit is unknown. */
static uint64_t read_scaled(struct json_cursor *c, double scale)
{
	double v = json_cursor_f64(c) * scale;

	return v >= 0 && v < 1.8e19 ? (uint64_t)(v + 0.5) : U64_UNKNOWN;
}

/* {"read":12,…} */
static void read_call_counts(struct json_cursor *c, struct arena *arena, struct proc_sample *p)
{
	struct json_cursor counting = *c;
	struct syscall_use *uses;
	size_t n = 0, len;
	const char *key;

	if (json_cursor_enter(&counting, '{'))
		for (; json_cursor_next_key(&counting, &key, &len); n++)
			json_cursor_skip(&counting);
	if (!json_cursor_enter(c, '{'))
		return; /* they were not counted */
	uses = arena_alloc(arena, (n + 1) * sizeof(*uses));
	p->syscalls = uses;
	p->n_syscalls = 0;
	while (json_cursor_next_key(c, &key, &len)) {
		const char *name = uses ? arena_strndup(arena, key, len) : NULL;
		uint64_t count = json_cursor_u64(c);

		if (name && u64_known(count))
			uses[p->n_syscalls++] = (struct syscall_use){
				.name = name,
				.count = count,
				.errors = U64_UNKNOWN,
				.cpu_ns = U64_UNKNOWN,
				.wait_ns = U64_UNKNOWN,
			};
	}
}

/* Behind their counts, and in the same order. */
static void read_call_times(struct json_cursor *c, struct proc_sample *p)
{
	/* The array is ours: it came from this arena. */
	struct syscall_use *uses = (struct syscall_use *)(uintptr_t)p->syscalls;
	const char *key;
	size_t len, i = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len)) {
		uint64_t share_ns = read_scaled(c, 1e7); /* of 1 s, and they are percent */

		while (i < p->n_syscalls && !json_cursor_is(key, len, uses[i].name))
			i++;
		if (i < p->n_syscalls)
			uses[i].cpu_ns = share_ns;
	}
}

static void read_throttle(struct json_cursor *c, struct arena *arena, uint64_t *bits)
{
	if (!json_cursor_enter(c, '['))
		return; /* it is unknown */
	*bits = 0;
	while (json_cursor_next_element(c)) {
		const char *name = json_cursor_string(c, arena);

		for (size_t i = 0; name && i < ARRAY_SIZE(throttles); i++)
			*bits |= strcmp(throttles[i].name, name) == 0 ? throttles[i].bit : 0;
	}
}

static void read_items(struct json_cursor *c, struct arena *arena, const struct member *m,
		       char *ret)
{
	const struct member_items *items = m->items;
	bool is_list = json_cursor_enter(c, '[');
	size_t n = 0;

	while (is_list && json_cursor_next_element(c)) {
		char *item = ret + m->offset + n * items->size;

		if (n == items->max) {
			json_cursor_skip(c);
			continue;
		}
		memcpy(item, items->unknown, items->size);
		members_read(c, arena, items->members, items->n_members, item);
		n++;
	}
	if (!items->is_known_by_count)
		*(bool *)(ret + items->known_offset) = is_list;
	*(size_t *)(void *)(ret + items->n_offset) = n;
}

static void read_value(struct json_cursor *c, struct arena *arena, const struct member *m,
		       char *ret)
{
	void *at = ret + m->offset;
	struct json_cursor again = *c;
	const char *text;
	size_t len;
	int64_t i64;

	switch (m->kind) {
	case FIELD_PID:
	case FIELD_INT:
	case FIELD_POSITIVE:
		i64 = json_cursor_i64(c, *(int *)at);
		if (i64 >= INT32_MIN && i64 <= INT32_MAX)
			*(int *)at = (int)i64;
		return;
	case FIELD_F64:
		*(double *)at = json_cursor_f64(c);
		return;
	case FIELD_MB:
	case FIELD_LIMIT_MB:
		*(uint64_t *)at = read_scaled(c, 1 << 20);
		return;
	case FIELD_SECONDS:
		*(uint64_t *)at = read_scaled(c, 1e9);
		return;
	case FIELD_STRING:
		*(const char **)at = json_cursor_string(c, arena);
		return;
	case FIELD_CHAR:
		text = json_cursor_string(c, arena);
		*(char *)at = text && text[0] ? text[0] : '?';
		return;
	case FIELD_COMM:
	case FIELD_NAME:
		text = json_cursor_string(c, arena);
		len = text ? utf8_cut(text, strlen(text), m->size - 1) : 0;
		memcpy(at, text ? text : "", len);
		((char *)at)[len] = '\0';
		return;
	case FIELD_COUNTS:
		read_call_counts(c, arena, (void *)ret);
		return;
	case FIELD_TIMES:
		read_call_times(c, (void *)ret);
		return;
	case FIELD_ID:
		*(int64_t *)at = json_cursor_i64(c, 0);
		return;
	case FIELD_FLAG:
	case FIELD_TRUE:
	case FIELD_UNLIMITED:
		json_cursor_value(c, &text, &len);
		if (json_cursor_is(text, len, "true") && m->kind == FIELD_UNLIMITED)
			*(uint64_t *)at = MEMORY_UNLIMITED;
		else if (json_cursor_is(text, len, "true"))
			*(signed char *)at = true;
		else if (json_cursor_is(text, len, "false") && m->kind != FIELD_UNLIMITED)
			*(signed char *)at = false;
		return;
	case FIELD_PSI:
		members_read(c, arena, psi_members, ARRAY_SIZE(psi_members), at);
		return;
	case FIELD_PSI_LINE:
		members_read(c, arena, psi_line_members, ARRAY_SIZE(psi_line_members), at);
		return;
	case FIELD_THROTTLE:
		read_throttle(c, arena, at);
		return;
	case FIELD_ITEMS:
		read_items(c, arena, m, ret);
		return;
	default: /* FIELD_U64, FIELD_LIMIT: a number, or "unlimited" */
		*(uint64_t *)at = json_cursor_u64(c);
		text = m->kind == FIELD_LIMIT && !u64_known(u64_at(at))
			       ? json_cursor_string(&again, arena)
			       : NULL;
		if (text && strcmp(text, "unlimited") == 0)
			*(uint64_t *)at = FD_LIMIT_UNLIMITED;
		return;
	}
}

void members_read_value(struct json_cursor *c, struct arena *arena, const struct member *members,
			size_t n, const char *key, size_t len, size_t *at, void *ret)
{
	for (size_t i = 0; i < n; i++, *at = (*at + 1) % n) {
		const struct member *m = &members[*at];

		/* Between ,\" and \": */
		if (m->len == len + 4 && memcmp(m->key + 2, key, len) == 0) {
			read_value(c, arena, m, ret);
			return;
		}
	}
	json_cursor_skip(c);
}

void members_read(struct json_cursor *c, struct arena *arena, const struct member *members,
		  size_t n, void *ret)
{
	const char *key;
	size_t len, at = 0;

	if (!json_cursor_enter(c, '{'))
		return;
	while (json_cursor_next_key(c, &key, &len))
		members_read_value(c, arena, members, n, key, len, &at, ret);
}
