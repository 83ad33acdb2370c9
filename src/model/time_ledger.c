#include "model/time_ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/macros.h"
#include "base/unknown.h"

const struct time_category_row time_categories[N_TIME_CATEGORIES] = {
	[TIME_USER] = { "user", "on a CPU", "cpu", "on a CPU, in the program" },
	[TIME_SYSTEM] = { "system", "on a CPU in the kernel", "kernel", "on a CPU, in the kernel" },
	[TIME_CPU_WAIT] = { "cpu_wait", "waiting for a CPU", "no cpu",
			    "ready to run, and without a CPU", .is_wait = true },
	[TIME_DISK] = { "disk", "waiting for disk", "disk",
			"in a call to a file or directory, also of a network file system",
			.is_wait = true },
	[TIME_PAGE_FAULT] = { "page_fault", "waiting for page faults", "fault",
			      "for a page of its memory: mapped files, swap, memory limits",
			      .is_wait = true },
	[TIME_FILE_LOCK] = { "file_lock", "waiting for a file lock", "lock",
			     "in flock() or fcntl()", .is_wait = true },
	[TIME_FUTEX] = { "futex", "waiting for other threads (futex)", "futex",
			 "for a lock, a condition or the end of a thread", .is_wait = true },
	[TIME_PIPE] = { "pipe", "waiting at pipes", "pipe", "for data or room in a pipe or FIFO",
			.is_wait = true },
	[TIME_SOCKET] = { "socket", "waiting for sockets", "socket",
			  "for data, room or a connection of a socket", .is_wait = true },
	[TIME_EVENTS] = { "events", "waiting for events (poll)", "events",
			  "in poll(), select() and epoll_wait() on several files, or on one "
			  "that is no pipe or socket",
			  .is_wait = true },
	[TIME_CHILD] = { "child", "waiting for children", "child", "for a child to end",
			 .is_passive = true },
	[TIME_SIGNAL] = { "signal", "waiting for a signal", "signal",
			  "for a signal, as a shell does for its children", .is_passive = true },
	[TIME_TIMER] = { "timer", "asleep", "sleep", "in nanosleep() and the like",
			 .is_wait = true },
	[TIME_GPU] = { "gpu", "waiting for GPUs", "gpu", "in a call to the device of a GPU",
		       .is_wait = true },
	[TIME_STOPPED] = { "stopped", "stopped", "stopped", "by a signal or a tracer",
			   .is_wait = true },
	[TIME_OTHER] = { "other", "waiting for something else", "other",
			 "for a terminal, or in any other call", .is_wait = true },
	[TIME_UNKNOWN] = { "unknown", "not observed", "?",
			   "not observed: this user may not see it, or no sample met it" },
};

uint64_t time_ledger_total(const struct time_ledger *l)
{
	uint64_t total = 0;

	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		total += l->ns[i];
	return total;
}

void time_ledger_add(struct time_ledger *sum, const struct time_ledger *part)
{
	const bool is_worse =
		sum->evidence == EVIDENCE_UNKNOWN || part->evidence == EVIDENCE_SAMPLED ||
		(part->evidence == EVIDENCE_LOWER_BOUND && sum->evidence == EVIDENCE_EXACT);

	if (part->evidence == EVIDENCE_UNKNOWN)
		return;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		sum->ns[i] += part->ns[i];
	if (is_worse)
		sum->evidence = part->evidence;
}

/* ---- as recorded ---- */

void time_ledger_write(struct buf *out, const struct time_ledger *l)
{
	struct json j;

	if (l->evidence == EVIDENCE_UNKNOWN || time_ledger_total(l) == 0)
		return;
	json_init_object(&j, out);
	json_key_string(&j, "evidence", evidence_name(l->evidence));
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		if (l->ns[i] > 0)
			json_key_u64(&j, time_categories[i].key, l->ns[i]);
	json_end_object(&j);
}

/* No job has more thread-seconds than that: sums of sums stay below 2^64. */
#define MAX_NS (UINT64_C(1) << 56)

static void read_member(struct json_cursor *c, const char *key, size_t len, struct time_ledger *l)
{
	static const enum evidence evidences[] = { EVIDENCE_EXACT, EVIDENCE_SAMPLED,
						   EVIDENCE_LOWER_BOUND };
	const char *value;
	size_t n;

	if (json_cursor_is(key, len, "evidence")) {
		json_cursor_value(c, &value, &n);
		for (size_t i = 0; i < ARRAY_SIZE(evidences); i++) {
			const char *name = evidence_name(evidences[i]);

			if (n == strlen(name) + 2 && strncmp(value + 1, name, n - 2) == 0)
				l->evidence = evidences[i];
		}
		return;
	}
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++) {
		uint64_t ns;

		if (!json_cursor_is(key, len, time_categories[i].key))
			continue;
		ns = json_cursor_u64(c);
		if (ns > MAX_NS)
			c->is_bad = true;
		else
			l->ns[i] = ns;
		return;
	}
	json_cursor_skip(c);
}

bool time_ledger_read(const char *text, struct time_ledger *ret)
{
	struct time_ledger l = { 0 };
	struct json_cursor c;
	const char *key;
	size_t n;

	*ret = l;
	if (!text)
		return false;
	json_cursor_init(&c, text, strlen(text));
	if (!json_cursor_enter(&c, '{'))
		return false;
	while (json_cursor_next_key(&c, &key, &n))
		read_member(&c, key, n, &l);
	if (c.is_bad || l.evidence == EVIDENCE_UNKNOWN || time_ledger_total(&l) == 0)
		return false;
	*ret = l;
	return true;
}

/* ---- as told ---- */

void time_ledger_write_json(struct json *j, const char *text)
{
	struct time_ledger l;

	if (!time_ledger_read(text, &l)) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	json_key_string(j, "evidence", evidence_name(l.evidence));
	json_key_f64(j, "thread_seconds", u64_to_seconds(time_ledger_total(&l)));
	json_key_object(j, "seconds");
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++)
		json_key_f64(j, time_categories[i].key, u64_to_seconds(l.ns[i]));
	json_end_object(j);
	json_end_object(j);
}

/* With one row for both kinds of time on a CPU; the rest is what the shares are of. */
static uint64_t shares_of(const struct time_ledger *l, uint64_t ret[N_TIME_CATEGORIES])
{
	uint64_t total = time_ledger_total(l);

	memcpy(ret, l->ns, sizeof(l->ns));
	ret[TIME_USER] += ret[TIME_SYSTEM];
	ret[TIME_SYSTEM] = 0;
	for (size_t i = 0; i < N_TIME_CATEGORIES; i++) {
		if (!time_categories[i].is_passive || ret[i] == total)
			continue;
		total -= ret[i];
		ret[i] = 0;
	}
	return total;
}

static enum time_category find_largest(const uint64_t shares[N_TIME_CATEGORIES])
{
	enum time_category largest = N_TIME_CATEGORIES;

	for (enum time_category i = 0; i < N_TIME_CATEGORIES; i++)
		if (shares[i] > (largest < N_TIME_CATEGORIES ? shares[largest] : 0))
			largest = i;
	return largest;
}

enum time_category time_ledger_largest(const struct time_ledger *l, double *ret_percent)
{
	uint64_t shares[N_TIME_CATEGORIES], total = shares_of(l, shares);
	enum time_category largest = find_largest(shares);

	*ret_percent = largest < N_TIME_CATEGORIES ? 100 * (double)shares[largest] / (double)total
						   : F64_UNKNOWN;
	return largest;
}

#define MAX_SHARES 3
#define LEAST_SHARE 5.0

void time_ledger_add_summary(struct buf *out, const struct time_ledger *l)
{
	uint64_t shares[N_TIME_CATEGORIES], total = shares_of(l, shares);

	for (size_t n = 0; n < MAX_SHARES; n++) {
		const enum time_category c = find_largest(shares);
		const double percent =
			c < N_TIME_CATEGORIES ? 100 * (double)shares[c] / (double)total : 0;

		if (c == N_TIME_CATEGORIES || (n > 0 && percent < LEAST_SHARE))
			return;
		buf_printf(out, "%s%s%.0f %% %s", n > 0 ? ", " : "",
			   l->evidence == EVIDENCE_SAMPLED ? "~" : "", percent,
			   time_categories[c].words);
		shares[c] = 0;
	}
}
