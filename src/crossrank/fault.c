#include <string.h>

#include "base/utf8.h"
#include "crossrank/intake.h"

#define MAX_FIELD 100 /* bytes of a name that is told: a record may have any */

static void add_shown(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n;)
		i += utf8_add_shown(out, text + i, n - i);
}

static void add_field(struct buf *out, struct text field)
{
	buf_add_str(out, ": ");
	add_shown(out, field.s, field.n < MAX_FIELD ? field.n : MAX_FIELD);
	if (field.n > MAX_FIELD)
		buf_add_str(out, "...");
}

/* A record of the text that its end cut off; or the compressed file ended, wherever that was. */
static const char *how_cut(const struct fault *fault)
{
	return fault->reason == REASON_BAD_COMPRESSION
		       ? ": the file was cut off; all before is read"
		       : ": the file ends in it, only this record is lost";
}

void fault_add_text(struct buf *out, const struct fault *fault)
{
	bool is_cut_file = fault->is_cut && fault->reason == REASON_BAD_COMPRESSION;

	buf_add_char(out, '\'');
	add_shown(out, fault->file, strlen(fault->file));
	buf_printf(out, "':%llu: %s", (unsigned long long)fault->line,
		   is_cut_file ? "is where the compressed data end"
			       : reason_in_words(fault->reason));
	if (fault->field.s)
		add_field(out, fault->field);
	buf_printf(out, " (%s)%s", reason_name(fault->reason), fault->is_cut ? how_cut(fault) : "");
}
