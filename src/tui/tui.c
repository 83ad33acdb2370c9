#include "tui/tui.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tui/draw.h"
#include "tui/feed.h"
#include "tui/keys.h"
#include "tui/screen.h"

#define LOOK_FOR_DAEMON_NS UINT64_C(5000000000)
#define MAX_IDLE_MS 1000
#define SAY_NS UINT64_C(5000000000)	  /* what came of a key, unless the next comes sooner */
#define TEXT_SECONDS 60.0		  /* of what was recorded, for one screen of text */
#define TEXT_LOOK_SECONDS 0.5		  /* between the two looks of one screen of now */
#define TEXT_WAIT_NS UINT64_C(3000000000) /* for the second of them */

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

/* All of it is drawn the next time: another program has written on the terminal, or it was smaller
 * in between and has lost what was beyond its edge. */
static void forget_shown(struct tui *t)
{
	grid_release(&t->shown);
	screen_redraw();
}

/* ---- what the user wants done ---- */

static int grant(struct tui *t, const struct wish *wish, struct err *err)
{
	int r = t->feed.ops->grant(t->feed.ctx, &t->scene, wish, err);

	if (r != -EOPNOTSUPP)
		return r;
	if (wish->kind == WISH_SIGNAL)
		return t->options->helpers->signal(&wish->key, wish->signal, err);
	if (wish->kind != WISH_TRACE)
		return 0;
	screen_pause();
	r = t->options->helpers->trace(&wish->key, err);
	screen_resume();
	forget_shown(t);
	return r;
}

/* One that waits to be confirmed is left alone. The message names what it was done to, in the words
 * of the question: another may be selected by now. */
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
		scene_set_message(&t->scene, "%s", err.text);
	else if (wish.kind == WISH_CANCEL_JOB && wish.attempt_num > 0 && wish.has_twin)
		scene_set_message(&t->scene, "attempt %d of the job %s is being cancelled",
				  wish.attempt_num, wish.job_id);
	else if (wish.kind == WISH_CANCEL_JOB)
		scene_set_message(&t->scene, "%s %s is being cancelled",
				  wish.is_queued ? "what waits of the job" : "the job",
				  wish.job_id);
	else if (wish.kind == WISH_SIGNAL)
		scene_set_message(&t->scene, "the signal was sent to pid %d", (int)wish.key.pid);
	scene_refresh(&t->scene);
}

/* ---- the loop ---- */

static int show(struct tui *t, struct err *err)
{
	int width, height;

	screen_size(&width, &height);
	if ((width != t->grid.width || height != t->grid.height) &&
	    grid_resize(&t->grid, width, height) < 0)
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

/* For a key, the feed, or its time. Not for ever: a terminal that is resized just before we wait is
 * seen, and a message goes. */
static void wait_for_something(struct tui *t)
{
	struct pollfd fds[] = {
		{ .fd = t->scene.is_text ? -1 : STDIN_FILENO, .events = POLLIN },
		{ .fd = t->feed.ops->fd ? t->feed.ops->fd(t->feed.ctx) : -1, .events = POLLIN },
	};
	int ms = t->feed.ops->timeout_ms ? t->feed.ops->timeout_ms(t->feed.ctx, &t->scene) : -1;

	poll(fds, ARRAY_SIZE(fds), ms < 0 || ms > MAX_IDLE_MS ? MAX_IDLE_MS : ms);
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		t->is_over = true; /* the terminal is gone */
}

/* What the one has told the other tells in words of its own. It may know the job of a question by
 * another number, and nothing of what waits. */
static void change_feed(struct tui *t, const struct feed *feed, enum scene_source source)
{
	struct scene *s = &t->scene;

	t->feed.ops->close(t->feed.ctx);
	t->feed = *feed;
	s->source = source;
	if (s->overlay == OVERLAY_CONFIRM && s->wish.kind == WISH_CANCEL_JOB) {
		s->overlay = OVERLAY_NONE;
		s->wish.kind = WISH_NONE;
		scene_set_message(s, "nothing is cancelled: who is asked has changed");
	}
	scene_forget_past(s);
	map_clear(&s->recalled); /* the other may not have answered */
}

/*
 * True: there is something new to be seen. A daemon that was started meanwhile knows more than we
 * see by ourselves; one that is gone is not waited for. What is paused stays as it is.
 */
static bool pump(struct tui *t)
{
	struct scene *s = &t->scene;
	struct err trouble = ERR_INIT;
	struct feed feed = { 0 };
	uint64_t now = clock_boot_ns();
	char aside[SCENE_TEXT_BYTES];
	bool has_said;
	int r;

	if (s->source == SOURCE_OWN && !s->is_paused &&
	    now - t->looked_boot_ns >= LOOK_FOR_DAEMON_NS) {
		t->looked_boot_ns = now;
		if (feed_open_daemon(t->options, &feed, NULL) == 0)
			change_feed(t, &feed, SOURCE_DAEMON);
	}
	r = t->feed.ops->pump(t->feed.ctx, s, &trouble);
	if (r == -ENOENT && s->source == SOURCE_DAEMON) {
		r = feed_open_own(t->options, &feed, &trouble);
		if (r == 0) {
			t->looked_boot_ns = clock_boot_ns();
			change_feed(t, &feed, SOURCE_OWN);
			r = 1;
		}
	}
	has_said = aside_read(aside, sizeof(aside)); /* what libraries wrote on stderr meanwhile */
	if (has_said)
		scene_set_message(s, "%s", aside);
	if (r < 0)
		scene_set_message(s, "%s", trouble.text);
	return r != 0 || has_said;
}

/* A long snapshot comes in many pieces: only when it is whole there is something to draw. */
static int loop(struct tui *t, struct err *err)
{
	const struct feed_ops *ops;
	struct scene *s = &t->scene;
	bool has_changed = true;

	while (!t->is_over) {
		const struct node *node;
		int r;

		has_changed |= pump(t);
		/* Of what is looked at more closely the past is wanted too, once. Without memory it
		 * is asked for again. */
		ops = t->feed.ops;
		node = s->shows_detail && !s->is_in_events ? scene_selected(s) : NULL;
		if (node && ops->recall && !map_get(&s->recalled, node->id, NULL) &&
		    ops->recall(t->feed.ctx, s, node))
			map_put(&s->recalled, node->id, 1);
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

/* Of an error the place is left out, which takes the room of the reason; a process that plays
 * daemon is a reason in itself. */
static int open_feed(struct tui *t, struct err *err)
{
	struct scene *s = &t->scene;
	struct err trouble = ERR_INIT;
	int r;

	s->job_id = t->options->job_id;
	if (t->options->since_wall_ns) {
		s->source = SOURCE_REPLAY;
		snprintf(s->source_note, sizeof(s->source_note), "recorded");
		return feed_open_stored(t->options, &t->feed, err);
	}
	s->source = SOURCE_DAEMON;
	r = feed_open_daemon(t->options, &t->feed, &trouble);
	if (r == 0)
		return 0;
	if (r == -EPERM)
		snprintf(s->no_daemon, sizeof(s->no_daemon), "%.*s", (int)sizeof(s->no_daemon) - 1,
			 trouble.text);
	else if (r != -ENOENT)
		snprintf(s->no_daemon, sizeof(s->no_daemon), "cannot connect: %s", strerror(-r));
	s->source = SOURCE_OWN;
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
	r = open_feed(&t, err);
	if (r == 0)
		r = screen_open(err);
	if (r < 0)
		return r;
	r = loop(&t, err);
	screen_close();
	return r;
}

/* ---- as text ---- */

/* Where the screens go. */
struct text_out {
	struct buf *buf;
	int (*pass)(void *ctx);
	void *ctx;
};

static int print_screen(struct tui *t, const struct text_out *out, uint64_t since_ns,
			struct err *err)
{
	if (draw_page(&t->scene, &t->grid, since_ns, out->buf) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (t->scene.message[0])
		log_warning("%s", t->scene.message);
	t->scene.message[0] = '\0';
	return out->pass(out->ctx);
}

/* Of what was recorded: each screen has what happened since the one before. */
static int print_stored(struct tui *t, const struct text_out *out, struct err *err)
{
	double seconds =
		t->options->interval_seconds > 0 ? t->options->interval_seconds : TEXT_SECONDS;
	struct wish step = { .kind = WISH_STEP, .steps = 1 };
	uint64_t frame_ns = (uint64_t)(seconds * 1e9), since_ns = 0;
	int r = 0;

	while (r >= 0 && !t->scene.replay.is_over) {
		r = t->feed.ops->grant(t->feed.ctx, &t->scene, &step, err);
		if (r >= 0)
			r = print_screen(t, out, since_ns, err);
		since_ns = t->scene.snap.wall_ns + 1;
		step.until_ns = (t->scene.snap.wall_ns / frame_ns + 1) * frame_ns;
	}
	return r;
}

/* CPU takes two looks; a daemon's second one may be minutes away. */
static bool is_complete(const struct scene *s, uint64_t first_boot_ns)
{
	return s->has_snap && (s->source != SOURCE_DAEMON || s->listed.wall_ns > 0) &&
	       (s->has_before || clock_boot_ns() - first_boot_ns > TEXT_WAIT_NS);
}

static int print_live(struct tui *t, bool is_once, const struct text_out *out, struct err *err)
{
	uint64_t first_boot_ns = 0, shown_ns = 0;
	int r = 0;

	while (r >= 0 && !(is_once && shown_ns > 0)) {
		pump(t);
		if (t->scene.has_snap && first_boot_ns == 0)
			first_boot_ns = clock_boot_ns();
		if (is_complete(&t->scene, first_boot_ns) && t->scene.snap.wall_ns != shown_ns) {
			r = print_screen(t, out, shown_ns ? shown_ns + 1 : 0, err);
			shown_ns = t->scene.snap.wall_ns;
		} else {
			wait_for_something(t);
		}
	}
	return r;
}

int tui_print(const struct tui_options *options, struct buf *out, int (*pass)(void *ctx), void *ctx,
	      struct err *err)
{
	struct tui_options own = *options;
	const struct text_out text = { out, pass, ctx };
	bool is_once = options->interval_seconds <= 0;
	CLEANUP(close_tui)
	struct tui t = { .options = &own, .grid = GRID_INIT, .shown = GRID_INIT };
	int r;

	scene_init(&t.scene);
	t.scene.is_text = t.scene.hides_births = true;
	map_put(&t.scene.folded, track_key_of_attempt("", 0), 1); /* processes of no job */
	if (is_once && !options->since_wall_ns)
		own.interval_seconds = TEXT_LOOK_SECONDS;
	r = open_feed(&t, err);
	if (r < 0)
		return r;
	return options->since_wall_ns ? print_stored(&t, &text, err)
				      : print_live(&t, is_once, &text, err);
}
