#include "tui/tui.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tui/aside.h"
#include "tui/draw.h"
#include "tui/feed.h"
#include "tui/keys.h"
#include "tui/screen.h"

#define LOOK_FOR_DAEMON_NS UINT64_C(5000000000)
#define MAX_IDLE_MS 1000
#define SAY_NS UINT64_C(5000000000) /* what came of a key, unless the next comes sooner */

struct tui {
	const struct tui_options *options;
	struct feed feed;
	struct scene scene;
	struct grid grid;
	uint64_t looked_boot_ns;     /* for a daemon, where there was none */
	struct grid shown;	     /* as the terminal has it; of another size: not at all */
	char said[SCENE_TEXT_BYTES]; /* the message that is shown… */
	uint64_t said_boot_ns;	     /* …and since when */
	bool is_over;
};

/* All of it is drawn the next time: somebody else has written on the terminal, or it was smaller in
 * between and has lost what was beyond its edge. */
static void forget_shown(struct tui *t)
{
	grid_release(&t->shown);
	screen_redraw();
}

/* ---- what the user wants done ---- */

static int trace(struct tui *t, const struct wish *wish, struct err *err)
{
	int r;

	if (!t->options->helpers->trace)
		return err_set(err, -EOPNOTSUPP, "this build cannot trace");
	screen_pause();
	r = t->options->helpers->trace(&wish->key, err);
	screen_resume();
	forget_shown(t);
	return r;
}

static int grant(struct tui *t, const struct wish *wish, struct err *err)
{
	int r = t->feed.ops->grant(t->feed.ctx, &t->scene, wish, err);

	if (r != -EOPNOTSUPP)
		return r;
	if (wish->kind == WISH_SIGNAL)
		return t->options->helpers->signal(&wish->key, wish->signal, err);
	return wish->kind == WISH_TRACE ? trace(t, wish, err) : 0;
}

/* With what it was done to: another may be selected by now. */
PRINTF_LIKE(2, 3)
static void say_done(struct scene *s, const char *format, ...)
{
	char text[2 * SCENE_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	scene_say(s, text);
}

/* In the words of the question. */
static void say_cancelled(struct scene *s, const struct wish *wish)
{
	if (wish->attempt_num > 0 && wish->has_twin)
		say_done(s, "attempt %d of the job %s is being cancelled", wish->attempt_num,
			 wish->job_id);
	else
		say_done(s, "%s %s is being cancelled",
			 wish->is_queued ? "what waits of the job" : "the job", wish->job_id);
}

/* One that waits to be confirmed is left alone. */
static void grant_wish(struct tui *t)
{
	struct wish wish = t->scene.wish;
	struct err err = ERR_INIT;

	if (wish.kind == WISH_NONE || t->scene.overlay == OVERLAY_CONFIRM)
		return;
	t->scene.wish.kind = WISH_NONE;
	if (wish.kind == WISH_REDRAW)
		forget_shown(t);
	if (wish.kind == WISH_QUIT) {
		t->is_over = true;
		return;
	}
	if (grant(t, &wish, &err) < 0)
		scene_say(&t->scene, err.text);
	else if (wish.kind == WISH_CANCEL_JOB)
		say_cancelled(&t->scene, &wish);
	else if (wish.kind == WISH_SIGNAL)
		say_done(&t->scene, "the signal was sent to pid %d", (int)wish.key.pid);
	scene_refresh(&t->scene);
}

/* ---- the loop ---- */

static int fit(struct tui *t)
{
	int width, height;

	screen_size(&width, &height);
	if (width == t->grid.width && height == t->grid.height)
		return 0;
	return grid_resize(&t->grid, width, height);
}

static int show(struct tui *t, struct err *err)
{
	if (fit(t) < 0)
		return err_set(err, -ENOMEM, "no memory left for the screen");
	draw_scene(&t->scene, &t->grid);
	screen_show(&t->grid, &t->shown);
	if (grid_copy(&t->shown, &t->grid) < 0)
		grid_release(&t->shown); /* then all of it the next time */
	return 0;
}

/* What was said is not true for ever, and hides the hints. True: it is gone. */
static bool drop_message(struct tui *t)
{
	struct scene *s = &t->scene;

	if (strcmp(t->said, s->message) != 0) {
		memcpy(t->said, s->message, sizeof(t->said));
		t->said_boot_ns = clock_boot_ns();
	}
	if (!s->message[0] || clock_boot_ns() - t->said_boot_ns < SAY_NS)
		return false;
	s->message[0] = '\0';
	return true;
}

/* For how long nothing is to be done unless somebody says a word, in ms. Not for ever: a terminal
 * that is resized just before we wait is seen, and a message goes. */
static int idle_ms(const struct tui *t)
{
	int feed_ms = t->feed.ops->timeout_ms(t->feed.ctx, &t->scene);

	return feed_ms < 0 || feed_ms > MAX_IDLE_MS ? MAX_IDLE_MS : feed_ms;
}

/* True: something was pressed. */
static bool read_keys(struct tui *t)
{
	bool has_read = false;
	struct screen_input input;
	enum screen_event event;

	while (!t->is_over && (event = screen_read(&input)) != SCREEN_NOTHING) {
		has_read = true;
		if (event == SCREEN_WHEEL)
			keys_wheel(&t->scene, input.key, input.y);
		else if (event == SCREEN_KEY)
			keys_press(&t->scene, input.key);
		else if (event == SCREEN_CLICK)
			keys_click(&t->scene, input.x, input.y);
		else if (event == SCREEN_RESIZED)
			forget_shown(t);
		grant_wish(t);
	}
	return has_read;
}

static void wait_for_something(struct tui *t)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = t->feed.ops->fd ? t->feed.ops->fd(t->feed.ctx) : -1, .events = POLLIN },
	};

	poll(fds, ARRAY_SIZE(fds), idle_ms(t)); /* SIGWINCH ends it too */
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		t->is_over = true; /* the terminal is gone */
}

/* The other may know the job by another number, and nothing of what waits. */
static void withdraw_question(struct scene *s)
{
	if (s->overlay != OVERLAY_CONFIRM || s->wish.kind != WISH_CANCEL_JOB)
		return;
	s->overlay = OVERLAY_NONE;
	s->wish.kind = WISH_NONE;
	scene_say(s, "nothing is cancelled: who is asked has changed");
}

/* What the one has told the other tells in words of its own. */
static void change_feed(struct tui *t, const struct feed *feed, enum scene_source source)
{
	t->feed.ops->close(t->feed.ctx);
	t->feed = *feed;
	t->scene.source = source;
	withdraw_question(&t->scene);
	scene_forget_past(&t->scene);
	map_clear(&t->scene.recalled); /* the other may not have answered */
}

/* A daemon that was started meanwhile knows more than we see by ourselves. What is paused stays as
 * it is. */
static void look_for_daemon(struct tui *t)
{
	struct feed feed = { 0 };
	uint64_t now = clock_boot_ns();

	if (t->scene.source != SOURCE_OWN || t->scene.is_paused ||
	    now - t->looked_boot_ns < LOOK_FOR_DAEMON_NS)
		return;
	t->looked_boot_ns = now;
	if (feed_open_daemon(t->options, &feed, NULL) == 0)
		change_feed(t, &feed, SOURCE_DAEMON);
}

static int look_alone(struct tui *t, struct err *err)
{
	struct feed feed = { 0 };
	int r = feed_open_own(t->options, &feed, err);

	if (r < 0)
		return r;
	t->looked_boot_ns = clock_boot_ns();
	change_feed(t, &feed, SOURCE_OWN);
	return 1;
}

/* What looking has said by the way, on stderr, has its place too. */
static bool say_asides(struct scene *s)
{
	char text[SCENE_TEXT_BYTES];

	if (!aside_read(text, sizeof(text)))
		return false;
	scene_say(s, text);
	return true;
}

/* True: there is something new to be seen. */
static bool pump(struct tui *t)
{
	struct err trouble = ERR_INIT;
	bool has_said;
	int r;

	look_for_daemon(t);
	r = t->feed.ops->pump(t->feed.ctx, &t->scene, &trouble);
	if (r == -ENOENT && t->scene.source == SOURCE_DAEMON)
		r = look_alone(t, &trouble);
	has_said = say_asides(&t->scene);
	if (r < 0)
		scene_say(&t->scene, trouble.text);
	return r != 0 || has_said;
}

/* Of what is looked at more closely the past is wanted too, once. */
static void recall(struct tui *t)
{
	struct scene *s = &t->scene;
	const struct node *node = s->shows_detail && !s->is_in_events ? scene_selected(s) : NULL;

	if (!node || !t->feed.ops->recall || map_get(&s->recalled, node->id, NULL))
		return;
	if (t->feed.ops->recall(t->feed.ctx, s, node))
		map_put(&s->recalled, node->id, 1); /* without memory it is asked again */
}

/* A long snapshot comes in many pieces: only when it is whole there is something to draw. */
static int loop(struct tui *t, struct err *err)
{
	bool has_changed = true;

	while (!t->is_over) {
		int r;

		has_changed |= pump(t);
		recall(t);
		has_changed |= drop_message(t);
		r = has_changed ? show(t, err) : 0;
		if (r < 0)
			return r;
		wait_for_something(t);
		has_changed = read_keys(t);
	}
	return 0;
}

/* ---- opening ---- */

/* Without the place, which takes the room of the reason; who plays daemon is a reason in itself. */
static void note_why(struct scene *s, int r, const struct err *trouble)
{
	if (r == -EPERM)
		snprintf(s->no_daemon, sizeof(s->no_daemon), "%.*s", (int)sizeof(s->no_daemon) - 1,
			 trouble->text);
	else
		snprintf(s->no_daemon, sizeof(s->no_daemon), "cannot connect: %s", strerror(-r));
}

static int open_feed(struct tui *t, struct err *err)
{
	struct err trouble = ERR_INIT;
	int r;

	if (t->options->since_wall_ns) {
		t->scene.source = SOURCE_REPLAY;
		snprintf(t->scene.source_note, sizeof(t->scene.source_note), "recorded");
		return feed_open_replay(t->options, &t->feed, err);
	}
	t->scene.source = SOURCE_DAEMON;
	r = feed_open_daemon(t->options, &t->feed, &trouble);
	if (r == 0)
		return 0;
	if (r != -ENOENT)
		note_why(&t->scene, r, &trouble);
	t->scene.source = SOURCE_OWN;
	return feed_open_own(t->options, &t->feed, err);
}

static void close_tui(struct tui *t)
{
	if (t->feed.ops)
		t->feed.ops->close(t->feed.ctx);
	scene_release(&t->scene);
	grid_release(&t->grid);
	grid_release(&t->shown);
}

int tui_run(const struct tui_options *options, struct err *err)
{
	CLEANUP(close_tui)
	struct tui t = { .options = options, .grid = GRID_INIT, .shown = GRID_INIT };
	int r;

	scene_init(&t.scene);
	t.scene.job_id = options->job_id;
	r = open_feed(&t, err);
	if (r == 0)
		r = screen_open(err);
	if (r < 0)
		return r;
	r = loop(&t, err);
	screen_close();
	return r;
}
