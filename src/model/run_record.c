#include "model/run_record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "model/columns.h"

const double run_horizons[RUN_HORIZONS] = { 5, 15, 60, 300 };

void run_record_init(struct run_record *run)
{
	*run = (struct run_record){ 0 };
	columns_clear(&run_columns, run);
}

bool run_has_failed(const struct run_record *run)
{
	return run->outcome == OUTCOME_FAILURE || run->outcome == OUTCOME_TIMEOUT ||
	       run->outcome == OUTCOME_OOM;
}

bool run_is_decided(const struct run_record *run)
{
	return run->outcome == OUTCOME_SUCCESS || run_has_failed(run);
}

enum outcome run_measured_outcome(const struct run_record *run)
{
	return run->measured == OUTCOME_NONE ? run->outcome : run->measured;
}

/* ---- shares of system calls ---- */

/* The share that only RUN_MAX_SHARES reach. */
static double least_kept(const struct syscall_share *shares, size_t n)
{
	double least = -INFINITY;

	while (n > RUN_MAX_SHARES) {
		size_t n_above = 0;
		double next = INFINITY;

		for (size_t i = 0; i < n; i++)
			if (shares[i].pct > least) {
				n_above++;
				next = fmin(next, shares[i].pct);
			}
		if (n_above <= RUN_MAX_SHARES)
			break;
		least = next;
	}
	return least;
}

void run_write_shares(const struct syscall_share *shares, size_t n, struct buf *out)
{
	double least = least_kept(shares, n);
	const char *blank = "";

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(shares[i].pct) || (n > RUN_MAX_SHARES && shares[i].pct <= least) ||
		    !shares[i].name[0] || strpbrk(shares[i].name, " \t\r\n"))
			continue;
		buf_printf(out, "%s%s %.17g", blank, shares[i].name, shares[i].pct);
		blank = " ";
	}
}

/* The next word of *cursor, cut off in place; NULL: no more. */
static char *next_word(char **cursor)
{
	char *word = *cursor + strspn(*cursor, " ");

	if (!*word)
		return NULL;
	*cursor = word + strcspn(word, " ");
	if (**cursor)
		*(*cursor)++ = '\0';
	return word;
}

int run_read_shares(const char *text, struct arena *arena, struct syscall_share **ret,
		    size_t *ret_n)
{
	struct syscall_share *shares;
	char *copy, *name, *value;
	size_t n = 0;

	*ret = NULL;
	*ret_n = 0;
	if (!text)
		return 0;
	copy = arena_strdup(arena, text);
	shares = arena_alloc(arena, RUN_MAX_SHARES * sizeof(*shares));
	if (!copy || !shares)
		return -ENOMEM;
	while (n < RUN_MAX_SHARES && (name = next_word(&copy)) && (value = next_word(&copy)))
		if (num_parse_f64(value, &shares[n].pct) == 0)
			shares[n++].name = name;
	*ret = shares;
	*ret_n = n;
	return 0;
}

bool run_has_anomaly(const char *anomalies, const char *type)
{
	size_t len = strlen(type);

	while (anomalies && *anomalies) {
		size_t word = strcspn(anomalies, " ");

		if (word == len && memcmp(anomalies, type, len) == 0)
			return true;
		anomalies += word + (anomalies[word] == ' ');
	}
	return false;
}

/* ---- lists ---- */

struct run_record *run_list_add(struct run_list *list)
{
	if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return NULL;
	run_record_init(&list->items[list->n]);
	return &list->items[list->n++];
}

void run_list_release(struct run_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct run_list){ .arena = ARENA_INIT };
}

void estimate_init(struct estimate *e)
{
	*e = (struct estimate){ .looser_rss_mb = F64_UNKNOWN, .looser_coverage = F64_UNKNOWN };
	columns_clear(&estimate_columns, e);
	e->n_runs = e->n_censored = e->n_left_out = 0;
}

void pattern_init(struct pattern *p)
{
	*p = (struct pattern){ 0 };
	columns_clear(&pattern_columns, p);
	p->n_jobs = p->n_later = p->n_later_failed = 0;
}

struct pattern *pattern_list_add(struct pattern_list *list)
{
	if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return NULL;
	pattern_init(&list->items[list->n]);
	return &list->items[list->n++];
}

void pattern_list_release(struct pattern_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct pattern_list){ .arena = ARENA_INIT };
}

bool standing_is_more(const struct standing *standing, enum standing_quantity q)
{
	return standing && standing->values[q].is_unusual && standing->values[q].side > 0;
}

double standing_half_excess(const struct standing *standing, enum standing_quantity q)
{
	return standing_is_more(standing, q)
		       ? (standing->values[q].value - standing->values[q].median) / 2
		       : 0;
}
