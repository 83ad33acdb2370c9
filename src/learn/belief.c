#include "learn/belief.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/belief_judge.h"
#include "learn/belief_note.h"
#include "learn/unit.h"

const char *belief_state(const struct pattern *p)
{
	if (u64_known(p->retired_wall_ns))
		return "retired";
	if (strcmp(p->type, PATTERN_ANOMALY) == 0)
		return "anomaly";
	if (u64_known(p->lapsed_wall_ns) && !u64_known(p->confirmed_wall_ns))
		return "lapsed";
	return p->grade ? p->grade : "correlation";
}

int beliefs_update(struct pattern_list *patterns, const struct analysis *found,
		   const struct run_record *runs, size_t n_runs, uint64_t now_wall_ns)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	size_t n_units, n_retries, n_undecided;
	int r = units_list(runs, n_runs, &units, &n_units, &n_retries, &n_undecided);

	for (size_t i = 0; r == 0 && i < patterns->n; i++) {
		struct pattern *p = &patterns->items[i];

		if (p->grade && !u64_known(p->retired_wall_ns))
			r = belief_judge(p, units, n_units, now_wall_ns, &patterns->arena);
	}
	return r < 0 ? r : belief_note(patterns, found, units, n_units, now_wall_ns);
}

/* ---- correlations ---- */

static struct pattern *find_correlation(struct pattern_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i].type, PATTERN_CORRELATION) == 0 &&
		    strcmp(list->items[i].name, name) == 0)
			return &list->items[i];
	return NULL;
}

static const char *join_tags(const struct compat_result *result, struct arena *arena)
{
	CLEANUP(buf_release) struct buf tags = BUF_INIT;

	for (size_t i = 0; i < COMPAT_TAGS; i++)
		buf_printf(&tags, "%s%s", i ? "\n" : "", result->tags[i]);
	return buf_error(&tags) < 0 ? NULL : arena_strndup(arena, tags.data, tags.len);
}

static int note_correlation(struct pattern_list *list, const struct compat_result *result,
			    uint64_t now)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT;
	struct pattern *p;

	buf_printf(&name, "%s %s", result->type, result->tags[0]);
	if (buf_error(&name) < 0)
		return -ENOMEM;
	p = find_correlation(list, name.data);
	if (!p) {
		p = pattern_list_add(list);
		if (!p)
			return -ENOMEM;
		p->type = PATTERN_CORRELATION;
		p->name = arena_strndup(&list->arena, name.data, name.len);
		p->first_wall_ns = now;
	}
	p->tags = join_tags(result, &list->arena);
	p->confidence = result->confidence;
	p->n_jobs = result->n_jobs;
	p->occurrences++;
	p->last_wall_ns = now;
	return p->name && p->tags ? 0 : -ENOMEM;
}

int beliefs_note_compat(struct pattern_list *patterns, const struct compat *compat,
			uint64_t now_wall_ns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < compat->n; i++)
		if (compat->results[i].is_stored)
			r = note_correlation(patterns, &compat->results[i], now_wall_ns);
	return r;
}

/* ---- JSON ---- */

static void key_time(struct json *j, const char *key, uint64_t wall_ns)
{
	json_key_f64(j, key, u64_to_seconds(wall_ns));
}

/* Lines, as a list. */
static void write_lines(struct json *j, const char *key, const char *tags)
{
	json_key(j, key);
	json_begin_array(j);
	while (tags && *tags) {
		size_t len = strcspn(tags, "\n");

		json_str_n(j, tags, len);
		tags += len + (tags[len] == '\n');
	}
	json_end_array(j);
}

static void write_rule(struct json *j, const struct pattern *p)
{
	json_key_string(j, "grade", p->grade);
	json_key_string(j, "class", p->label);
	json_key_string(j, "feature", p->feature);
	json_key_string(j, "direction", p->is_above ? "above" : "at most");
	json_key_f64(j, "threshold", p->threshold);
	json_key_f64(j, "p_adjusted", p->p);
	json_key_f64(j, "predicted_inside", p->rate_in);
	json_key_f64(j, "predicted_others", p->rate_out);
	json_key_f64(j, "base_rate", p->base_rate);
	json_key_u64(j, "later_runs", p->n_later);
	json_key_u64(j, "later_failures", p->n_later_failed);
	json_key_f64(j, "later_p", p->later_p);
	json_key_f64(j, "brier", p->brier);
	json_key_f64(j, "brier_base_rate", p->brier_base);
	key_time(j, "confirmed", p->confirmed_wall_ns);
	key_time(j, "lapsed", p->lapsed_wall_ns);
	key_time(j, "retired", p->retired_wall_ns);
	json_key_string(j, "retired_why", p->retired_why);
}

void belief_write_json(struct json *j, const struct pattern *p)
{
	json_begin_object(j);
	json_key_string(j, "type", p->type);
	json_key_string(j, "name", p->name);
	json_key_string(j, "state", belief_state(p));
	json_key_string(j, "description", p->description);
	json_key_u64(j, "runs", p->n_jobs);
	json_key_u64(j, "occurrences", p->occurrences);
	key_time(j, "since", p->first_wall_ns);
	key_time(j, "last_seen", p->last_wall_ns);
	if (p->grade) {
		write_rule(j, p);
	} else {
		json_key_f64(j, "confidence", p->confidence);
		write_lines(j, "context_tags", p->tags);
	}
	if (strcmp(p->type, PATTERN_ANOMALY) == 0)
		write_lines(j, "jobs", p->jobs);
	json_end_object(j);
}
