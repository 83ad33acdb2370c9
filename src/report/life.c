#include "report/life.h"

#include <signal.h>
#include <string.h>

#include "base/unknown.h"
#include "report/format.h"

static void count_status(struct life_tally *tally, struct exit_status status)
{
	if (status.signal >= 0 && status.signal < LIFE_SIGNALS)
		tally->killed[status.signal]++;
	else if (status.exit_code >= 0 && status.exit_code < LIFE_CODES)
		tally->exited[status.exit_code]++;
	else {
		tally->n_unseen++;
		return;
	}
	tally->n_ended++;
}

static void count_process(struct life_tally *tally, const struct facts *f,
			  const struct proc_record *p)
{
	if (facts_is_left_running(f, p))
		tally->n_left++;
	else
		count_status(tally, p->status);
}

void life_count(const struct facts *f, struct life_tally *ret)
{
	const struct attempt *a = f->a;

	memset(ret, 0, sizeof(*ret));
	ret->has_ends = a->n_processes > 0 && u64_known(a->ended_wall_ns);
	for (size_t i = 0; ret->has_ends && i < a->n_processes; i++)
		count_process(ret, f, &a->processes[i]);
	/* Signals and kills that were sent are not deaths: only exits are. */
	for (size_t i = 0; !ret->has_ends && i < a->n_events; i++)
		if (a->events[i].type == EVENT_EXIT)
			count_status(ret, a->events[i].status);
	for (size_t i = 0; i < a->n_events; i++)
		ret->n_oom += a->events[i].type == EVENT_OOM;
	ret->n_all = ret->n_ended + ret->n_left + ret->n_unseen;
}

/* Begins a part of the list. */
static struct buf *part(struct buf *out, size_t start)
{
	if (out->len > start)
		buf_add_str(out, ", ");
	return out;
}

void life_add_tally(struct buf *out, const struct life_tally *tally, bool is_running)
{
	size_t start = out->len;

	for (int code = 0; code < LIFE_CODES; code++)
		if (tally->exited[code])
			buf_printf(part(out, start), "%llu exited %d",
				   (unsigned long long)tally->exited[code], code);
	for (int sig = 0; sig < LIFE_SIGNALS; sig++)
		if (tally->killed[sig]) {
			buf_printf(part(out, start), "%llu killed by ",
				   (unsigned long long)tally->killed[sig]);
			format_signal(out, sig);
			if (sig == SIGKILL && tally->n_oom > 0)
				buf_printf(out, ", %llu of them for want of memory",
					   (unsigned long long)tally->n_oom);
		}
	if (tally->n_left)
		buf_printf(part(out, start), "%llu still running when proctor ended",
			   (unsigned long long)tally->n_left);
	if (tally->n_unseen)
		buf_printf(part(out, start), "%llu %s", (unsigned long long)tally->n_unseen,
			   is_running ? "not seen to end" : "whose end nobody saw");
}

bool life_has_trouble(const struct life_tally *tally)
{
	return tally->n_all > tally->exited[0];
}

/* 0 is worst; -1: nothing to tell. */
static int severity(const struct proc_event *ev)
{
	switch (ev->type) {
	case EVENT_OOM:
		return 0;
	case EVENT_KILL:
		return 1;
	case EVENT_SIGNAL:
	case EVENT_ORPHAN:
		return 2;
	case EVENT_EXIT:
		return exit_status_to_shell(ev->status) > 0 ? 3 : -1;
	default:
		return -1;
	}
}

static bool comes_before(const struct proc_event *l, const struct proc_event *r, int sheet_num)
{
	if ((l->sheet_num == sheet_num) != (r->sheet_num == sheet_num))
		return l->sheet_num == sheet_num;
	if (severity(l) != severity(r))
		return severity(l) < severity(r);
	return l->wall_ns < r->wall_ns;
}

size_t life_find_notable(const struct attempt *a, int sheet_num, size_t max,
			 const struct proc_event **ret)
{
	size_t n = 0, total = 0;

	for (size_t i = 0; i < a->n_events; i++) {
		const struct proc_event *ev = &a->events[i];
		size_t at = n;

		if (severity(ev) < 0)
			continue;
		total++;
		for (; at > 0 && comes_before(ev, ret[at - 1], sheet_num); at--)
			if (at < max)
				ret[at] = ret[at - 1];
		if (at < max) {
			ret[at] = ev;
			n += n < max;
		}
	}
	return total;
}
