#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/guest.h"
#include "daemon/guest_reading.h"

static int refuse(const struct guest_reading *r, const struct member *m)
{
	return err_set(r->err, -EINVAL, "'%s' of the job cannot be that", m->name);
}

/* As it may be shown, and no longer than it may be. */
static const char *read_text(const struct guest_reading *r, const struct member *m,
			     const char *text)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n = strlen(text), max = (size_t)m->max;

	for (size_t i = 0; i < n && shown.len <= max;)
		i += utf8_add_shown(&shown, text + i, n - i);
	if (buf_error(&shown) < 0)
		return NULL;
	return arena_strndup(r->arena, shown.data, utf8_cut(shown.data, shown.len, max));
}

static int read_int(const struct guest_reading *r, const struct member *m,
		    const struct rpc_value *v, int *ret)
{
	int64_t number = rpc_value_i64(v, -1);

	if (number < 0 || (double)number > m->max)
		return refuse(r, m);
	*ret = (int)number;
	return 0;
}

static int read_f64(const struct guest_reading *r, const struct member *m,
		    const struct rpc_value *v, double *ret)
{
	double number = rpc_value_f64(v);

	if (!(number >= 0 && number <= m->max))
		return refuse(r, m);
	*ret = number;
	return 0;
}

static int read_u64(const struct guest_reading *r, const struct member *m,
		    const struct rpc_value *v, uint64_t *ret)
{
	uint64_t number = rpc_value_u64(v);

	if (!u64_known(number))
		return refuse(r, m);
	*ret = m->kind == MEMBER_TIME && number > r->now_wall_ns ? r->now_wall_ns : number;
	return 0;
}

static int read_hash(const struct guest_reading *r, const struct member *m, const char *text,
		     uint64_t *ret)
{
	char *end;

	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return refuse(r, m);
	*ret = strtoull(text, &end, 16);
	return 0;
}

/* The text kinds. */
static int read_word(const struct guest_reading *r, const struct member *m, const char *text,
		     void *at)
{
	if (!text)
		return refuse(r, m);
	switch (m->kind) {
	case MEMBER_HASH:
		return read_hash(r, m, text, at);
	case MEMBER_OUTCOME:
		*(enum outcome *)at = outcome_from_name(text);
		return *(enum outcome *)at == OUTCOME_NONE ? refuse(r, m) : 0;
	case MEMBER_EVIDENCE:
		*(enum evidence *)at = evidence_from_name(text);
		return 0;
	case MEMBER_EVENT_TYPE:
		return event_type_from_name(text, at) < 0 ? refuse(r, m) : 0;
	default:
		*(const char **)at = read_text(r, m, text);
		return *(const char **)at ? 0
					  : err_set(r->err, -ENOMEM, "no memory left for a job");
	}
}

/* What is absent or null stays unknown. */
static int read_member(const struct guest_reading *r, const struct member *m,
		       const struct rpc_value *object, void *to)
{
	const struct rpc_value *v = rpc_value_get(object, m->name);
	void *at = (char *)to + m->offset;

	if (!v || rpc_value_is_null(v))
		return 0;
	switch (m->kind) {
	case MEMBER_U64:
	case MEMBER_TIME:
		return read_u64(r, m, v, at);
	case MEMBER_INT:
		return read_int(r, m, v, at);
	case MEMBER_F64:
		return read_f64(r, m, v, at);
	default:
		return read_word(r, m, rpc_value_string(v), at);
	}
}

int guest_read_members(const struct guest_reading *r, const struct member_table *table,
		       const struct rpc_value *object, void *to)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < table->n; i++)
		result = read_member(r, &table->items[i], object, to);
	return result;
}

static int read_usage(const struct guest_reading *r, const struct rpc_value *object,
		      struct usage *ret)
{
	usage_init(ret);
	return guest_read_members(r, &guest_usage_members, rpc_value_get(object, "usage"), ret);
}

static int read_sheet(const struct guest_reading *r, const struct rpc_value *v,
		      struct sheet_record *ret)
{
	int result;

	*ret = (struct sheet_record){
		.num = -1,
		.try_num = -1,
		.total_ranks = 1,
		.started_wall_ns = U64_UNKNOWN,
		.ended_wall_ns = U64_UNKNOWN,
		.status = { -1, -1 },
	};
	result = guest_read_members(r, &guest_sheet_members, v, ret);
	if (result == 0)
		result = read_usage(r, v, &ret->usage);
	if (result == 0 && (ret->num < 0 || ret->try_num < 0))
		result = err_set(r->err, -EINVAL, "a sheet without 'num' and 'try_num'");
	return result;
}

static int read_sheets(const struct guest_reading *r, const struct rpc_value *list,
		       struct attempt *a)
{
	size_t n = rpc_value_len(list);
	int result = 0;

	if (!list || rpc_value_is_null(list) || (rpc_value_is_list(list) && n == 0))
		return 0;
	if (!rpc_value_is_list(list) || n > GUEST_MAX_SHEETS)
		return err_set(r->err, -EINVAL, "'sheets' is no list of at most %d",
			       GUEST_MAX_SHEETS);
	a->sheets = arena_alloc(&a->arena, n * sizeof(*a->sheets));
	if (!a->sheets)
		return err_set(r->err, -ENOMEM, "no memory left for a job");
	for (; result == 0 && a->n_sheets < n; a->n_sheets++)
		result = read_sheet(r, rpc_value_at(list, a->n_sheets), &a->sheets[a->n_sheets]);
	return result;
}

/* One that has no outcome has not ended. */
static int read_end(const struct guest_reading *r, const struct rpc_value *v, struct attempt *a)
{
	int result = guest_read_members(r, &guest_end_members, v, a);

	if (result == 0)
		result = read_usage(r, v, &a->usage);
	a->is_running = a->outcome == OUTCOME_NONE;
	if (!a->is_running && !u64_known(a->ended_wall_ns))
		a->ended_wall_ns = r->now_wall_ns;
	if (a->is_running)
		a->ended_wall_ns = U64_UNKNOWN;
	return result < 0 || a->is_running ? result : guest_read_lives(r, v, a);
}

static int read_attempt(const struct guest_reading *r, const struct rpc_value *v, struct attempt *a)
{
	const char *job_id = rpc_value_string(rpc_value_get(v, "job_id"));
	int result;

	if (!rpc_value_is_object(v))
		return err_set(r->err, -EINVAL, "'job' is not an object");
	result = guest_read_members(r, &guest_attempt_members, v, a);
	/* As it was told: one that is too long is not cut to the name of another job. */
	if (result == 0 && (!job_id || !job_id_is_valid(job_id)))
		result = err_set(r->err, -EINVAL, "'job_id' of the job cannot be the id of one");
	if (result == 0)
		result = read_sheets(r, rpc_value_get(v, "sheets"), a);
	return result < 0 ? result : read_end(r, v, a);
}

int guest_read(const struct rpc_value *v, uint64_t now_wall_ns, struct attempt *ret,
	       struct err *err)
{
	struct guest_reading r = { .now_wall_ns = now_wall_ns, .err = err };
	int result;

	attempt_init(ret);
	r.arena = &ret->arena;
	result = read_attempt(&r, v, ret);
	if (result < 0)
		attempt_release(ret);
	return result;
}
