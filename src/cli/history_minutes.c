#include "cli/history_minutes.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/show.h"
#include "model/sample_fields.h"
#include "report/report.h"

struct printer {
	bool json;
	struct output out;
	struct json j;
	size_t n_rows;
};

/* ---- JSON ---- */

#define MB(v_) ((v_) / 1048576.0)

/* A field of a sample as a number with a point, in the unit of JSON, by its kind. */
#define AVERAGE_F64(v_) (v_)
#define AVERAGE_U64(v_) (v_)
#define AVERAGE_MB(v_) MB(v_)
#define VALUE_F64(v_) (v_)
#define VALUE_U64(v_) (u64_known(v_) ? (double)(v_) : F64_UNKNOWN)
#define VALUE_MB(v_) u64_to_mb(v_)
#define IF_BRIEF(...) __VA_ARGS__
#define IF_LONG(...)

/* The four values of each gauge, in the order of recorded minutes. */
static void write_gauges(struct json *j, const struct minute_row *row)
{
	const struct {
		const char *key; /* NULL: not in the brief list */
		double avg, min, max, last;
	} gauges[SAMPLE_N_GAUGES] = {
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, brief_, help_)                           \
	IF_##brief_([gauge_] = { key_, AVERAGE_##kind_(row->avg.member_),                          \
				 VALUE_##kind_(row->min.member_), VALUE_##kind_(row->max.member_), \
				 VALUE_##kind_(row->last.member_) }, )
#include "model/sample_fields.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
		if (!gauges[i].key)
			continue;
		json_key(j, gauges[i].key);
		json_begin_object(j);
		json_key_f64(j, "avg", gauges[i].avg);
		json_key_f64(j, "min", gauges[i].min);
		json_key_f64(j, "max", gauges[i].max);
		json_key_f64(j, "last", gauges[i].last);
		json_end_object(j);
	}
}

static void write_json(struct json *j, const struct minute_row *row)
{
	const struct proc_sample *last = &row->last;

	json_begin_object(j);
	json_key_f64(j, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_u64(j, "samples", row->n_samples);
	json_key_string(j, "job_id", last->job_id);
	json_key_i64(j, "attempt", row->attempt_num);
	json_key_int(j, "sheet_num", last->sheet_num);
	json_key_i64(j, "pid", last->key.pid);
	json_key_u64(j, "start_ticks", last->key.start_ticks);
	json_key_string(j, "command", last->command);
	write_gauges(j, row);
#define WRITE_SECONDS(key_, v_) json_key_f64(j, key_, u64_to_seconds(v_))
#define WRITE_U64(key_, v_) json_key_u64(j, key_, v_)
#define SAMPLE_COUNTER(kind_, member_, key_, word_, brief_, help_) \
	IF_##brief_(WRITE_##kind_(key_, last->member_);)
#include "model/sample_fields.def"
	json_end_object(j);
}

/* ---- text ---- */

static void add_number(struct buf *out, double v)
{
	if (f64_known(v))
		buf_printf(out, " %9.1f", v);
	else
		buf_printf(out, " %9s", "-");
}

static void write_text(struct buf *out, const struct minute_row *row)
{
	char when[32];

	buf_printf(out, "%s %7d %8d %7llu", clock_format_local(row->wall_ns, when, sizeof(when)),
		   row->attempt_num, (int)row->last.key.pid, (unsigned long long)row->n_samples);
	add_number(out, row->avg.cpu_percent);
	add_number(out, row->max.cpu_percent);
	add_number(out, MB(row->avg.rss_bytes));
	add_number(out, u64_to_mb(row->max.rss_bytes));
	buf_add_str(out, "  ");
	cli_add_text(out, row->last.command ? row->last.command : "-", 60);
	buf_add_char(out, '\n');
}

static int on_minute(void *ctx, const struct minute_row *row)
{
	struct printer *p = ctx;

	if (p->n_rows++ == 0 && !p->json)
		buf_add_str(&p->out.buf, "MINUTE              ATTEMPT      PID SAMPLES  AVG_CPU%  "
					 "MAX_CPU% AVG_RSSMB MAX_RSSMB  COMMAND\n");
	if (p->json)
		write_json(&p->j, row);
	else
		write_text(&p->out.buf, row);
	return output_pass(&p->out);
}

static int stop_at_first(void *ctx, const struct minute_row *row)
{
	(void)ctx;
	(void)row;
	return 1;
}

/* Of a job that there is none is told before: it was looked for. */
static bool is_known(struct store *store, const struct history_filter *filter)
{
	const struct minute_filter ever = { .pid = filter->pid };

	return filter->job_id || store_read_minutes(store, &ever, stop_at_first, NULL, NULL) > 0;
}

static int stop_at_sample(void *ctx, const struct history_row *row)
{
	(void)ctx;
	(void)row;
	return 1;
}

#define MINUTE_NS (UINT64_C(60) * 1000000000)

/* A minute that is only begun in that time may be made of samples that came before it. */
static bool has_samples(struct store *store, const struct history_filter *filter)
{
	struct history_filter whole = *filter;

	whole.with_minutes = false;
	whole.since_wall_ns -= whole.since_wall_ns % MINUTE_NS;
	if (whole.until_wall_ns > 0 && whole.until_wall_ns < UINT64_MAX - MINUTE_NS)
		whole.until_wall_ns += MINUTE_NS - whole.until_wall_ns % MINUTE_NS;
	return store_read_history(store, &whole, stop_at_sample, NULL, NULL) > 0;
}

int history_tell_none(struct store *store, const struct history_filter *filter)
{
	const struct minute_filter minutes = { filter->job_id, filter->pid, filter->since_wall_ns,
					       filter->until_wall_ns };

	if (store_read_minutes(store, &minutes, stop_at_first, NULL, NULL) > 0 &&
	    !has_samples(store, filter)) {
		log_error(
			"samples of that are not kept any more, only 1-minute values (--minutes)");
		return CLI_DONE;
	}
	log_error("nothing of that was recorded, or it is no longer kept");
	return is_known(store, filter) ? CLI_DONE : CLI_FAILED;
}

/* Minutes that lie in that time as a whole, and are over when the first sample comes. */
void history_tell_older(struct store *store, const struct history_filter *filter,
			uint64_t first_wall_ns)
{
	const struct minute_filter minutes = { filter->job_id, filter->pid,
					       filter->since_wall_ns + MINUTE_NS - 1,
					       first_wall_ns - MINUTE_NS };
	char first[32];

	if (first_wall_ns < MINUTE_NS || minutes.since_wall_ns > minutes.until_wall_ns ||
	    store_read_minutes(store, &minutes, stop_at_first, NULL, NULL) <= 0)
		return;
	log_warning("before %s only 1-minute values are kept (--minutes)",
		    clock_format_local(first_wall_ns, first, sizeof(first)));
}

int history_print_minutes(struct store *store, const struct history_filter *filter, bool json,
			  struct err *err)
{
	struct printer p = { .json = json, .out = OUTPUT_INIT };
	const struct minute_filter minutes = { filter->job_id, filter->pid, filter->since_wall_ns,
					       filter->until_wall_ns };
	int r = output_open(&p.out, NULL, err);

	json_init(&p.j, &p.out.buf);
	if (json)
		json_begin_array(&p.j);
	if (r == 0)
		r = store_read_minutes(store, &minutes, on_minute, &p, err);
	if (json) {
		json_end_array(&p.j);
		buf_add_char(&p.out.buf, '\n');
	}
	r = output_end(&p.out, r, err);
	output_release(&p.out);
	if (r != CLI_DONE || p.n_rows > 0)
		return r;
	return history_tell_none(store, filter);
}
