/*
 * A made-up host for tests of detect/: one tick after the other, with a list of all changes.
 */
#ifndef PROCTOR_TESTS_DETECT_FIXTURE_H
#define PROCTOR_TESTS_DETECT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "detect/detect.h"

#define MB (UINT64_C(1024) * 1024)
#define MAX_SEEN 512

struct seen {
	enum episode_change change;
	double at; /* seconds since the first tick */
	struct episode e;
};

struct host {
	struct config config;
	struct detect *d;
	struct snapshot snap;
	double now, step; /* seconds */
	struct proc_event events[8];
	size_t n_events;
	struct detect_usual usual;
	struct seen seen[MAX_SEEN];
	size_t n_seen;
};

static inline void host_open(struct host *h, double step)
{
	memset(h, 0, sizeof(*h));
	config_init(&h->config);
	h->d = detect_new(&h->config.anomaly, DETECT_ALL);
	assert_non_null(h->d);
	snapshot_init(&h->snap);
	h->step = step;
}

static inline void host_close(struct host *h)
{
	h->d = detect_free(h->d);
	snapshot_release(&h->snap);
	config_release(&h->config);
}

/* An empty snapshot of a quiet host with 8 GB. */
static inline void host_begin(struct host *h)
{
	snapshot_reset(&h->snap);
	h->snap.boot_ns = (uint64_t)((1000 + h->now) * 1e9);
	h->snap.wall_ns = UINT64_C(1763000000000000000) + (uint64_t)(h->now * 1e9);
	snprintf(h->snap.boot_id, sizeof(h->snap.boot_id), "boot");
	h->snap.system.memory_total_bytes = 8192 * MB;
	h->snap.system.memory_available_bytes = 6144 * MB;
	h->n_events = 0;
}

/* A sleeping process of the job "job" that takes 10 MB and has used CPU of late. */
static inline struct proc_sample *host_add(struct host *h, pid_t pid, pid_t ppid)
{
	struct proc_sample *p = snapshot_add_process(&h->snap);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, 100 };
	p->ppid = ppid;
	p->state = 'S';
	snprintf(p->comm, sizeof(p->comm), "worker");
	p->job_id = "job";
	p->sheet_num = 2;
	p->cpu_percent = 1;
	p->cpu_ns = (uint64_t)(h->now * 1e7);
	p->rss_bytes = 12 * MB;
	p->rss_anon_bytes = 10 * MB;
	p->rchar = (uint64_t)(h->now * 100000);
	p->wchar = 0;
	p->minor_faults = (uint64_t)h->now;
	p->threads = 1;
	p->open_fds = 10;
	p->fd_limit = 1024;
	return p;
}

static inline void host_keep(struct host *h, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		struct seen *s = &h->seen[h->n_seen++];

		assert_true(h->n_seen < MAX_SEEN);
		s->change = changes->items[i].change;
		s->at = h->now;
		episode_copy(&s->e, changes->items[i].episode);
		assert_true(s->e.worst.text[0] != '\0');
	}
}

static inline void host_tick(struct host *h)
{
	const struct detect_news news = {
		.snap = &h->snap,
		.events = h->events,
		.n_events = h->n_events,
		.usual = &h->usual,
		.n_usual = h->usual.job_id ? 1 : 0,
	};
	struct detect_changes changes;

	assert_int_equal(detect_tick(h->d, &news, &changes), 0);
	host_keep(h, &changes);
	h->now += h->step;
}

/* The first change of this kind; NULL: there was none. */
static inline const struct seen *host_find(const struct host *h, enum anomaly_type type,
					   enum episode_change change)
{
	for (size_t i = 0; i < h->n_seen; i++)
		if (h->seen[i].e.worst.type == type && h->seen[i].change == change)
			return &h->seen[i];
	return NULL;
}

static inline size_t host_count(const struct host *h, enum episode_change change)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_seen; i++)
		n += h->seen[i].change == change;
	return n;
}

/* For people who read what the tests print. */
static inline void host_print(const struct host *h)
{
	for (size_t i = 0; i < h->n_seen; i++)
		print_message("# %6.1f s  %-9s  %-8s  %-17s  %s\n", h->seen[i].at,
			      episode_change_name(h->seen[i].change),
			      severity_name(h->seen[i].e.worst.severity),
			      anomaly_type_name(h->seen[i].e.worst.type), h->seen[i].e.worst.text);
}

#endif
