#include "tui/screen.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/keys.h"

/* ---- styles ---- */

enum { PAIR_TITLE = 1, PAIR_GOOD, PAIR_WARNING, PAIR_BAD, PAIR_BAR };

static const struct {
	attr_t attributes;
	short pair;
} looks[STYLES] = {
	[STYLE_PLAIN] = { A_NORMAL, 0 },	[STYLE_DIM] = { A_DIM, 0 },
	[STYLE_BOLD] = { A_BOLD, 0 },		[STYLE_TITLE] = { A_NORMAL, PAIR_TITLE },
	[STYLE_GOOD] = { A_NORMAL, PAIR_GOOD }, [STYLE_WARNING] = { A_NORMAL, PAIR_WARNING },
	[STYLE_BAD] = { A_BOLD, PAIR_BAD },	[STYLE_BAR] = { A_NORMAL, PAIR_BAR },
};

static void begin_colours(void)
{
	const char *no_color = getenv("NO_COLOR");

	if (!has_colors() || (no_color && no_color[0]))
		return;
	start_color();
	use_default_colors();
	init_pair(PAIR_TITLE, COLOR_CYAN, -1);
	init_pair(PAIR_GOOD, COLOR_GREEN, -1);
	init_pair(PAIR_WARNING, COLOR_YELLOW, -1);
	init_pair(PAIR_BAD, COLOR_RED, -1);
	init_pair(PAIR_BAR, COLOR_BLUE, -1);
}

/* ---- the terminal ---- */

/* What ends us in the middle of it: the terminal first, then as it would have been. */
static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGHUP, SIGQUIT };

static void on_deadly(int sig)
{
	endwin(); /* not safe in a handler, and yet better than a terminal that is left raw */
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_deadly(void (*handler)(int))
{
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		signal(deadly[i], handler);
}

static bool can_place_text(void)
{
	const char *term = getenv("TERM");

	return term && term[0] && strcmp(term, "dumb") != 0 && strcmp(term, "unknown") != 0;
}

int screen_open(struct err *err)
{
	SCREEN *made;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, -ENOTTY,
			       "top wants a terminal: \"proctor top --json\" prints snapshots, and "
			       "\"proctor snapshot\" the one of now");
	if (!can_place_text())
		return err_set(err, -ENOTSUP,
			       "this terminal (TERM=%s) cannot place text: \"proctor snapshot\" "
			       "shows what is now",
			       getenv("TERM") ? getenv("TERM") : "");
	setlocale(LC_CTYPE, "");
	made = newterm(NULL, stdout, stdin);
	if (!made)
		return err_set(err, -ENOTSUP, "this terminal (TERM=%s) is not known here",
			       getenv("TERM"));
	set_term(made);
	catch_deadly(on_deadly);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	begin_colours();
	return 0;
}

void screen_close(void)
{
	if (!isendwin())
		endwin();
	catch_deadly(SIG_DFL);
}

void screen_pause(void)
{
	def_prog_mode();
	endwin();
}

void screen_resume(void)
{
	reset_prog_mode();
	clearok(stdscr, TRUE);
	refresh();
}

void screen_size(int *ret_width, int *ret_height)
{
	getmaxyx(stdscr, *ret_height, *ret_width);
}

/* Cells of one look in a row are written together. */
static void show_cell(const struct cell *cell)
{
	attr_t attributes = looks[cell->style].attributes | (cell->is_selected ? A_REVERSE : 0);

	attr_set(attributes, looks[cell->style].pair, NULL);
	addstr(cell->text[0] ? cell->text : " ");
}

void screen_show(const struct grid *g)
{
	for (int y = 0; y < g->height; y++) {
		move(y, 0);
		for (int x = 0; x < g->width; x++)
			show_cell(&g->cells[y * g->width + x]);
	}
	refresh(); /* sends what has changed */
}

/* ---- keys ---- */

static const struct {
	int from, to;
} known_keys[] = {
	{ KEY_UP, TUI_KEY_UP },
	{ KEY_DOWN, TUI_KEY_DOWN },
	{ KEY_LEFT, TUI_KEY_LEFT },
	{ KEY_RIGHT, TUI_KEY_RIGHT },
	{ KEY_PPAGE, TUI_KEY_PAGE_UP },
	{ KEY_NPAGE, TUI_KEY_PAGE_DOWN },
	{ KEY_HOME, TUI_KEY_HOME },
	{ KEY_END, TUI_KEY_END },
	{ KEY_BACKSPACE, TUI_KEY_BACKSPACE },
	{ KEY_ENTER, TUI_KEY_ENTER },
	{ '\r', TUI_KEY_ENTER },
	{ KEY_F(4), TUI_KEY_F4 },
	{ KEY_F(9), TUI_KEY_F9 },
};

static enum screen_event read_mouse(int *ret)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return SCREEN_NOTHING;
	if (event.bstate & BUTTON1_PRESSED) {
		*ret = event.y;
		return SCREEN_CLICK;
	}
	*ret = event.bstate & BUTTON4_PRESSED ? TUI_KEY_WHEEL_UP : TUI_KEY_WHEEL_DOWN;
	return SCREEN_KEY;
}

enum screen_event screen_read(int *ret)
{
	int key = getch();

	if (key == ERR)
		return SCREEN_NOTHING;
	if (key == KEY_RESIZE)
		return SCREEN_RESIZED;
	if (key == KEY_MOUSE)
		return read_mouse(ret);
	for (size_t i = 0; i < ARRAY_SIZE(known_keys); i++)
		if (known_keys[i].from == key)
			key = known_keys[i].to;
	*ret = key;
	return SCREEN_KEY;
}
