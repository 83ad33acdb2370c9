#include "tui/screen_grid.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"

int grid_resize(struct grid *g, int width, int height)
{
	struct cell *cells = calloc((size_t)width * (size_t)height + 1, sizeof(*cells));

	if (!cells)
		return -ENOMEM;
	free(g->cells);
	*g = (struct grid){ width, height, cells };
	return 0;
}

void grid_release(struct grid *g)
{
	free(g->cells);
	*g = (struct grid)GRID_INIT;
}

int grid_copy(struct grid *to, const struct grid *from)
{
	int r = 0;

	if (to->width != from->width || to->height != from->height)
		r = grid_resize(to, from->width, from->height);
	if (r == 0)
		memcpy(to->cells, from->cells,
		       (size_t)from->width * (size_t)from->height * sizeof(*to->cells));
	return r;
}

void grid_clear(struct grid *g)
{
	memset(g->cells, 0, (size_t)g->width * (size_t)g->height * sizeof(*g->cells));
}

struct area grid_area(struct grid *g)
{
	return (struct area){ g, 0, 0, g->width, g->height };
}

static int clamp(int v, int max)
{
	return v < 0 ? 0 : v > max ? max : v;
}

struct area area_part(const struct area *a, int x, int y, int width, int height)
{
	x = clamp(x, a->width);
	y = clamp(y, a->height);
	return (struct area){ a->grid, a->x + x, a->y + y, clamp(width, a->width - x),
			      clamp(height, a->height - y) };
}

static struct cell *cell_at(const struct area *a, int x, int y)
{
	if (x < 0 || y < 0 || x >= a->width || y >= a->height)
		return NULL;
	return &a->grid->cells[(a->y + y) * a->grid->width + a->x + x];
}

/*
 * How many columns the valid character s[0..n) takes, whatever the user's locale is: 0 (joins the
 * one before it, or is not seen), 1 or 2; -1: it cannot be shown. As the C library knows it for
 * UTF-8, which is what curses asks too: a table of our own would be of another year than theirs.
 */
static int width_of(const char *s, size_t n)
{
	static locale_t utf8; /* made once: it is the same for all, and for ever */
	locale_t before;
	int width;

	if ((unsigned char)s[0] < 0x80)
		return 1;
	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (!utf8)
		return 1; /* this host has none */
	before = uselocale(utf8);
	width = wcwidth((wchar_t)utf8_code_point(s, n));
	uselocale(before);
	return width;
}

/* A character that is one already. Of one of two columns that loses one the other is blank. */
static void set_cell(const struct area *a, int x, int y, enum style style, const char *text,
		     size_t n)
{
	struct cell *end = a->grid->cells + (size_t)a->grid->width * (size_t)a->grid->height;
	struct cell *cell = cell_at(a, x, y);

	if (!cell || n >= sizeof(cell->text))
		return;
	if (cell->is_second)
		cell[-1].text[0] = '\0';
	if (cell + 1 < end && cell[1].is_second) {
		cell[1].is_second = false;
		cell[1].text[0] = '\0';
	}
	cell->is_second = false;
	memcpy(cell->text, text, n);
	cell->text[n] = '\0';
	cell->style = (unsigned char)style;
}

/* Returns the column behind it. What joins the character before it is left out. */
static int put_char(const struct area *a, int x, int y, enum style style, const struct buf *shown)
{
	int width = width_of(shown->data, shown->len);

	if (width < 0 || (width == 2 && x + 1 >= a->width)) {
		/* Half of it would be beyond the edge: a "?" would seem to be part of the text. */
		set_cell(a, x, y, style, width < 0 ? "?" : " ", 1);
		return x + 1;
	}
	if (width == 0)
		return x;
	set_cell(a, x, y, style, shown->data, shown->len);
	if (width == 2) {
		set_cell(a, x + 1, y, style, "", 0);
		if (cell_at(a, x, y))
			cell_at(a, x + 1, y)->is_second = true;
	}
	return x + width;
}

void area_clear(const struct area *a)
{
	for (int y = 0; y < a->height; y++)
		for (int x = 0; x < a->width; x++)
			*cell_at(a, x, y) = (struct cell){ .text = "" };
}

int area_put(const struct area *a, int x, int y, enum style style, const char *text)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n = strlen(text);

	while (n > 0 && x < a->width) {
		size_t taken;

		buf_reset(&shown);
		taken = utf8_add_shown(&shown, text, n);
		if (buf_error(&shown) == 0)
			x = put_char(a, x, y, style, &shown);
		text += taken;
		n -= taken;
	}
	return x;
}

/* Bytes of the next row: as many words as fit; of a word that is too long what fits. */
static size_t row_bytes(const char *text, size_t n, int width)
{
	size_t at = 0, words = 0, bytes;
	int columns = 0;

	while (at < n) {
		CLEANUP(buf_release) struct buf shown = BUF_INIT;
		int wide;

		bytes = utf8_add_shown(&shown, text + at, n - at);
		wide = buf_error(&shown) == 0 ? width_of(shown.data, shown.len) : 1;
		columns += wide < 0 ? 1 : wide;
		if (text[at] == ' ')
			words = at;
		if (columns > width)
			return words > 0 ? words : at > 0 ? at : bytes;
		at += bytes;
	}
	return n;
}

int area_put_wrapped(const struct area *a, int x, int y, enum style style, const char *text)
{
	do {
		size_t n = row_bytes(text, strlen(text), a->width - x);

		area_printf(a, x, y++, style, "%.*s", (int)n, text);
		text += n;
		text += strspn(text, " ");
	} while (*text);
	return y;
}

int area_printf(const struct area *a, int x, int y, enum style style, const char *format, ...)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	return area_put(a, x, y, style, text.data);
}

void area_put_right(const struct area *a, int x, int width, int y, enum style style,
		    const char *text)
{
	int n = (int)utf8_count(text, strlen(text));
	const char *from = text;

	for (; n > width; n--)
		from += utf8_cut(from, strlen(from), UTF8_MAX_BYTES)
				? utf8_char_len(from, strlen(from))
				: 1;
	area_put(a, x + width - n, y, style, from);
}

void area_select_row(const struct area *a, int y, enum selected how)
{
	for (int x = 0; x < a->width; x++) {
		struct cell *cell = cell_at(a, x, y);

		if (cell)
			cell->selected = (unsigned char)how;
	}
}

/* Eighths of a column, from one to all. */
static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };

void area_bar(const struct area *a, int x, int y, int width, enum style style, double share)
{
	int filled, whole;

	if (isnan(share)) {
		area_put(a, x, y, STYLE_DIM, "?");
		return;
	}
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	filled = (int)lround(share * width * 8);
	whole = filled / 8;
	for (int i = 0; i < width; i++) {
		const char *part = i < whole ? eighths[8] : i == whole ? eighths[filled % 8] : "";

		if (part[0])
			set_cell(a, x + i, y, style, part, strlen(part));
		else
			set_cell(a, x + i, y, STYLE_DIM, "·", strlen("·"));
	}
}

void grid_to_text(const struct grid *g, struct buf *out)
{
	for (int y = 0; y < g->height; y++) {
		const struct cell *row = &g->cells[y * g->width];
		int end = g->width;

		while (end > 0 && (!row[end - 1].text[0] || strcmp(row[end - 1].text, " ") == 0))
			end--;
		if (g->width > 0 && row[0].selected)
			buf_add_char(out, row[0].selected == SELECTED ? '>' : '|');
		for (int x = 0; x < end; x++)
			buf_add_str(out, row[x].text[0]	    ? row[x].text
					 : row[x].is_second ? ""
							    : " ");
		buf_add_char(out, '\n');
	}
}
