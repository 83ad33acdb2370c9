#include "daemon/maker.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/store.h"

#define PATIENCE_MS 5000 /* for others who make it */

enum maker_state { MAKER_NOT_ASKED, MAKER_BUSY, MAKER_DONE };

struct maker {
	struct loop *loop;
	char *db;
	loop_fn *made; /* NULL: it was left */
	void *ctx;
	enum maker_state state;
};

static void maker_free(struct maker *m)
{
	free(m->db);
	free(m);
}

static void do_work(void *ctx)
{
	struct maker *m = ctx;
	struct store *store = NULL;
	struct err err = ERR_INIT;

	if (store_open_patient(m->db, STORE_WRITE, PATIENCE_MS, &store, &err) == 0)
		store_close(store);
}

static void on_done(void *ctx)
{
	struct maker *m = ctx;

	m->state = MAKER_DONE;
	if (m->made)
		m->made(m->ctx);
	else
		maker_free(m);
}

struct maker *maker_new(struct loop *loop, const char *db, loop_fn *made, void *ctx)
{
	struct maker *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct maker){ .loop = loop, .db = strdup(db), .made = made, .ctx = ctx };
	if (m->db)
		return m;
	free(m);
	return NULL;
}

/* It may still have to be filled, by who is about to do so. */
static bool is_there(const char *db)
{
	struct stat st;

	return stat(db, &st) == 0 && st.st_size > 0;
}

int maker_check(struct maker *m, struct err *err)
{
	if (m->state == MAKER_NOT_ASKED && !is_there(m->db) &&
	    loop_queue_work(m->loop, do_work, on_done, m) == 0)
		m->state = MAKER_BUSY;
	else if (m->state == MAKER_NOT_ASKED)
		m->state = MAKER_DONE;
	if (m->state == MAKER_BUSY)
		return err_set(err, -EBUSY, "the database %s is being made", m->db);
	return 0;
}

struct maker *maker_leave(struct maker *m)
{
	if (!m)
		return NULL;
	m->made = NULL;
	if (m->state != MAKER_BUSY)
		maker_free(m);
	return NULL;
}
