#include "cli/show_anomaly.h"

#include <stdio.h>

#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "report/report.h"

void show_anomaly_titles(struct buf *out)
{
	buf_add_str(out, "BEGAN                    LASTED     SEVERITY  TYPE               COUNT  "
			 "JOB               WHAT\n");
}

static void add_length(struct buf *out, const struct episode *e)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (u64_known(e->ended_wall_ns))
		report_add_lasted(&text, e);
	else
		buf_add_str(&text, "lasts");
	show_text(out, text.data, 9);
}

void show_anomaly(struct buf *out, const struct episode *e)
{
	show_moment(out, e->began_wall_ns);
	buf_add_str(out, "  ");
	add_length(out, e);
	buf_printf(out, "%-8s  %-17s  %5llu  ", severity_name(e->worst.severity),
		   anomaly_type_name(e->worst.type), (unsigned long long)e->count);
	show_text(out, e->worst.job_id ? e->worst.job_id : "-", 16);
	cli_add_text(out, e->worst.text, ANOMALY_TEXT_BYTES);
	if (!u64_known(e->ended_wall_ns) && u64_known(e->seen_wall_ns)) {
		buf_add_str(out, "; as of ");
		show_moment(out, e->seen_wall_ns);
	}
	buf_add_char(out, '\n');
}

void show_anomaly_json(struct json *j, const struct episode *e, int attempt_num)
{
	json_begin_object(j);
	episode_write_fields(j, e);
	json_key_int(j, "attempt", attempt_num > 0 ? attempt_num : -1);
	json_end_object(j);
}
