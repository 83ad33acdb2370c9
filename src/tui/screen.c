#include "tui/screen.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/macros.h"
#include "tui/keys.h"

/* ---- what is written on stderr meanwhile ---- */

#define READ_BYTES 4096

/* There is one stderr, and a handler of signals can be handed nothing. -1: nothing is begun. */
static struct {
	int read_fd, stderr_fd;
} aside = { -1, -1 };

/* A full pipe loses what comes then: a writer never waits. */
void aside_begin(void)
{
	int fds[2];

	if (aside.read_fd >= 0 || !isatty(STDERR_FILENO) || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	aside.stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (aside.stderr_fd >= 0 && dup2(fds[1], STDERR_FILENO) < 0)
		close_fd(&aside.stderr_fd);
	close_fd(&fds[1]);
	if (aside.stderr_fd < 0)
		close_fd(&fds[0]);
	else
		aside.read_fd = fds[0];
}

bool aside_read(char *ret, size_t size)
{
	static const char name[] = "proctor: ";
	char text[READ_BYTES];
	ssize_t n;

	ret[0] = '\0';
	while (aside.read_fd >= 0 && (n = read(aside.read_fd, text, sizeof(text) - 1)) > 0) {
		char *rest = text, *line;

		text[n] = '\0';
		while ((line = strsep(&rest, "\n"))) {
			line += strncmp(line, name, strlen(name)) == 0 ? strlen(name) : 0;
			if (line[0])
				snprintf(ret, size, "%s", line);
		}
	}
	return ret[0] != '\0';
}

/* Only what a handler of signals may call. */
void aside_end(void)
{
	int saved = errno;
	char text[READ_BYTES];
	ssize_t n;

	if (aside.read_fd < 0)
		return;
	dup2(aside.stderr_fd, STDERR_FILENO);
	while ((n = read(aside.read_fd, text, sizeof(text))) > 0)
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			break; /* stderr is gone */
	close(aside.stderr_fd);
	close(aside.read_fd);
	aside.read_fd = aside.stderr_fd = -1;
	errno = saved;
}

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
		return; /* pairs that were never made look like the plain one */
	start_color();
	use_default_colors();
	init_pair(PAIR_TITLE, COLOR_CYAN, -1);
	init_pair(PAIR_GOOD, COLOR_GREEN, -1);
	init_pair(PAIR_WARNING, COLOR_YELLOW, -1);
	init_pair(PAIR_BAD, COLOR_RED, -1);
	init_pair(PAIR_BAR, COLOR_BLUE, -1);
}

/* ---- the terminal ---- */

/*
 * What the terminal was before, for a signal that ends us in the middle of it. A handler of signals
 * can be handed nothing, and there is one terminal.
 */
static struct {
	struct termios modes;
	char bytes[256]; /* that leave the mouse, the keypad, colours and the second screen */
	size_t n;
	volatile sig_atomic_t is_left; /* they were sent: the terminal is another's */
} before;

/* All that end a process which has not asked for them, but KILL and those of real time. */
static const int deadly[] = { SIGSEGV, SIGBUS,	SIGFPE,	 SIGILL,   SIGABRT, SIGSYS,
			      SIGTRAP, SIGTERM, SIGHUP,	 SIGINT,   SIGQUIT, SIGPIPE,
			      SIGUSR1, SIGUSR2, SIGALRM, SIGPROF,  SIGXCPU, SIGVTALRM,
			      SIGXFSZ, SIGIO,	SIGPWR,	 SIGSTKFLT };

/*
 * Only what a handler may call: curses may not be called, and malloc() may be where it broke. In
 * the background the terminal is another's, and touching it would stop us instead.
 */
static void on_deadly(int sig)
{
	ssize_t n;

	signal(SIGTTOU, SIG_IGN);
	if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
		n = before.is_left ? 0 : write(STDOUT_FILENO, before.bytes, before.n);
		(void)n;
		tcsetattr(STDIN_FILENO, TCSANOW, &before.modes);
	}
	aside_end();
	raise(sig); /* as it would have been: it waits until the handler has returned */
}

/* On a stack of its own: what ends us may be that ours is full. */
static void catch_deadly(void)
{
	static char stack[16384];
	const stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };
	const struct sigaction action = { .sa_handler = on_deadly,
					  .sa_flags = SA_ONSTACK | (int)SA_RESETHAND };

	sigaltstack(&own, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		sigaction(deadly[i], &action, NULL);
}

/* NULL: this terminal cannot do it. */
static const char *string_of(const char *name)
{
	const char *text = tigetstr(name);

	return text == (const char *)-1 ? NULL : text;
}

/* Without "$<5>": pauses that terminals of long ago needed. */
static void add_bytes(const char *text)
{
	for (; text && *text && before.n < sizeof(before.bytes); text++) {
		const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;

		if (end)
			text = end;
		else
			before.bytes[before.n++] = *text;
	}
}

/* Where there is no second screen the prompt comes where the keys were shown. */
static void note_how_to_leave(void)
{
	static const char *const names[] = { "rmkx", "sgr0", "cnorm", "rmcup" };
	const char *mouse = string_of("XM");

	before.n = 0;
	before.is_left = false;
	add_bytes(mouse ? tiparm(mouse, 0) : "\033[?1000l");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add_bytes(string_of(names[i]));
	if (!string_of("rmcup") && string_of("cup") && string_of("el")) {
		add_bytes(tiparm(string_of("cup"), LINES - 1, 0));
		add_bytes(string_of("el"));
	}
}

/*
 * Also those that mean nothing here: what is not asked for curses swallows, and then waits for a
 * key, whatever nodelay() said. But no clicks: it would make one of pressing and letting go.
 */
#define MOUSE_EVENTS                                                               \
	(BUTTON1_PRESSED | BUTTON1_RELEASED | BUTTON2_PRESSED | BUTTON2_RELEASED | \
	 BUTTON3_PRESSED | BUTTON3_RELEASED | BUTTON4_PRESSED | BUTTON4_RELEASED | \
	 BUTTON5_PRESSED | BUTTON5_RELEASED)

int screen_open(struct err *err)
{
	const char *term = getenv("TERM") ? getenv("TERM") : "";
	SCREEN *made;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, -ENOTTY, "top wants a terminal");
	if (!term[0] || strcmp(term, "dumb") == 0 || strcmp(term, "unknown") == 0)
		return err_set(err, -ENOTSUP,
			       "this terminal (TERM=%s) cannot place text: \"proctor top … | cat\" "
			       "prints the screen as text",
			       term);
	setlocale(LC_CTYPE, "");
	tcgetattr(STDIN_FILENO, &before.modes);
	made = newterm(NULL, stdout, stdin);
	if (!made)
		return err_set(err, -ENOTSUP, "this terminal (TERM=%s) is not known here", term);
	set_term(made);
	note_how_to_leave();
	catch_deadly();
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	mousemask(MOUSE_EVENTS, NULL);
	mouseinterval(0);
	begin_colours();
	aside_begin();
	return 0;
}

/* A signal that comes in between leaves it twice, rather than not at all. */
static void leave(void)
{
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
	before.is_left = true;
	aside_end();
}

void screen_close(void)
{
	if (!isendwin())
		leave();
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		signal(deadly[i], SIG_DFL);
}

void screen_pause(void)
{
	def_prog_mode();
	leave();
}

void screen_resume(void)
{
	before.is_left = false;
	reset_prog_mode();
	clearok(stdscr, TRUE);
	refresh();
	aside_begin();
}

void screen_redraw(void)
{
	clearok(curscr, TRUE); /* with the next refresh */
}

void screen_size(int *ret_width, int *ret_height)
{
	getmaxyx(stdscr, *ret_height, *ret_width);
}

/* ---- what is shown ---- */

/* For a locale that cannot show them: what we draw ourselves has a likeness. */
static const char *plain_of(const char *text)
{
	static const char *const likes[][2] = {
		{ "▁", "_" }, { "▂", "." }, { "▃", "-" }, { "▄", "=" }, { "▅", "+" }, { "▆", "*" },
		{ "▇", "%" }, { "█", "#" }, { "▉", "#" }, { "▊", "#" }, { "▋", "#" }, { "▌", "#" },
		{ "▍", "." }, { "▎", "." }, { "▏", "." }, { "·", "." }, { "▾", "v" }, { "×", "x" },
		{ "°", "'" }, { "↑", "^" }, { "↓", "v" }, { "←", "<" }, { "→", ">" }, { "…", "." },
	};

	if ((unsigned char)text[0] < 0x80)
		return text;
	for (size_t i = 0; i < ARRAY_SIZE(likes); i++)
		if (strcmp(text, likes[i][0]) == 0)
			return likes[i][1];
	/* U+2800 and more: braille, of a curve */
	return strncmp(text, "\xe2\xa0", 2) == 0 || strncmp(text, "\xe2\xa3", 2) == 0 ||
			       strncmp(text, "\xe2\xa1", 2) == 0 ||
			       strncmp(text, "\xe2\xa2", 2) == 0
		       ? ":"
		       : "?";
}

static const attr_t selected_looks[] = {
	[SELECTED] = A_REVERSE,
	[SELECTED_BEFORE] = A_UNDERLINE,
};

void screen_show(const struct grid *g, const struct grid *shown)
{
	bool is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	bool is_same_size = g->width == shown->width && g->height == shown->height;
	size_t row_bytes = (size_t)g->width * sizeof(*g->cells);

	for (int y = 0; y < g->height; y++) {
		const struct cell *row = &g->cells[y * g->width];

		/* Each is put in its place, whatever the terminal and curses took for the width of
		 * those before. */
		if (!is_same_size || memcmp(row, &shown->cells[y * g->width], row_bytes) != 0) {
			for (int x = 0; x < g->width; x++) {
				const struct cell *cell = &row[x];
				const char *text = cell->text[0] ? cell->text : " ";

				if (cell->is_second && is_utf8)
					continue;
				move(y, x);
				attr_set(looks[cell->style].attributes |
						 selected_looks[cell->selected],
					 looks[cell->style].pair, NULL);
				addstr(cell->is_second ? " " : is_utf8 ? text : plain_of(text));
			}
		}
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
	{ KEY_F(1), TUI_KEY_F1 },
	{ KEY_F(3), TUI_KEY_F3 },
	{ KEY_F(4), TUI_KEY_F4 },
	{ KEY_F(6), TUI_KEY_F6 },
	{ KEY_F(9), TUI_KEY_F9 },
	{ KEY_F(10), TUI_KEY_F10 },
};

/*
 * What comes in one go curses tells as one key, the last event first: of pressing and letting go
 * the former is behind the latter. SCREEN_NOTHING: a button was let go, or the like.
 */
static enum screen_event read_mouse(struct screen_input *ret)
{
	MEVENT event, press = { 0 };

	while (getmouse(&event) == OK)
		if (event.bstate & (BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED))
			press = event;
	if (!press.bstate)
		return SCREEN_NOTHING;
	ret->x = press.x;
	ret->y = press.y;
	ret->key = press.bstate & BUTTON4_PRESSED ? TUI_KEY_WHEEL_UP : TUI_KEY_WHEEL_DOWN;
	return press.bstate & BUTTON1_PRESSED ? SCREEN_CLICK : SCREEN_WHEEL;
}

static bool is_printable(int c)
{
	return c >= 0x20 && c <= 0x7e;
}

/*
 * Behind an escape: the rest of a sequence that curses does not know, as of a keypad, or of a
 * window that is looked at again, or the key that was pressed with Alt. Its bytes are no keys.
 * False: there is none, and nothing was taken.
 */
static bool skip_sequence(void)
{
	int begin = getch(), c;

	if (!is_printable(begin)) { /* ERR, too: Esc itself */
		if (begin != ERR)
			ungetch(begin);
		return false;
	}
	if (begin != '[' && begin != 'O')
		return true;
	c = getch();
	while (begin == '[' && c >= 0x20 && c <= 0x3f) /* its numbers; another byte ends it */
		c = getch();
	if (c != ERR && !is_printable(c))
		ungetch(c); /* no byte of it, but a key, a click or another size */
	return true;
}

enum screen_event screen_read(struct screen_input *ret)
{
	enum screen_event event;
	int key;

	while ((key = getch()) == KEY_MOUSE || (key == TUI_KEY_ESCAPE && skip_sequence())) {
		event = key == KEY_MOUSE ? read_mouse(ret) : SCREEN_NOTHING;
		if (event != SCREEN_NOTHING)
			return event;
	}
	if (key == ERR)
		return SCREEN_NOTHING;
	if (key == KEY_RESIZE)
		return SCREEN_RESIZED;
	for (size_t i = 0; i < ARRAY_SIZE(known_keys); i++)
		if (known_keys[i].from == key)
			key = known_keys[i].to;
	ret->key = key;
	return SCREEN_KEY;
}
