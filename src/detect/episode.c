#include "detect/episode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"
#include "detect/host_past.h"

/* ---- names ---- */

static uint64_t hash_text(uint64_t h, const char *text)
{
	return text ? hash_bytes(h, text, strlen(text) + 1) : h;
}

static uint64_t hash_process(enum anomaly_type type, const struct proc_key *key)
{
	static const int kind = OF_PROCESS;
	uint64_t h = hash_bytes(HASH_INIT, &type, sizeof(type));

	h = hash_bytes(h, &kind, sizeof(kind));
	h = hash_bytes(h, &key->pid, sizeof(key->pid));
	return hash_bytes(h, &key->start_ticks, sizeof(key->start_ticks));
}

/* What it is called by: the same whoever looks, and however often the host was booted. */
static uint64_t hash_name(enum anomaly_type type, const struct subject *who, const char *boot_id)
{
	uint64_t h = hash_bytes(HASH_INIT, &type, sizeof(type));

	h = hash_bytes(h, &who->kind, sizeof(who->kind));
	switch (who->kind) {
	case OF_PROCESS:
		h = hash_process(type, &who->key);
		/* A pid alone may be of another job by now. */
		return u64_known(who->key.start_ticks) ? h : hash_text(h, who->job_id);
	case OF_JOB:
		return hash_text(h, who->job_id);
	case OF_CGROUP: /* one job after the other may be in it */
		h = hash_bytes(h, &who->cgroup, sizeof(who->cgroup));
		return hash_text(h, who->job_id);
	case OF_GPU:
		return hash_bytes(hash_text(h, boot_id), &who->gpu, sizeof(who->gpu));
	case OF_HOST:
		break;
	}
	return hash_text(h, boot_id);
}

static uint64_t add_attempt(uint64_t h, int64_t attempt_id)
{
	return hash_bytes(h, &attempt_id, sizeof(attempt_id));
}

/* What tells one from others that run. */
static uint64_t episode_hash(enum anomaly_type type, const struct subject *who, const char *boot_id)
{
	uint64_t h = hash_name(type, who, boot_id);

	if (who->kind == OF_PROCESS && u64_known(who->key.start_ticks))
		return h;
	return add_attempt(h, who->attempt_id);
}

/* By its type, who it is of and when it began. */
static void episode_write_name(struct episode *e, const struct subject *who, const char *boot_id)
{
	const char *type = anomaly_type_name(e->worst.type);
	unsigned long long began = e->began_wall_ns;

	if (who->kind == OF_PROCESS && u64_known(who->key.start_ticks))
		snprintf(e->name, sizeof(e->name), "%s/%d.%llu/%llu", type, (int)who->key.pid,
			 (unsigned long long)who->key.start_ticks, began);
	else
		snprintf(e->name, sizeof(e->name), "%s/%016llx/%llu.%lld", type,
			 (unsigned long long)hash_name(e->worst.type, who, boot_id), began,
			 (long long)who->attempt_id);
}

/* One whose start is unknown is identified by its job as well, and so is one of the whole job. */
static bool episode_is_of_process(const struct episode *e)
{
	const bool has_start = u64_known(e->worst.start_ticks);
	char middle[48];

	snprintf(middle, sizeof(middle), "/%lld.%llu/", (long long)e->worst.pid,
		 (unsigned long long)e->worst.start_ticks);
	return e->worst.has_pid && (!has_start || strstr(e->name, middle) != NULL);
}

bool episode_is_of(const struct episode *e, const char *job_id, int64_t attempt_id)
{
	return e->worst.job_id && job_id && e->attempt_id == attempt_id &&
	       strcmp(e->worst.job_id, job_id) == 0;
}

/* episode_hash() of one that has a name and an attempt. -EINVAL: that is no name of ours. */
static int episode_read_hash(const struct episode *e, uint64_t *ret)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	const char *type = anomaly_type_name(e->worst.type);
	const size_t n = strlen(type);

	/* Any program may have written the row. */
	if (strncmp(e->name, type, n) != 0 || e->name[n] != '/' ||
	    (e->worst.has_pid && (e->worst.pid <= 0 || key.pid != e->worst.pid)))
		return -EINVAL;
	if (episode_is_of_process(e) && u64_known(key.start_ticks)) {
		*ret = hash_process(e->worst.type, &key);
		return 0;
	}
	/* The middle part of the name is the hash, unless it is of a process with a known start. */
	if (strspn(e->name + n + 1, "0123456789abcdef") != 16 || e->name[n + 17] != '/')
		return -EINVAL;
	*ret = add_attempt(strtoull(e->name + n + 1, NULL, 16), e->attempt_id);
	return 0;
}

/* ---- the end ----
 *
 * When it was clear for long enough, with its process or job, or as nothing shows it any more.
 */
#define SILENCE_SECONDS 600 /* after which an episode that cannot be measured any more is over */

/* The one that runs; NULL. */
static struct running *episodes_find(const struct episodes *es, uint64_t hash)
{
	for (size_t i = 0; i < es->n; i++)
		if (es->items[i]->hash == hash && !es->items[i]->is_over)
			return es->items[i];
	return NULL;
}

/* A change of this tick. -ENOMEM. */
static int add_change(struct episodes *es, enum episode_change change, const struct running *r)
{
	if (ARRAY_RESERVE(es->changes, es->cap_changes, es->n_changes + 1) < 0)
		return -ENOMEM;
	es->changes[es->n_changes++] = (struct detect_change){ change, &r->e };
	return 0;
}

/* It was over when it became clear, and not when that had lasted for long enough. */
static bool is_clear(const struct running *r)
{
	return !r->check->is_moment && r->was_clear && f64_known(r->clear_since);
}

/*
 * With its process or job at the latest, whose end may become known after a tick without it. Its
 * numbers are not from after the end: a tick that shows it clear is no part of it.
 */
static void set_end(struct running *r, uint64_t wall_ns)
{
	bool was_before = is_clear(r) && r->clear_wall_ns < wall_ns;

	r->e.ended_wall_ns =
		u64_max_known(was_before ? r->clear_wall_ns : wall_ns, r->e.began_wall_ns);
	if (r->e.seen_wall_ns > r->e.ended_wall_ns && u64_known(r->e.seen_wall_ns))
		r->e.seen_wall_ns = r->e.ended_wall_ns;
}

/* At this time; after: the last value, or NaN. */
static int end_one(struct episodes *es, struct running *r, const struct tick *m, uint64_t wall_ns,
		   double after, const char *why)
{
	const bool is_moment = r->check->is_moment;

	r->is_over = true;
	set_end(r, is_moment ? r->e.over_wall_ns : wall_ns);
	r->e.cleared_wall_ns = is_moment || is_clear(r) ? m->snap->wall_ns : U64_UNKNOWN;
	r->e.after_value = is_clear(r) ? r->clear_value : after;
	r->e.why_cleared = is_moment ? EPISODE_NO_MORE : why;
	es->past[es->next_past] = (struct remembered){ r->hash, m->now, r->hold };
	es->next_past = (es->next_past + 1) % EPISODES_REMEMBERED;
	return add_change(es, EPISODE_CLEARED, r);
}

/* A check found it clear, with this value: it ends where that has lasted. */
static int be_clear(struct episodes *es, struct running *r, const struct tick *m, double value)
{
	if (!f64_known(r->clear_since)) {
		r->clear_since = m->now;
		r->clear_wall_ns = m->snap->wall_ns;
	}
	if (m->now < r->sees_from)
		return 0;
	r->was_clear = true;
	r->clear_value = value;
	if (m->now - r->clear_since < r->hold)
		return 0;
	return end_one(es, r, m, m->snap->wall_ns, value, "it was clear for long enough");
}

int episodes_end(struct episodes *es, const struct tick *m, enum anomaly_type type,
		 const struct subject *who, uint64_t wall_ns)
{
	struct running *r = episodes_find(es, episode_hash(type, who, m->snap->boot_id));

	return r ? end_one(es, r, m, wall_ns, F64_UNKNOWN, EPISODE_PROCESS_ENDED) : 0;
}

static bool is_of_job(const struct running *r, const struct job_track *job)
{
	return !r->is_over && !r->is_of_process &&
	       episode_is_of(&r->e, job->job_id, job->attempt_id);
}

/* What begins or gets worse at a tick does not end at the same. */
int episodes_end_job(struct episodes *es, const struct tick *m, const struct job_track *job)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (is_of_job(r, job) && r->changed == m->now)
			r->is_ending = true;
		else if (is_of_job(r, job))
			ret = end_one(es, r, m, m->snap->wall_ns, F64_UNKNOWN, EPISODE_JOB_ENDED);
	}
	return ret;
}

/* Ends at the time it was last seen: the end itself was not observed. */
static int episodes_end_unseen(struct episodes *es, struct running *r, const struct tick *m,
			       const char *why)
{
	int ret = end_one(es, r, m, episode_last_seen(&r->e), F64_UNKNOWN, why);

	r->e.cleared_wall_ns = m->snap->wall_ns;
	return ret;
}

int episodes_end_all(struct episodes *es, const struct tick *m, const char *why)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (!f64_known(r->noted))
			r->is_over = true; /* nobody has looked at it yet: it is left as it was */
		else if (!r->is_over)
			ret = episodes_end_unseen(es, r, m, why);
	}
	return ret;
}

int episodes_end_tick(struct episodes *es, const struct tick *m)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < es->n; i++) {
		struct running *r = es->items[i];

		if (r->is_ending && r->changed != m->now && !r->is_over)
			ret = end_one(es, r, m, m->snap->wall_ns, F64_UNKNOWN, EPISODE_JOB_ENDED);
		if (r->is_over || r->noted == m->now)
			continue;
		if (r->check->is_moment)
			ret = be_clear(es, r, m, 0);
		else if (m->now - r->noted >= fmax(r->hold, SILENCE_SECONDS))
			ret = episodes_end_unseen(es, r, m, EPISODE_UNMEASURED);
	}
	return ret;
}

/* ---- beginning and going on ---- */

#define HOLD_MAX_SECONDS 3600
#define REMEMBER_HOLDS 10		/* so many times as long as it had to be clear */
#define NS_BEFORE UINT64_C(60000000000) /* of the record that belong to the evidence */

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

/* Else it would read as if it had come so often. */
static void write_more(struct running *r)
{
	char *text = r->e.worst.text;

	text[r->n_own_bytes] = '\0';
	if (r->n_more > 0)
		snprintf(text + r->n_own_bytes, sizeof(r->e.worst.text) - r->n_own_bytes,
			 "; and %llu more process%s of the job", (unsigned long long)r->n_more,
			 r->n_more == 1 ? "" : "es");
}

static void take_worst(struct running *r, const struct tick *m, const struct finding *f)
{
	struct episode *e = &r->e;
	const char *unit = unit_of(r, f);

	/*
	 * In another unit than before the earlier values mean nothing. The threshold is that of
	 * the beginning: later readers see the same as the first.
	 */
	if (!e->unit || strcmp(e->unit, unit) != 0) {
		e->unit = unit;
		e->before_value = f->before;
		e->first_value = f->value;
		e->worst.threshold = f->threshold;
	}
	e->worst.severity = f->severity > e->worst.severity ? f->severity : e->worst.severity;
	e->worst.metric_value = f->value;
	snprintf(e->worst.text, sizeof(e->worst.text), "%s", f->text);
	r->n_own_bytes = strlen(e->worst.text);
	write_more(r);
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

static uint64_t times(const struct finding *f)
{
	return f->n_times > 0 ? f->n_times : 1;
}

static int begin(struct episodes *es, const struct tick *m, const struct check *check,
		 const struct subject *who, uint64_t hash, const struct finding *f)
{
	struct running *r;
	struct episode *e;

	if (es->n == EPISODES_MAX) {
		es->n_dropped++;
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	episode_init(&r->e);
	r->check = check;
	r->hash = hash;
	/* How long it has to be clear: the longer, the more often it has come back. */
	r->hold = m->config->clear_seconds;
	for (size_t i = 0; i < EPISODES_REMEMBERED; i++) {
		const struct remembered *past = &es->past[i];

		if (past->hash == hash && past->hold > 0 &&
		    m->now - past->ended < fmax(REMEMBER_HOLDS * past->hold, SILENCE_SECONDS))
			r->hold = fmax(r->hold, fmin(past->hold * 2, HOLD_MAX_SECONDS));
	}
	r->clear_since = F64_UNKNOWN;
	r->is_of_process = who->kind == OF_PROCESS;
	r->sees_from = r->noted = r->changed = m->now;
	r->e.seen_wall_ns = r->e.over_wall_ns = m->snap->wall_ns;
	e = &r->e;
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
	e->full_from_wall_ns = e->began_wall_ns > NS_BEFORE ? e->began_wall_ns - NS_BEFORE : 0;
	e->full_until_wall_ns =
		u64_add(e->began_wall_ns, (uint64_t)(m->config->evidence_duration_seconds * 1e9));
	episode_write_name(e, who, m->snap->boot_id);
	/* Once for all that begin at a tick: it takes as long as there are processes. */
	if (!es->has_host)
		detect_describe_host(m->snap, &es->host);
	es->has_host = true;
	e->host = es->host;
	e->count = times(f);
	take_worst(r, m, f);
	es->items[es->n++] = r;
	return add_change(es, EPISODE_BEGAN, r);
}

static int go_on(struct episodes *es, struct running *r, const struct tick *m,
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
	r->changed = m->now;
	return add_change(es, EPISODE_ESCALATED, r);
}

/* ---- too many of one job ---- */

/* One that is worse than all others always has an episode of its own. */
static bool is_burst(struct burst *burst, enum severity severity, double now)
{
	if (!burst)
		return false;
	if (burst->n == 0 || now - burst->since >= EPISODES_PER_SECONDS)
		*burst = (struct burst){ .since = now };
	if (++burst->n > EPISODES_PER_JOB && severity <= burst->worst)
		return true;
	if (severity > burst->worst)
		burst->worst = severity;
	return false;
}

/* by: 1 to count one more with the last episode of the job, -1 to take it back. False: no episode.
 */
static bool count_with_last(struct episodes *es, enum anomaly_type type, const struct subject *who,
			    int by)
{
	for (size_t i = es->n; i > 0; i--) {
		struct running *r = es->items[i - 1];

		if (r->e.worst.type != type ||
		    !episode_is_of(&r->e, who->job_id, who->attempt_id) ||
		    (by < 0 && r->n_more == 0))
			continue;
		r->e.count += (uint64_t)by;
		r->n_more += (uint64_t)by;
		write_more(r);
		return true;
	}
	return false;
}

void episodes_take_back(struct episodes *es, enum anomaly_type type, const struct subject *who)
{
	count_with_last(es, type, who, -1);
}

/* ---- from outside ---- */

int episodes_note(struct episodes *es, const struct tick *m, const struct check *check,
		  const struct subject *who, const struct finding *f, struct burst *burst,
		  bool *ret_muted)
{
	uint64_t hash = episode_hash(check->type, who, m->snap->boot_id);
	struct running *r = episodes_find(es, hash);
	bool is_muted = false;
	int ret = 0;

	if (r)
		r->check = check; /* of what was adopted only the type is known until now */
	if (r && f->stand != STAND_UNKNOWN) {
		r->noted = m->now;
		r->e.seen_wall_ns = m->snap->wall_ns;
	}
	if (!r && f->stand == STAND_OVER && !f->is_no_other) {
		is_muted = is_burst(burst, f->severity, m->now);
		if (is_muted && !check->is_moment)
			es->n_dropped += !count_with_last(es, check->type, who, 1);
		else if (!is_muted)
			ret = begin(es, m, check, who, hash, f);
	} else if (r && f->stand == STAND_OVER) {
		ret = go_on(es, r, m, f);
	} else if (r && f->stand == STAND_CLEAR) {
		ret = be_clear(es, r, m, value_in_unit(r, f));
	} else if (r && !(check->is_moment && f->stand == STAND_UNKNOWN)) {
		r->clear_since = F64_UNKNOWN; /* nobody knows that it was clear without a break */
	}
	if (ret_muted)
		*ret_muted = is_muted;
	return ret < 0 ? ret : episodes_find(es, hash) != NULL;
}

const struct episode *episodes_last(const struct episodes *es, const struct tick *m,
				    enum anomaly_type type, const struct subject *who)
{
	const struct running *r = episodes_find(es, episode_hash(type, who, m->snap->boot_id));

	return r ? &r->e : NULL;
}

bool episodes_would_begin(const struct episodes *es, const struct tick *m, enum anomaly_type type,
			  const struct subject *who)
{
	return es->n < EPISODES_MAX && !episodes_last(es, m, type, who);
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

void episodes_release(struct episodes *es)
{
	for (size_t i = 0; i < es->n; i++)
		free(es->items[i]);
	free(es->changes);
	*es = (struct episodes){ 0 };
}

/*
 * episode_adopt - what another has begun, and who looks now goes on with.
 *
 * The checks of who takes over begin anew: they know nothing of what was so before. So what they
 * call clear counts only when they have looked for long enough (checks.h: sees_after), and what is
 * over again until then is what it was. How long a process was stuck goes on, if it still is.
 */
/* As long as a process may be missing in what a tick shows; and the job's in the first ones. */
#define ADOPT_LOOKS 3

/* ---- adopting ---- */

/* The same runs here already. */
static void join(struct running *r, const struct episode *e, const char *unit)
{
	/* Where the other has seen worse, or saw it come more often. */
	r->e.count = e->count > r->e.count ? e->count : r->e.count;
	if (episode_is_worse(e, &r->e)) {
		r->e.worst.severity = e->worst.severity;
		r->e.worst.metric_value = e->worst.metric_value;
		memcpy(r->e.worst.text, e->worst.text, sizeof(r->e.worst.text));
		r->n_own_bytes = strlen(r->e.worst.text);
		r->e.unit = unit;
		r->e.peak_value = e->peak_value;
		r->e.peak_wall_ns = e->peak_wall_ns;
	}
	/* One that began here later, under another name, becomes the other. */
	if (r->e.began_wall_ns > e->began_wall_ns) {
		memcpy(r->e.name, e->name, sizeof(r->e.name));
		r->e.is_adopted = true;
		r->e.began_wall_ns = e->began_wall_ns;
		r->e.worst.timestamp = e->worst.timestamp;
		r->e.before_value = e->before_value;
		r->e.first_value = e->first_value;
	}
}

int episodes_adopt(struct episodes *es, const struct config_anomaly *config,
		   const struct episode *e)
{
	const char *unit = checks_unit(e->unit);
	struct running *r;
	uint64_t hash;

	if (!unit || u64_known(e->ended_wall_ns) || episode_read_hash(e, &hash) < 0)
		return -EINVAL;
	r = episodes_find(es, hash);
	if (r) {
		join(r, e, unit);
		return 0;
	}
	if (!checks_of_type(e->worst.type))
		return -EINVAL;
	if (es->n == EPISODES_MAX)
		return -ENOSPC;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	/* What it borrows is ours afterwards, or left in the record. */
	episode_copy(&r->e, e);
	r->n_own_bytes = strlen(r->e.worst.text);
	r->e.is_adopted = true;
	r->e.unit = unit;
	r->e.why_cleared = NULL;
	r->e.evidence = NULL;
	r->e.host_json = r->e.evidence_json = NULL;
	if (e->host_json)
		anomaly_host_read_json(e->host_json, &r->e.host); /* or all of it is unknown */
	r->check = checks_of_type(e->worst.type);
	r->hash = hash;
	r->hold = config->clear_seconds;
	r->e.over_wall_ns = e->peak_wall_ns;
	r->is_of_process = episode_is_of_process(e);
	r->clear_since = r->noted = r->changed = F64_UNKNOWN;
	r->is_unmet = true;
	es->items[es->n++] = r;
	return 0;
}

/* ---- meeting it ---- */

/* What nobody has looked at for longer may have been otherwise in between. */
#define PAST_SECONDS 60

/*
 * Since when it was stuck, which who takes over has not seen; NaN: it was not when it was last
 * seen, or nobody knows. For what, its threshold tells.
 */
static void remember_stuck(const struct running *r, const struct tick *m, struct track *p)
{
	const struct config_anomaly *c = m->config;
	const struct episode *e = &r->e;
	double ago = u64_to_seconds(u64_delta(m->snap->wall_ns, e->peak_wall_ns));
	double since = m->now - ago - e->peak_value;

	if (e->worst.type != ANOMALY_STUCK_PROCESS || !(ago <= PAST_SECONDS) ||
	    !(since >= 0 && since <= m->now))
		return;
	if (e->worst.threshold == c->stuck_duration_seconds)
		p->still_since = since;
	if ((p->state == 'T' && e->worst.threshold == c->stuck_duration_seconds) ||
	    (p->state == 'D' && e->worst.threshold == c->io_stall_duration_seconds))
		p->in_state_since = since;
}

/* 1: it is there. 0: it is not. -ENOMEM. */
static int meet(struct running *r, const struct tick *m, struct tracks *ts)
{
	const struct episode *e = &r->e;
	const struct subject host = { .kind = e->gpu >= 0 ? OF_GPU : OF_HOST, .gpu = e->gpu };
	struct job_track *job;

	if (r->check->is_moment)
		return 1; /* it is clear from now on */
	if (r->is_of_process) {
		struct track *p = detect_tracks_by_pid(ts, (pid_t)e->worst.pid);

		/* The process may not be shown yet; one that has its pid is another. */
		if (!p || p->key.start_ticks != e->worst.start_ticks)
			return 0;
		p->active |= 1u << e->worst.type;
		remember_stuck(r, m, p);
		return 1;
	}
	if (e->worst.job_id) {
		/* Of the job itself, or of one of its cgroups, which are always evaluated. */
		if (detect_tracks_job(ts, e->worst.job_id, e->attempt_id, &job) < 0)
			return -ENOMEM;
		job->active |= 1u << e->worst.type;
		return 1;
	}
	/* By the boot in its name: how long it lasted in an earlier boot is unknown. */
	if (episode_hash(e->worst.type, &host, m->snap->boot_id) == r->hash)
		return 1;
	/* Of a cgroup without a job: by its path in its name. */
	for (size_t i = 0; i < m->snap->n_cgroups; i++) {
		const struct subject who = {
			.kind = OF_CGROUP,
			.cgroup = host_past_hash_path(m->snap->cgroups[i].path),
		};

		if (episode_hash(e->worst.type, &who, m->snap->boot_id) == r->hash)
			return 1;
	}
	return 0;
}

int episodes_meet(struct episodes *es, const struct tick *m, struct tracks *ts)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < es->n; i++) {
		struct running *r = es->items[i];
		/* A trend takes its time to be seen. That so many files are open does not. */
		bool is_seen_at_once = r->e.worst.type == ANOMALY_FD_EXHAUSTION &&
				       r->e.peak_value >= r->e.worst.threshold;

		if (!r->is_unmet || r->is_over)
			continue;
		if (!f64_known(r->noted)) {
			r->sees_from = m->now;
			if (r->check->sees_after && !is_seen_at_once)
				r->sees_from += *(const double *)((const char *)m->config +
								  r->check->sees_after);
		}
		r->noted = m->now;
		ret = meet(r, m, ts);
		r->is_unmet = ret <= 0;
		if (ret == 0 && (!r->is_of_process || ++r->n_missed >= ADOPT_LOOKS))
			ret = episodes_end_unseen(
				es, r, m, r->is_of_process ? EPISODE_ENDED_UNSEEN : EPISODE_UNSEEN);
	}
	return ret < 0 ? ret : 0;
}
