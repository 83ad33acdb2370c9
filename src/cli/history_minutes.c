#include "cli/history_minutes.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/show.h"
#include "report/report.h"

struct printer {
	bool json;
	struct output out;
	struct json j;
	size_t n_rows;
};

/* ---- JSON ---- */

#define MB(v_) ((v_) / 1048576.0)

static void write_values(struct json *j, const char *key, double avg, double min, double max,
			 double last)
{
	json_key(j, key);
	json_begin_object(j);
	json_key_f64(j, "avg", avg);
	json_key_f64(j, "min", min);
	json_key_f64(j, "max", max);
	json_key_f64(j, "last", last);
	json_end_object(j);
}

static double count(uint64_t v)
{
	return u64_known(v) ? (double)v : F64_UNKNOWN;
}

static void write_json(struct json *j, const struct minute_row *row)
{
	const struct proc_sample *min = &row->min, *max = &row->max, *last = &row->last;

	json_begin_object(j);
	json_key_f64(j, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_u64(j, "samples", row->n_samples);
	json_key_string(j, "job_id", last->job_id);
	json_key_i64(j, "attempt", row->attempt_num);
	json_key_int(j, "sheet_num", last->sheet_num);
	json_key_i64(j, "pid", last->key.pid);
	json_key_u64(j, "start_ticks", last->key.start_ticks);
	json_key_string(j, "command", last->command);
	write_values(j, "cpu_percent", row->avg.cpu_percent, min->cpu_percent, max->cpu_percent,
		     last->cpu_percent);
	write_values(j, "rss_mb", MB(row->avg.rss_bytes), u64_to_mb(min->rss_bytes),
		     u64_to_mb(max->rss_bytes), u64_to_mb(last->rss_bytes));
	write_values(j, "vms_mb", MB(row->avg.vms_bytes), u64_to_mb(min->vms_bytes),
		     u64_to_mb(max->vms_bytes), u64_to_mb(last->vms_bytes));
	write_values(j, "swap_mb", MB(row->avg.swap_bytes), u64_to_mb(min->swap_bytes),
		     u64_to_mb(max->swap_bytes), u64_to_mb(last->swap_bytes));
	write_values(j, "threads", row->avg.threads, count(min->threads), count(max->threads),
		     count(last->threads));
	write_values(j, "open_fds", row->avg.open_fds, count(min->open_fds), count(max->open_fds),
		     count(last->open_fds));
	write_values(j, "gpu_memory_mb", MB(row->avg.gpu_memory_bytes),
		     u64_to_mb(min->gpu_memory_bytes), u64_to_mb(max->gpu_memory_bytes),
		     u64_to_mb(last->gpu_memory_bytes));
	write_values(j, "gpu_pct", row->avg.gpu_percent, min->gpu_percent, max->gpu_percent,
		     last->gpu_percent);
	json_key_f64(j, "cpu_seconds", u64_to_seconds(last->cpu_ns));
	json_key_u64(j, "read_bytes", last->read_bytes);
	json_key_u64(j, "write_bytes", last->write_bytes);
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
