#include "base/unknown.h"
#include "report/format.h"
#include "report/page.h"
#include "report/report.h"

#define MAX_CALLS 10

static uint64_t sum_cpu_ns(const struct attempt *a)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->n_syscalls; i++)
		if (u64_known(a->syscalls[i].cpu_ns))
			sum += a->syscalls[i].cpu_ns;
	return sum;
}

static void add_share(struct buf *out, uint64_t cpu_ns, uint64_t total_ns)
{
	if (u64_known(cpu_ns) && total_ns > 0)
		buf_printf(out, "%.1f %%", 100.0 * (double)cpu_ns / (double)total_ns);
	else
		buf_add_char(out, '-');
}

static void add_call(struct table *t, const struct syscall_use *use, uint64_t total_ns)
{
	format_string(table_cell(t), use->name);
	format_count(table_cell(t), use->count);
	format_count(table_cell(t), use->errors);
	report_add_duration(table_cell(t), use->cpu_ns);
	add_share(table_cell(t), use->cpu_ns, total_ns);
	report_add_duration(table_cell(t), use->wait_ns);
}

static const char *say_how_many(const struct facts *f)
{
	if (facts_syscall_evidence(f) == EVIDENCE_EXACT)
		return "all of all processes";
	return "at least: what is missing is said below";
}

void page_add_syscalls(struct doc *d, const struct facts *f)
{
	static const struct column columns[] = {
		{ "call", COLUMN_LEFT }, { "calls", COLUMN_RIGHT }, { "errors", COLUMN_RIGHT },
		{ "CPU", COLUMN_RIGHT }, { "share", COLUMN_RIGHT }, { "waiting", COLUMN_RIGHT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	CLEANUP(buf_release) struct buf heading = BUF_INIT;
	const struct attempt *a = f->a;
	uint64_t total_ns = sum_cpu_ns(a);

	if (a->n_syscalls == 0)
		return;
	for (size_t i = 0; i < a->n_syscalls && i < MAX_CALLS; i++)
		add_call(&t, &a->syscalls[i], total_ns);
	buf_printf(&heading, "System calls (%s", say_how_many(f));
	if (a->n_syscalls > MAX_CALLS)
		buf_printf(&heading, "; the first %d of %zu", MAX_CALLS, a->n_syscalls);
	buf_add_char(&heading, ')');
	d->writer->section(d, heading.data);
	d->writer->table(d, &t);
}
