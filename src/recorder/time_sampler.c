#include "recorder/time_sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"

#define WHOLE 0.99   /* of its life is all of it, */
#define LATE_NS 50e6 /* or without its first moments, before it is followed */
#define MAX_PROCESSES 20000
#define MAX_THREADS 64 /* of one process that are looked at */
/* Of all, as each costs some 10 us: each look goes on where the one before stopped. A process that
 * it does not reach is divided by its other looks. */
#define MAX_THREADS_A_LOOK 64

/* One that is always found ready has only waited for a CPU: of looks at one that waits half of the
 * time for something else so many find it so once in thirty. */
#define ALWAYS_READY 5

struct timed_process {
	struct proc_key key;
	uint64_t boot_ns; /* of the last look */
	uint64_t cpu_ns, user_ns, system_ns;
	uint64_t cpu_wait_ns; /* U64_UNKNOWN */
	uint64_t n_threads;
	unsigned waiting[N_TIME_CATEGORIES];   /* threads, at the last look */
	uint64_t on_cpu_ns, cpu_waited_ns;     /* what was added up so far */
	uint64_t waited_ns[N_TIME_CATEGORIES]; /* by what was seen at the two ends */
	uint64_t unseen_ns;		       /* of intervals at whose ends nothing was seen */
	unsigned n_ready;		       /* looks that found it on a CPU, or ready */
};

void time_sampler_release(struct time_sampler *s)
{
	free(s->items);
	map_release(&s->by_key);
	*s = (struct time_sampler){ 0 };
}

static uint64_t hash_key(const struct proc_key *key)
{
	const uint64_t parts[] = { (uint64_t)key->pid, key->start_ticks };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

static struct timed_process *find(const struct time_sampler *s, const struct proc_key *key)
{
	uint64_t at;

	if (!map_get(&s->by_key, hash_key(key), &at) || !proc_key_is(&s->items[at].key, key))
		return NULL;
	return &s->items[at];
}

/* From its start on, with one thread that had used nothing. NULL: there is no room. */
static struct timed_process *begin(struct time_sampler *s, const struct proc_sample *p)
{
	const double age = f64_known(p->age_seconds) && p->age_seconds > 0 ? p->age_seconds : 0;
	const uint64_t age_ns = (uint64_t)(age * 1e9);
	struct timed_process *t;

	if (s->n == MAX_PROCESSES || ARRAY_RESERVE(s->items, s->cap, s->n + 1) < 0 ||
	    map_put(&s->by_key, hash_key(&p->key), s->n) < 0)
		return NULL;
	t = &s->items[s->n++];
	*t = (struct timed_process){
		.key = p->key,
		.boot_ns = p->boot_ns > age_ns ? p->boot_ns - age_ns : p->boot_ns,
		.n_threads = 1,
	};
	return t;
}

static uint64_t at_most(uint64_t ns, uint64_t most)
{
	return ns < most ? ns : most;
}

static void add_interval(struct timed_process *t, uint64_t life_ns, uint64_t cpu_ns,
			 uint64_t cpu_wait_ns, const unsigned seen[N_TIME_CATEGORIES])
{
	unsigned weights[N_TIME_CATEGORIES], n = 0;
	uint64_t rest_ns;

	cpu_ns = at_most(cpu_ns, life_ns);
	cpu_wait_ns = at_most(cpu_wait_ns, life_ns - cpu_ns);
	rest_ns = life_ns - cpu_ns - cpu_wait_ns;
	t->on_cpu_ns += cpu_ns;
	t->cpu_waited_ns += cpu_wait_ns;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++) {
		weights[i] = t->waiting[i] + (seen ? seen[i] : 0);
		n += weights[i];
	}
	if (n == 0)
		t->unseen_ns += rest_ns;
	for (size_t i = 0; n > 0 && i < N_TIME_CATEGORIES; i++) {
		const uint64_t part_ns = rest_ns / n * weights[i];

		t->waited_ns[i] += part_ns;
		rest_ns -= part_ns;
		n -= weights[i];
		if (n == 0)
			break;
	}
}

/* Whether none of its threads can have run since. */
static bool is_at_rest(const struct timed_process *t, const struct proc_sample *p)
{
	return t->on_cpu_ns + t->cpu_waited_ns > 0 && t->cpu_ns == p->cpu_ns && p->threads == 1 &&
	       t->n_threads == 1 && t->cpu_wait_ns == p->cpu_wait_ns && u64_known(p->cpu_wait_ns) &&
	       p->state != 'R';
}

static void look_at(struct timed_process *t, int root_fd, const struct proc_sample *p,
		    unsigned *room)
{
	const uint64_t threads = u64_known(p->threads) && p->threads > 0 ? p->threads : 1;
	const unsigned max = *room < MAX_THREADS ? *room : MAX_THREADS;
	unsigned seen[N_TIME_CATEGORIES] = { 0 };
	uint64_t cpu_wait_ns = p->cpu_wait_ns, waited_ns, elapsed_ns;
	struct wait_counts counts = { 0 };

	if (is_at_rest(t, p))
		memcpy(seen, t->waiting, sizeof(seen));
	else if ((threads > 1 || p->state != 'R') && max > 0 &&
		 sources_count_waits(root_fd, &p->key, max, &counts)) {
		*room -= counts.n_threads;
		for (enum wait_kind kind = 0; kind < N_WAIT_KINDS; kind++) {
			const enum time_category c = wait_kind_category(kind);

			if (c != TIME_USER && c < N_TIME_CATEGORIES)
				seen[c] += counts.n[kind];
		}
		if (!u64_known(cpu_wait_ns) && counts.n_threads >= threads)
			cpu_wait_ns = counts.cpu_wait_ns;
	}
	elapsed_ns = u64_delta(p->boot_ns, t->boot_ns);
	if (!u64_known(elapsed_ns))
		return;
	waited_ns = u64_delta(cpu_wait_ns, t->cpu_wait_ns); /* a thread may have ended */
	add_interval(t, elapsed_ns * (t->n_threads + threads) / 2,
		     u64_known(p->cpu_ns) && p->cpu_ns > t->cpu_ns ? p->cpu_ns - t->cpu_ns : 0,
		     u64_known(waited_ns) ? waited_ns : 0, seen);
	memcpy(t->waiting, seen, sizeof(seen));
	t->n_ready += threads == 1 && p->state == 'R';
	t->boot_ns = p->boot_ns;
	t->n_threads = threads;
	t->cpu_wait_ns = cpu_wait_ns;
	if (u64_known(p->cpu_ns))
		t->cpu_ns = p->cpu_ns;
	if (u64_known(p->user_ns) && u64_known(p->system_ns)) {
		t->user_ns = p->user_ns;
		t->system_ns = p->system_ns;
	}
}

void time_sampler_add(struct time_sampler *s, int root_fd, const struct snapshot *snap)
{
	const size_t n = snap->n_processes, first = n > 0 ? s->n_looked_at % n : 0;
	unsigned room = MAX_THREADS_A_LOOK;

	for (size_t i = 0; i < n; i++) {
		const struct proc_sample *p = &snap->processes[(first + i) % n];
		struct timed_process *t;

		s->n_looked_at += room > 0;
		if (!p->job_id || p->state == 'Z' || p->state == 'X')
			continue;
		t = find(s, &p->key);
		if (!t)
			t = begin(s, p);
		if (t)
			look_at(t, root_fd, p, &room);
	}
}

/* ---- the end ---- */

/* CPU time by where clock ticks fell. */
static void split_cpu(uint64_t cpu_ns, uint64_t user_ns, uint64_t system_ns, struct time_ledger *l)
{
	const uint64_t sum_ns = u64_add(user_ns, system_ns);
	const bool is_known = u64_known(sum_ns) && sum_ns > 0;

	l->ns[TIME_SYSTEM] =
		is_known ? (uint64_t)((double)cpu_ns * ((double)system_ns / (double)sum_ns)) : 0;
	l->ns[TIME_USER] = cpu_ns - at_most(l->ns[TIME_SYSTEM], cpu_ns);
}

void time_sampler_get(const struct time_sampler *s, const struct proc_record *p,
		      uint64_t begun_wall_ns, uint64_t begun_boot_ns, struct time_ledger *ret)
{
	const struct timed_process *found = find(s, &p->key);
	const uint64_t cpu_ns = u64_add(p->user_ns, p->system_ns);
	const uint64_t died_boot_ns = u64_known(p->died_wall_ns) && p->died_wall_ns >= begun_wall_ns
					      ? p->died_wall_ns - begun_wall_ns + begun_boot_ns
					      : U64_UNKNOWN;
	struct timed_process t;
	uint64_t seen_ns = 0, left_ns;

	*ret = (struct time_ledger){ .evidence = EVIDENCE_SAMPLED };
	if (!found) {
		const uint64_t life_ns = u64_delta(p->died_wall_ns, p->born_wall_ns);

		if (!u64_known(life_ns) || !u64_known(cpu_ns)) {
			ret->evidence = EVIDENCE_UNKNOWN;
			return;
		}
		split_cpu(at_most(cpu_ns, life_ns), p->user_ns, p->system_ns, ret);
		ret->ns[TIME_UNKNOWN] = life_ns - at_most(cpu_ns, life_ns);
		return;
	}
	t = *found;
	if (u64_known(died_boot_ns) && died_boot_ns > t.boot_ns)
		add_interval(&t, (died_boot_ns - t.boot_ns) * t.n_threads,
			     u64_known(cpu_ns) && cpu_ns > t.cpu_ns ? cpu_ns - t.cpu_ns : 0, 0,
			     NULL);
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		seen_ns += t.waited_ns[i];
	left_ns = t.unseen_ns;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++) {
		const uint64_t part_ns =
			seen_ns > 0 ? (uint64_t)((double)t.unseen_ns *
						 ((double)t.waited_ns[i] / (double)seen_ns))
				    : 0;

		ret->ns[i] = t.waited_ns[i] + at_most(part_ns, left_ns);
		left_ns -= at_most(part_ns, left_ns);
	}
	split_cpu(t.on_cpu_ns, t.user_ns, t.system_ns, ret);
	ret->ns[TIME_CPU_WAIT] = t.cpu_waited_ns;
	/* The scheduler counts a wait for a CPU when it is over. */
	ret->ns[seen_ns == 0 && t.n_ready >= ALWAYS_READY ? TIME_CPU_WAIT : TIME_UNKNOWN] +=
		left_ns;
	if (time_ledger_total(ret) == 0)
		ret->evidence = EVIDENCE_UNKNOWN;
}

static const char *keep_text(struct attempt *a, const struct time_ledger *l)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	time_ledger_write(&text, l);
	return text.len > 0 && buf_error(&text) == 0 ? arena_strndup(&a->arena, text.data, text.len)
						     : NULL;
}

/* The try that a process is of: of its sheet, the last that had begun when it was born. */
static struct sheet_record *find_try(struct attempt *a, const struct proc_record *p)
{
	const uint64_t at = u64_known(p->born_wall_ns) ? p->born_wall_ns : p->died_wall_ns;
	struct sheet_record *found = NULL;

	for (size_t i = 0; i < a->n_sheets; i++)
		if (a->sheets[i].num == p->sheet_num &&
		    (!found || !u64_known(at) || a->sheets[i].started_wall_ns <= at))
			found = &a->sheets[i];
	return found;
}

/* By eBPF: time on a CPU is one number, and what began late is a part. */
static void settle_exact(const struct proc_record *p, struct time_ledger *l)
{
	const uint64_t life_ns = u64_delta(p->died_wall_ns, p->born_wall_ns);

	split_cpu(l->ns[TIME_USER] + l->ns[TIME_SYSTEM], p->user_ns, p->system_ns, l);
	if (u64_known(life_ns) && l->evidence == EVIDENCE_EXACT &&
	    (double)time_ledger_total(l) + LATE_NS < WHOLE * (double)life_ns)
		l->evidence = EVIDENCE_LOWER_BOUND;
}

/* Where both have most of its life, that by eBPF. */
#define AS_LONG 0.9

void time_sampler_keep(const struct time_sampler *s, uint64_t begun_boot_ns,
		       const struct time_ledger *all, struct attempt *a)
{
	CLEANUP(free_ptr)
	struct time_ledger *of_sheets = calloc(a->n_sheets + 1, sizeof(*of_sheets));
	struct time_ledger total = *all;

	for (size_t i = 0; of_sheets && i < a->n_processes; i++) {
		struct proc_record *p = &a->processes[i];
		const struct sheet_record *sheet = find_try(a, p);
		struct time_ledger exact, sampled;

		time_sampler_get(s, p, a->started_wall_ns, begun_boot_ns, &sampled);
		(void)time_ledger_read(p->time, &exact);
		for (size_t k = 0; k < N_TIME_CATEGORIES; k++)
			total.ns[k] -= at_most(exact.ns[k], total.ns[k]);
		if (exact.evidence == EVIDENCE_UNKNOWN ||
		    (find(s, &p->key) && (double)time_ledger_total(&exact) + LATE_NS <
						 AS_LONG * (double)time_ledger_total(&sampled)))
			exact = sampled;
		else
			settle_exact(p, &exact);
		time_ledger_add(&total, &exact);
		p->time = keep_text(a, &exact);
		if (sheet)
			time_ledger_add(&of_sheets[sheet - a->sheets], &exact);
	}
	for (size_t i = 0; of_sheets && i < a->n_sheets; i++)
		a->sheets[i].usage.time = keep_text(a, &of_sheets[i]);
	a->usage.time = keep_text(a, &total);
	if (a->n_sheets == 1) /* also of what is not listed */
		a->sheets[0].usage.time = a->usage.time;
}
