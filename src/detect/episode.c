#include "detect/episode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/context.h"
#include "detect/running.h"

#define HOLD_MAX_SECONDS 3600
#define REMEMBER_HOLDS 10 /* so many times as long as it had to be clear */
#define SECONDS_BEFORE 60 /* of the record that belong to the evidence */

struct running *episodes_find(struct episodes *es, uint64_t hash)
{
	for (size_t i = 0; i < es->n; i++)
		if (es->items[i]->hash == hash && !es->items[i]->is_over)
			return es->items[i];
	return NULL;
}

/* ---- telling ---- */

int episodes_tell(struct episodes *es, enum episode_change change, const struct running *r)
{
	struct changed *grown = es->changes;

	if (es->n_changes == es->cap_changes) {
		size_t cap = es->cap_changes ? es->cap_changes * 2 : 16;

		grown = reallocarray(es->changes, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		es->changes = grown;
		es->cap_changes = cap;
	}
	grown[es->n_changes++] = (struct changed){ change, &r->e };
	return 0;
}

/* ---- the past ---- */

/* How long it has to be clear: the longer, the more often it has come back. */
static double hold_for(const struct episodes *es, const struct moment *m, uint64_t hash)
{
	double hold = m->config->clear_seconds;

	for (size_t i = 0; i < EPISODES_REMEMBERED; i++) {
		const struct remembered *past = &es->past[i];

		if (past->hash == hash && past->hold > 0 &&
		    m->now - past->ended <
			    fmax(REMEMBER_HOLDS * past->hold, EPISODES_SILENCE_SECONDS))
			hold = fmax(hold, fmin(past->hold * 2, HOLD_MAX_SECONDS));
	}
	return hold;
}

/* ---- an episode ---- */

static const char *unit_of(const struct running *r, const struct finding *f)
{
	return f->unit ? f->unit : r->check->unit;
}

/* In the unit of the episode; NaN. */
static double value_in_unit(const struct running *r, const struct finding *f)
{
	if (strcmp(unit_of(r, f), r->e.unit) == 0)
		return f->value;
	return f->other_unit && strcmp(f->other_unit, r->e.unit) == 0 ? f->other_value
								      : F64_UNKNOWN;
}

/*
 * In another unit than before the values of before say nothing. The threshold is that of the
 * beginning: who is told of it later reads the same as who was told then.
 */
static void take_unit(struct running *r, const struct finding *f)
{
	const char *unit = unit_of(r, f);

	if (r->e.unit && strcmp(r->e.unit, unit) == 0)
		return;
	r->e.unit = unit;
	r->e.before_value = f->before;
	r->e.first_value = f->value;
	r->e.worst.threshold = f->threshold;
}

/* Else it would read as if it had come so often. */
static void tell_more(struct running *r)
{
	char *text = r->e.worst.text;

	text[r->n_own_bytes] = '\0';
	if (r->n_more > 0)
		snprintf(text + r->n_own_bytes, sizeof(r->e.worst.text) - r->n_own_bytes,
			 "; and %llu more process%s of the job", (unsigned long long)r->n_more,
			 r->n_more == 1 ? "" : "es");
}

static void take_worst(struct running *r, const struct moment *m, const struct finding *f)
{
	struct episode *e = &r->e;

	take_unit(r, f);
	e->worst.severity = f->severity > e->worst.severity ? f->severity : e->worst.severity;
	e->worst.metric_value = f->value;
	snprintf(e->worst.text, sizeof(e->worst.text), "%s", f->text);
	r->n_own_bytes = strlen(e->worst.text);
	tell_more(r);
	e->peak_value = f->value;
	e->peak_wall_ns = m->snap->wall_ns;
	e->seconds_to_limit = f->seconds_to_limit;
}

static bool is_worse(const struct running *r, const struct finding *f)
{
	if (f->severity != r->e.worst.severity)
		return f->severity > r->e.worst.severity;
	if (strcmp(unit_of(r, f), r->e.unit) != 0)
		return false;
	return r->check->lower_is_worse && !f->unit ? f->value < r->e.peak_value
						    : f->value > r->e.peak_value;
}

/* seconds: at most those of a configuration. */
static uint64_t seconds_before(uint64_t wall_ns, double seconds)
{
	uint64_t ns = (uint64_t)(seconds * 1e9);

	return wall_ns > ns ? wall_ns - ns : 0;
}

static void describe(struct running *r, const struct moment *m, const struct subject *who)
{
	struct episode *e = &r->e;

	e->worst.type = r->check->type;
	e->worst.timestamp = u64_to_seconds(m->snap->wall_ns);
	e->worst.has_pid = r->is_of_process || who->key.pid > 0;
	e->worst.pid = who->key.pid;
	e->worst.start_ticks = e->worst.has_pid ? who->key.start_ticks : U64_UNKNOWN;
	e->worst.sheet_num = who->sheet_num;
	episode_set_job(e, who->job_id);
	e->attempt_id = who->attempt_id;
	snprintf(e->comm, sizeof(e->comm), "%s", who->comm ? who->comm : "");
	e->gpu = who->kind == OF_GPU ? who->gpu : -1;
	e->began_wall_ns = m->snap->wall_ns;
	e->full_from_wall_ns = seconds_before(e->began_wall_ns, SECONDS_BEFORE);
	e->full_until_wall_ns =
		u64_add(e->began_wall_ns, (uint64_t)(m->config->evidence_duration_seconds * 1e9));
	episode_write_name(e, who, m->snap->boot_id);
}

/* Once for all that begin at a tick: it takes as long as there are processes. */
static const struct anomaly_host *find_host(struct episodes *es, const struct snapshot *snap)
{
	if (!es->has_host)
		context_describe(snap, &es->host);
	es->has_host = true;
	return &es->host;
}

static uint64_t times(const struct finding *f)
{
	return f->n_times > 0 ? f->n_times : 1;
}

static int begin(struct episodes *es, const struct moment *m, const struct check *check,
		 const struct subject *who, uint64_t hash, const struct finding *f)
{
	struct subject blamed = *who;
	struct running *r;

	if (es->n == EPISODES_MAX) {
		es->n_untold++;
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	episode_init(&r->e);
	r->check = check;
	r->hash = hash;
	r->hold = hold_for(es, m, hash);
	r->clear_since = F64_UNKNOWN;
	r->is_of_process = who->kind == OF_PROCESS;
	r->sees_from = r->noted = r->told = m->now;
	r->e.seen_wall_ns = r->e.over_wall_ns = m->snap->wall_ns;
	if (who->blame)
		who->blame(who->blame_ctx, &blamed);
	describe(r, m, &blamed);
	r->e.host = *find_host(es, m->snap);
	r->e.count = times(f);
	take_worst(r, m, f);
	es->items[es->n++] = r;
	return episodes_tell(es, EPISODE_BEGAN, r);
}

static int go_on(struct episodes *es, struct running *r, const struct moment *m,
		 const struct finding *f)
{
	enum severity before = r->e.worst.severity;

	if (!f->is_no_other && (r->was_clear || r->check->is_moment))
		r->e.count += times(f);
	r->was_clear = false;
	r->clear_since = F64_UNKNOWN;
	r->e.over_wall_ns = m->snap->wall_ns;
	if (is_worse(r, f))
		take_worst(r, m, f);
	if (r->e.worst.severity <= before)
		return 0;
	r->told = m->now;
	return episodes_tell(es, EPISODE_ESCALATED, r);
}

/* ---- too many of one job ---- */

/* One that is worse than all others is always told. */
static bool has_told_enough(struct told *told, enum severity severity, double now)
{
	if (!told)
		return false;
	if (told->n == 0 || now - told->since >= EPISODES_PER_SECONDS)
		*told = (struct told){ .since = now };
	if (++told->n > EPISODES_PER_JOB && severity <= told->worst)
		return true;
	if (severity > told->worst)
		told->worst = severity;
	return false;
}

static void count_with_last(struct episodes *es, enum anomaly_type type, const struct subject *who)
{
	for (size_t i = es->n; i > 0; i--) {
		struct running *r = es->items[i - 1];

		if (r->e.worst.type == type && episode_is_of(&r->e, who->job_id, who->attempt_id)) {
			r->e.count++;
			r->n_more++;
			tell_more(r);
			return;
		}
	}
	es->n_untold++;
}

void episodes_take_back(struct episodes *es, enum anomaly_type type, const struct subject *who)
{
	for (size_t i = es->n; i > 0; i--) {
		struct running *r = es->items[i - 1];

		if (r->n_more > 0 && r->e.worst.type == type &&
		    episode_is_of(&r->e, who->job_id, who->attempt_id)) {
			r->e.count--;
			r->n_more--;
			tell_more(r);
			return;
		}
	}
}

/* ---- from outside ---- */

int episodes_note(struct episodes *es, const struct moment *m, const struct check *check,
		  const struct subject *who, const struct finding *f, struct told *told,
		  bool *ret_muted)
{
	uint64_t hash = episode_hash(check->type, who, m->snap->boot_id);
	struct running *r = episodes_find(es, hash);
	int ret = 0;

	*ret_muted = false;
	if (r)
		r->check = check; /* of what was adopted only the type is known until now */
	if (r && f->stand != STAND_UNKNOWN) {
		r->noted = m->now;
		r->e.seen_wall_ns = m->snap->wall_ns;
	}
	if (!r && f->stand == STAND_OVER && !f->is_no_other) {
		*ret_muted = has_told_enough(told, f->severity, m->now);
		if (*ret_muted && !check->is_moment)
			count_with_last(es, check->type, who);
		else if (!*ret_muted)
			ret = begin(es, m, check, who, hash, f);
	} else if (r && f->stand == STAND_OVER) {
		ret = go_on(es, r, m, f);
	} else if (r && f->stand == STAND_CLEAR) {
		ret = episodes_be_clear(es, r, m, value_in_unit(r, f));
	} else if (r && !(check->is_moment && f->stand == STAND_UNKNOWN)) {
		r->clear_since = F64_UNKNOWN; /* nobody knows that it was clear without a break */
	}
	if (ret < 0)
		return ret;
	r = episodes_find(es, hash);
	return r != NULL;
}

bool episodes_last(struct episodes *es, const struct moment *m, enum anomaly_type type,
		   const struct subject *who)
{
	return episodes_find(es, episode_hash(type, who, m->snap->boot_id)) != NULL;
}

double episodes_peak(struct episodes *es, const struct moment *m, enum anomaly_type type,
		     const struct subject *who)
{
	const struct running *r = episodes_find(es, episode_hash(type, who, m->snap->boot_id));

	return r ? r->e.peak_value : 0;
}

void episodes_drop_host(struct episodes *es)
{
	for (size_t i = 0; i < es->n; i++)
		es->items[i]->is_over |= !es->items[i]->e.worst.job_id;
}

void episodes_begin_tick(struct episodes *es)
{
	size_t n = 0;

	for (size_t i = 0; i < es->n; i++) {
		if (es->items[i]->is_over)
			free(es->items[i]);
		else
			es->items[n++] = es->items[i];
	}
	es->n = n;
	es->n_changes = 0;
	es->has_host = false;
}

bool episodes_have_process(const struct episodes *es, pid_t pid)
{
	for (size_t i = 0; i < es->n; i++)
		if (!es->items[i]->is_over && es->items[i]->is_of_process &&
		    es->items[i]->e.worst.pid == pid)
			return true;
	return false;
}

const struct episode *episodes_at(const struct episodes *es, size_t i)
{
	for (size_t k = 0; k < es->n; k++)
		if (!es->items[k]->is_over && i-- == 0)
			return &es->items[k]->e;
	return NULL;
}

void episodes_release(struct episodes *es)
{
	for (size_t i = 0; i < es->n; i++)
		free(es->items[i]);
	free(es->changes);
	*es = (struct episodes){ 0 };
}
