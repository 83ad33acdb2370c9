#include "cli/show.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "report/report.h"

void show_cell(struct buf *out, struct buf *text, size_t width)
{
	for (size_t n = text->len; n < width; n++)
		buf_add_char(out, ' ');
	buf_add(out, text->data, text->len);
	buf_add_str(out, "  ");
	buf_reset(text);
}

void show_text(struct buf *out, const char *text, size_t width)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;

	cli_add_text(&shown, text, width);
	buf_add(out, shown.data, shown.len);
	for (size_t n = utf8_count(shown.data, shown.len); n < width + 2; n++)
		buf_add_char(out, ' ');
}

#define JOB_COLUMNS 30

void show_job(struct buf *out, const char *name)
{
	const char *number = strrchr(name, '#'); /* is in no name of a job */
	size_t behind = number ? utf8_count(number, strlen(number)) : 0;

	if (utf8_count(name, strlen(name)) <= JOB_COLUMNS) {
		cli_add_text(out, name, JOB_COLUMNS);
		return;
	}
	cli_add_text(out, name, behind < JOB_COLUMNS ? JOB_COLUMNS - 1 - behind : 0);
	buf_add_str(out, "…");
	cli_add_text(out, number ? number : "", JOB_COLUMNS - 1);
}

void show_moment(struct buf *out, uint64_t wall_ns)
{
	char when[32] = "-";

	if (!u64_known(wall_ns)) {
		buf_printf(out, "%-23s", when);
		return;
	}
	clock_format_local(wall_ns, when, sizeof(when));
	buf_printf(out, "%s.%03u", when, (unsigned)(wall_ns / 1000000u % 1000u));
}

void show_host(struct buf *out, const struct system_sample *sys)
{
	buf_add_str(out, "memory ");
	report_add_bytes(out, sys->memory_used_bytes);
	buf_add_str(out, " of ");
	report_add_bytes(out, sys->memory_total_bytes);
	buf_add_str(out, " used, ");
	report_add_bytes(out, sys->memory_available_bytes);
	buf_add_str(out, " available; load ");
	if (f64_known(sys->load1))
		buf_printf(out, "%.2f %.2f %.2f", sys->load1, sys->load5, sys->load15);
	else
		buf_add_char(out, '-');
}

static void add_value(struct buf *out, double value, const char *unit)
{
	if (f64_known(value))
		buf_printf(out, "%.0f%s", value, unit);
	else
		buf_printf(out, "-%s", unit);
}

static void add_megabytes(struct buf *out, double mb)
{
	report_add_bytes(out, f64_known(mb) ? (uint64_t)(mb * 1024 * 1024) : U64_UNKNOWN);
}

void show_gpu(struct buf *out, const struct gpu_sample *gpu)
{
	buf_printf(out, "GPU %d: %s", gpu->index, gpu->is_lost ? "lost\n" : "");
	if (gpu->is_lost)
		return;
	add_value(out, gpu->utilization_pct, " % busy, ");
	add_megabytes(out, gpu->memory_used_mb);
	buf_add_str(out, " of ");
	add_megabytes(out, gpu->memory_total_mb);
	buf_add_str(out, " used, ");
	add_value(out, gpu->temperature_c, " C, ");
	add_value(out, gpu->power_watts, " W\n");
}

void show_process_titles(struct buf *out)
{
	buf_add_str(out, "    PID  S    CPU%        RSS  JOB  COMMAND\n");
}

void show_process(struct buf *out, const struct proc_sample *p)
{
	CLEANUP(buf_release) struct buf rss = BUF_INIT;

	report_add_bytes(&rss, p->rss_bytes);
	buf_printf(out, "%7d  %c  ", (int)p->key.pid, p->state);
	if (f64_known(p->cpu_percent))
		buf_printf(out, "%6.1f  %9s  ", p->cpu_percent, rss.data);
	else
		buf_printf(out, "%6s  %9s  ", "-", rss.data);
	show_job(out, p->job_id ? p->job_id : "-");
	buf_add_str(out, "  ");
	cli_add_text(out, p->command ? p->command : p->comm, 60);
	buf_add_char(out, '\n');
}

void show_event_json(struct buf *out, const struct event_row *row)
{
	char name[32];
	struct json j;

	snprintf(name, sizeof(name), "process.%s", event_type_name(row->event.type));
	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "event", name);
	proc_event_write_fields(&j, &row->event);
	json_key_i64(&j, "attempt", row->attempt_num);
	json_end_object(&j);
	buf_add_char(out, '\n');
}
