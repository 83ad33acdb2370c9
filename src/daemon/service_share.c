/*
 * service_share - how much one user may have recorded of jobs that are recorded elsewhere as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "daemon/service_tell.h"
#include "daemon/service_guest.h"

/* So many jobs of one user that are recorded elsewhere are watched at a time. */
#define MAX_GUESTS_PER_USER 256

/* New ones come no faster, but for a burst: each is a row in the database, for good. */
#define GUEST_EVERY_NS UINT64_C(250000000)
#define GUEST_BURST_NS (MAX_GUESTS_PER_USER * GUEST_EVERY_NS)
#define MAX_USERS_KNOWN 4096

/* The same of their sheets; and so many of one job that runs, and of all of one user. */
#define SHEET_EVERY_NS UINT64_C(4000000)
#define SHEET_BURST_NS (USER_MAX_SHEETS * SHEET_EVERY_NS)
#define JOB_MAX_SHEETS 4096
#define USER_MAX_SHEETS 16384

/* The same of their processes, and of what happened to these. */
#define LIFE_EVERY_NS UINT64_C(1000000)
#define LIFE_BURST_NS (65536 * LIFE_EVERY_NS)

static int check_share(struct service *s, const struct rpc_peer *peer, struct err *err)
{
	size_t n, n_guests = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		n_guests += jobs[i]->a.uid == peer->uid &&
			    (jobs[i]->is_guest || !service_is_owner(peer));
	if (n_guests < MAX_GUESTS_PER_USER)
		return 0;
	return err_set(err, -EBUSY, "one user may have %d jobs watched that are recorded elsewhere",
		       MAX_GUESTS_PER_USER);
}

/*
 * Each new one moves the moment on from which the user has all of the burst again. Those
 * whose moment is over are no different from those who are not known.
 */
static uint64_t due_of(const struct map *dues, uid_t uid, uint64_t now)
{
	uint64_t due = 0;

	return map_get(dues, uid, &due) && due > now ? due : now;
}

static int set_due(struct map *dues, uid_t uid, uint64_t due)
{
	if (dues->len >= MAX_USERS_KNOWN)
		map_clear(dues);
	return map_put(dues, uid, due);
}

static int check_rate(struct service *s, const struct rpc_peer *peer, struct err *err)
{
	uint64_t now = clock_boot_ns(), due = due_of(&s->guest_due_ns, peer->uid, now);

	if (service_is_owner(peer))
		return 0;
	if (due - now > GUEST_BURST_NS)
		return err_set(err, -EBUSY, "too many new jobs of one user in too short a time");
	if (set_due(&s->guest_due_ns, peer->uid, due + GUEST_EVERY_NS) < 0)
		return err_set(err, -ENOMEM, "no memory left for a job");
	return 0;
}

int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err)
{
	int r = check_share(s, peer, err);

	return r < 0 ? r : check_rate(s, peer, err);
}

/* ---- sheets ---- */

static size_t count_sheets_of(struct service *s, uid_t uid)
{
	size_t n, n_sheets = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		if (jobs[i]->is_guest && jobs[i]->a.uid == uid)
			n_sheets += jobs[i]->a.n_sheets;
	return n_sheets;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t room_for(struct service *s, uid_t uid, const struct attempt *known)
{
	size_t n_known = known ? known->n_sheets : 0, n_of_user = count_sheets_of(s, uid);
	uint64_t now = clock_boot_ns(), used_ns = due_of(&s->sheet_due_ns, uid, now) - now;
	size_t room = n_known < JOB_MAX_SHEETS ? JOB_MAX_SHEETS - n_known : 0;

	if (uid == 0 || uid == geteuid())
		return room;
	room = smaller(room, n_of_user < USER_MAX_SHEETS ? USER_MAX_SHEETS - n_of_user : 0);
	if (used_ns >= SHEET_BURST_NS)
		return 0;
	return smaller(room, (size_t)((SHEET_BURST_NS - used_ns) / SHEET_EVERY_NS));
}

/* By number and try, as the database has them. */
static int compare_sheets(const void *left, const void *right)
{
	const struct sheet_record *a = left, *b = right;

	return a->num != b->num ? (a->num > b->num) - (a->num < b->num)
				: (a->try_num > b->try_num) - (a->try_num < b->try_num);
}

static bool is_known(const struct attempt *known, const struct sheet_record *sheet)
{
	return known && known->n_sheets > 0 &&
	       bsearch(sheet, known->sheets, known->n_sheets, sizeof(*sheet), compare_sheets);
}

void guest_bound_sheets(struct service *s, uid_t uid, const struct attempt *known,
			struct attempt *told)
{
	size_t room = room_for(s, uid, known), n_new = 0, kept = 0;
	uint64_t now = clock_boot_ns();

	for (size_t i = 0; i < told->n_sheets; i++) {
		bool is_new = !is_known(known, &told->sheets[i]);

		if (is_new && n_new == room)
			continue;
		n_new += is_new;
		told->sheets[kept++] = told->sheets[i];
	}
	told->n_sheets = kept;
	if (n_new > 0)
		set_due(&s->sheet_due_ns, uid,
			due_of(&s->sheet_due_ns, uid, now) + n_new * SHEET_EVERY_NS);
}

/* ---- processes ---- */

void guest_bound_lives(struct service *s, uid_t uid, struct attempt *told)
{
	uint64_t now = clock_boot_ns(), due = due_of(&s->life_due_ns, uid, now);
	uint64_t used_ns = due - now;
	size_t room = used_ns < LIFE_BURST_NS ? (LIFE_BURST_NS - used_ns) / LIFE_EVERY_NS : 0;

	if (uid == 0 || uid == geteuid())
		return;
	told->n_processes = smaller(told->n_processes, room);
	told->n_events = smaller(told->n_events, room - told->n_processes);
	if (told->n_processes + told->n_events > 0)
		set_due(&s->life_due_ns, uid,
			due + (told->n_processes + told->n_events) * LIFE_EVERY_NS);
}
