#include "sources/sample_feed.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "model/record.h"
#include "sources/tasks.h"

#define WORDS (sizeof(struct task_process) / sizeof(uint64_t))

_Static_assert(sizeof(struct task_process) == 320 && FEED_LAYOUT == 1,
	       "another struct has another layout");
_Static_assert(WORDS <= 64, "a bit for each");

/* Some 100 bytes each: a message is no more than a MiB. */
#define MAX_CHANGED 8192

/* ---- sending ---- */

void feed_sender_release(struct feed_sender *s)
{
	free(s->sent);
	free(s->next);
	*s = (struct feed_sender){ 0 };
}

/* Of two that differ it is the same once in 10^19. */
static uint64_t hash_words(const uint64_t *words)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = 0;

	for (size_t i = 0; i < WORDS; i++) {
		h = (h ^ words[i]) * odd;
		h ^= h >> 29;
	}
	return h;
}

/* Which words are not 0, and these. */
static void write_words(struct buf *out, const uint64_t *words)
{
	uint64_t is_set = 0;

	for (size_t i = 0; i < WORDS; i++)
		is_set |= (uint64_t)(words[i] != 0) << i;
	record_write_number(out, is_set);
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != 0)
			record_write_number(out, words[i]);
}

int feed_write(struct feed_sender *s, const struct task_list *list, uint64_t boot_ns,
	       const pid_t *pids, size_t n, struct buf *out)
{
	CLEANUP(buf_release) struct buf gone = BUF_INIT, changed = BUF_INIT;
	size_t n_next = 0, n_gone = 0, n_changed = 0, at = 0, from = 0;
	pid_t last_gone = 0;

	if (ARRAY_RESERVE(s->next, s->cap_next, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i <= n; i++) {
		pid_t pid = i < n ? pids[i] : INT_MAX;
		bool is_listed, has_it;
		uint64_t words[WORDS], hash = 0;

		for (; at < s->n && s->sent[at].pid < pid; at++, n_gone++) {
			record_write_number(&gone, (uint64_t)(s->sent[at].pid - last_gone));
			last_gone = s->sent[at].pid;
		}
		while (i < n && from < list->n && (pid_t)list->items[from]->head.pid < pid)
			from++;
		is_listed = i < n && from < list->n && (pid_t)list->items[from]->head.pid == pid;
		if (!is_listed) /* if it was sent, it is gone by the next turn */
			continue;
		memcpy(words, list->items[from], sizeof(words));
		hash = hash_words(words);
		has_it = at < s->n && s->sent[at].pid == pid;
		if (!has_it || s->sent[at].hash != hash) {
			if (n_changed == MAX_CHANGED)
				continue;
			write_words(&changed, words);
			n_changed++;
		}
		at += has_it;
		s->next[n_next++] = (struct feed_sent){ pid, hash };
	}
	record_write_number(out, FEED_LAYOUT);
	record_write_number(out, s->n_messages);
	record_write_number(out, boot_ns);
	record_write_number(out, n_gone);
	buf_add(out, gone.data, gone.len);
	record_write_number(out, n_changed);
	buf_add(out, changed.data, changed.len);
	if (buf_error(&gone) < 0 || buf_error(&changed) < 0 || buf_error(out) < 0)
		return -ENOMEM;
	*s =
		(struct feed_sender){ s->next,	   s->sent, n_next,
				      s->cap_next, s->cap,  s->n_messages + 1 };
	return 0;
}

/* ---- receiving ---- */

void feed_release(struct feed *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->items[i]);
	free(f->items);
	free(f->next);
	*f = (struct feed){ 0 };
}

static void read_words(struct record_reader *r, struct task_process *ret)
{
	uint64_t is_set = record_read_number(r), words[WORDS] = { 0 };

	for (size_t i = 0; i < WORDS; i++)
		if (is_set >> i & 1)
			words[i] = record_read_number(r);
	memcpy(ret, words, sizeof(words));
}

/* Without those that are gone. */
static void forget(struct feed *f, struct record_reader *r)
{
	uint64_t n_gone = record_read_number(r), pid = 0;
	size_t n = 0, at = 0;

	for (uint64_t i = 0; i < n_gone && r->error == 0; i++) {
		pid += record_read_number(r);
		for (; at < f->n && f->items[at]->head.pid < pid; at++)
			f->items[n++] = f->items[at];
		if (at < f->n && f->items[at]->head.pid == pid)
			free(f->items[at++]);
	}
	for (; at < f->n; at++)
		f->items[n++] = f->items[at];
	f->n = n;
}

/* Those that have changed, and new ones, in their places. */
static int merge(struct feed *f, struct record_reader *r)
{
	uint64_t n_changed = record_read_number(r), last = 0;
	struct task_process p;
	size_t n = 0, at = 0;

	if (n_changed == 0 || r->error < 0)
		return r->error;
	if (n_changed > (uint64_t)(r->end - r->p))
		return -EBADMSG;
	if (ARRAY_RESERVE(f->next, f->cap_next, f->n + n_changed) < 0)
		return -ENOMEM;
	for (uint64_t i = 0; i <= n_changed; i++) {
		bool is_end = i == n_changed;

		if (!is_end)
			read_words(r, &p);
		if (!is_end && (r->error < 0 || p.head.pid <= last || p.head.pid > INT_MAX)) {
			r->error = -EBADMSG;
			is_end = true;
		}
		for (; at < f->n && (is_end || f->items[at]->head.pid < p.head.pid); at++)
			f->next[n++] = f->items[at];
		if (is_end)
			break;
		last = p.head.pid;
		f->next[n] = at < f->n && f->items[at]->head.pid == last ? f->items[at++]
									 : malloc(sizeof(p));
		if (f->next[n])
			*f->next[n++] = p;
		else
			r->error = -ENOMEM;
	}
	*f = (struct feed){ f->next, f->items, n, f->cap_next, f->cap, f->boot_ns, f->n_messages };
	return r->error;
}

int feed_read(struct feed *f, const void *bytes, size_t n)
{
	struct record_reader r = { .p = bytes, .end = (const uint8_t *)bytes + n };
	uint64_t layout = record_read_number(&r), before = record_read_number(&r);
	uint64_t boot_ns = record_read_number(&r);
	int error = layout == FEED_LAYOUT && (before == 0 || before == f->n_messages) ? r.error
										      : -EBADMSG;

	if (error == 0 && before == 0)
		feed_release(f);
	if (error == 0) {
		forget(f, &r);
		error = merge(f, &r);
	}
	if (error == 0 && r.p != r.end)
		error = -EBADMSG;
	if (error < 0) {
		feed_release(f);
		return error;
	}
	f->boot_ns = boot_ns;
	f->n_messages = before + 1;
	return 0;
}
