#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "report/doc.h"
#include "report/facts.h"
#include "report/json.h"
#include "report/page.h"
#include "report/summary.h"

static int write_page(struct buf *out, const struct facts *f, const struct doc_writer *writer)
{
	struct doc d = { .writer = writer, .out = out };

	return page_write(&d, f);
}

static int write_text(struct buf *out, const struct facts *f)
{
	return write_page(out, f, &text_writer);
}

static int write_markdown(struct buf *out, const struct facts *f)
{
	return write_page(out, f, &markdown_writer);
}

static int write_html(struct buf *out, const struct facts *f)
{
	return write_page(out, f, &html_writer);
}

static const struct {
	const char *name;
	int (*write)(struct buf *out, const struct facts *f);
} formats[] = {
	[REPORT_TEXT] = { "text", write_text },
	[REPORT_JSON] = { "json", json_report_write },
	[REPORT_MARKDOWN] = { "md", write_markdown },
	[REPORT_HTML] = { "html", write_html },
};

const char *report_format_name(enum report_format format)
{
	return formats[format].name;
}

int report_format_from_name(const char *name, enum report_format *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strcmp(formats[i].name, name) == 0) {
			*ret = (enum report_format)i;
			return 0;
		}
	return -EINVAL;
}

static int write_facts(const struct attempt *a, struct buf *out,
		       int (*write)(struct buf *out, const struct facts *f))
{
	struct facts f;
	int r = facts_init(&f, a);

	if (r < 0)
		return r;
	r = write(out, &f);
	facts_release(&f);
	return r;
}

int report_write(const struct attempt *a, enum report_format format, struct buf *out)
{
	return write_facts(a, out, formats[format].write);
}

int report_write_summary(const struct attempt *a, struct buf *out)
{
	return write_facts(a, out, summary_write);
}
