#include "daemon/settler.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"

#define PATIENCE_MS 1000 /* for other writers; nobody waits for this thread */

struct settler {
	struct loop *loop;
	char *db;
	struct store *store; /* of the loop; NULL: it was left */
	struct store *aside; /* of the other thread; NULL: not opened yet */
	struct store_log_work wanted, under_way;
	bool is_wanted, is_busy;
	sem_t is_done; /* the other thread has let go of it; on_done() is still to come */
	int r;
	struct err err;
};

static void settler_free(struct settler *s)
{
	store_close(s->aside);
	sem_destroy(&s->is_done);
	free(s->db);
	free(s);
}

/* ---- on the other thread ---- */

static void do_work(void *ctx)
{
	struct settler *s = ctx;

	s->err = (struct err)ERR_INIT;
	s->r = s->aside ? 0
			: store_open_patient(s->db, STORE_WRITE, PATIENCE_MS, &s->aside, &s->err);
	if (s->r == 0)
		s->r = store_settle(s->aside, &s->under_way, &s->err);
	sem_post(&s->is_done);
}

/* ---- in the loop ---- */

static void begin(struct settler *s);

/* Who cannot be helped helps himself. */
static void give_up(struct settler *s, const char *why)
{
	log_debug("the disk is waited for between ticks: %s", why);
	store_settle_here(s->store);
	s->is_wanted = false;
}

static void on_done(void *ctx)
{
	struct settler *s = ctx;

	s->is_busy = false;
	if (!s->store) {
		settler_free(s);
		return;
	}
	sem_wait(&s->is_done); /* at once: it counts from one work to the next */
	if (!s->aside) {
		give_up(s, s->err.text);
		return;
	}
	store_told_settled(s->store, -s->r, !s->is_wanted);
	begin(s);
}

static void begin(struct settler *s)
{
	if (s->is_busy || !s->is_wanted)
		return;
	s->under_way = s->wanted;
	s->is_wanted = false;
	s->wanted = (struct store_log_work){ 0 };
	s->is_busy = loop_queue_work(s->loop, do_work, on_done, s) == 0;
	if (!s->is_busy)
		give_up(s, "no memory left");
}

static void on_unsettled(void *ctx, const struct store_log_work *work)
{
	struct settler *s = ctx;

	s->is_wanted = true;
	s->wanted.n_pages = work->n_pages;
	s->wanted.is_to_shorten |= work->is_to_shorten;
	begin(s);
}

struct settler *settler_new(struct loop *loop, const char *db, struct store *store)
{
	struct settler *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct settler){ .loop = loop, .db = strdup(db), .store = store };
	if (!s->db || sem_init(&s->is_done, 0, 0) < 0) {
		free(s->db);
		free(s);
		return NULL;
	}
	store_settle_elsewhere(store, on_unsettled, s);
	return s;
}

struct settler *settler_leave(struct settler *s)
{
	if (!s)
		return NULL;
	store_settle_here(s->store);
	s->store = NULL;
	if (!s->is_busy) {
		settler_free(s);
		return NULL;
	}
	while (sem_wait(&s->is_done) < 0 && errno == EINTR)
		;
	s->aside = store_close(s->aside);
	return NULL;
}
