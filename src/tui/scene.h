/*
 * scene - everything that "proctor top" shows, and what its user has chosen.
 *
 * Feeds put snapshots and events in, keys change what is looked at, and draw.h makes a
 * screen of it. It knows no terminal, no daemon and no clock, so every screen
 * can be made in a test.
 */
#pragma once

#include <stdbool.h>

#include "model/snapshot.h"
#include "tui/outline.h"
#include "tui/tracks.h"

#define SCENE_EVENTS 512
#define SCENE_TEXT_BYTES 200
#define SCENE_EVENT_BYTES 384 /* a sentence on an anomaly, and whose it is */
#define SCENE_INPUT_BYTES 64
#define SCENE_GAPS 4
#define SCENE_CONTAINERS 3 /* rank, sheet and job */

enum scene_source {
	SOURCE_DAEMON,
	SOURCE_OWN,    /* no daemon runs: top looks by itself */
	SOURCE_REPLAY, /* what was recorded */
};

enum event_kind { EVENT_KIND_PROCESS, EVENT_KIND_TROUBLE, EVENT_KIND_JOB, EVENT_KIND_ANOMALY };

struct scene_event {
	uint64_t wall_ns;
	enum event_kind kind;
	uint64_t process, job; /* the nodes that it is about; 0: none */
	int attempt_num;       /* of the job, where the text names it; 0: it does not */
	size_t which_at;       /* where in the text the number of the attempt has its place */
	char text[SCENE_EVENT_BYTES];
	char *json; /* all that is known of it, an object; NULL */
};

#define SCENE_FLAGS 512

/* An anomaly, from when to when: why a process or a job is flagged. */
struct scene_flag {
	uint64_t id;		      /* of the episode: scene_flag_id() */
	uint64_t began_ns, ended_ns;  /* ended: U64_UNKNOWN while it lasts */
	uint64_t told_ns;	      /* when it was as the text says */
	uint64_t process, job;	      /* as of an event */
	char text[SCENE_EVENT_BYTES]; /* a sentence */
	char kind[64];		      /* "memory_leak, high" */
};

/* What lies over the panels. */
enum overlay {
	OVERLAY_NONE,
	OVERLAY_HELP,
	OVERLAY_FILTER, /* typed into input */
	OVERLAY_SEARCH,
	OVERLAY_CONFIRM, /* wish says what */
	OVERLAY_SORT,	 /* by menu_at */
};

enum wish_kind {
	WISH_NONE,
	WISH_QUIT,
	WISH_CANCEL_JOB,
	WISH_SIGNAL,
	WISH_TRACE,
	WISH_STEP,
	WISH_NEXT_ANOMALY,
	WISH_REDRAW, /* another program has written on the terminal */
};

/* What the owner is to do. */
struct wish {
	enum wish_kind kind;
	char job_id[SCENE_TEXT_BYTES];
	int attempt_num; /* of the job; 0: it waits, or it is unknown */
	uint64_t uid;	 /* whose it is; U64_UNKNOWN */
	bool is_queued;	 /* it waits */
	bool has_twin;	 /* another attempt of it runs, or waits */
	struct proc_key key;
	char command[64]; /* of the process, for the question; cut */
	int signal;
	int steps;	   /* of a replay: one snapshot forward, or backward (-1)… */
	uint64_t until_ns; /* …forward to the first from then on; 0: the next */
};

/* Where the title of a column is, as last drawn; of width 0: nowhere. */
struct scene_title {
	int x, width;
};

struct replay_state {
	uint64_t from_ns, to_ns; /* of what is replayed */
	double speed;		 /* 1: as fast as it was */
	uint64_t gap_ns;	 /* before what is shown, in which nothing was recorded; 0: none */
	bool has_fractions;	 /* moments are less than a second apart here */
	bool is_over;
};

/* What happened, and what is out of the ordinary. */
struct scene_past {
	struct scene_event events[SCENE_EVENTS]; /* by time */
	size_t n_events;
	struct scene_flag *flags; /* in the order in which they were told of */
	size_t n_flags;
	uint64_t n_anomalies; /* that are going on; U64_UNKNOWN */
};

/* The jobs as the daemon lists them. */
struct scene_listed {
	struct waiting_job *waiting; /* no more than SCENE_WAITING */
	size_t n_waiting;
	size_t n_queued;  /* of these those that have not begun */
	uint64_t wall_ns; /* when it was asked; 0: never */
	int n_jobs;	  /* that ran then… */
	int n_sheets;	  /* …and that were in a sheet */
};

/* Where the user is, and where things are on the screen. */
struct scene_view {
	uint64_t selected;			/* id of a node; 0: the first row */
	int selected_row;			/* where it was: see keep_place() in scene.c */
	pid_t selected_pid;			/* 0: it was no process */
	uint64_t selected_in[SCENE_CONTAINERS]; /* the ids of what it was of; 0: no more */
	int top_row;				/* first row of the jobs panel that is seen */
	int page_rows;				/* how many there are, as last drawn */
	int jobs_y;				/* where they begin on the screen, as last drawn */
	int event_at;				/* the one that is selected, from the newest */
	int events_up;				/* how far the timeline is scrolled back */
	int events_y, event_rows;		/* where it is, as last drawn */
	int help_page, help_pages;   /* of the keys: which is seen, and how many, as last drawn */
	uint64_t detail_of;	     /* a node or the time of an event: another one begins above */
	int detail_up;		     /* rows of it that are above what is seen */
	int detail_rows, detail_all; /* that are seen, and that there are, as last drawn */
};

struct scene {
	enum scene_source source;
	char source_note[SCENE_TEXT_BYTES];   /* "daemon 123"; "no daemon runs: …" */
	char no_daemon[SCENE_TEXT_BYTES / 2]; /* why top looks by itself; "": none runs */
	char message[SCENE_TEXT_BYTES];	      /* what came of the last key; "": nothing to say */
	struct replay_state replay;

	struct snapshot snap;
	bool has_snap;
	bool is_late;		      /* the next one should have come long since… */
	uint64_t age_seconds;	      /* …and so old is this one */
	uint64_t gaps_ns[SCENE_GAPS]; /* between the last snapshots; 0: not known */
	size_t n_gaps;		      /* that were noted, of which the last are kept */
	struct system_sample before;  /* of the snapshot before, for the share of CPU */
	bool has_before;
	struct tracks tracks;
	struct outline outline;
	struct scene_past past;
	struct scene_listed listed;

	enum sort sort, menu_at;
	struct scene_title titles[SORTS]; /* in the row above jobs_y */
	bool is_text; /* on no terminal: nothing is selected, and there are no keys */
	bool is_flat, is_paused, shows_detail;
	bool hides_births; /* and deaths that are as they should be, from the timeline */
	bool is_in_events; /* the user walks among those, and not among the jobs */
	struct map folded;
	struct map recalled;	/* ids: what was recorded of them was asked for */
	struct map starts;	/* of jobs and sheets: see outline.h */
	struct map sheet_names; /* texts in the arena; see outline.h */
	struct arena names;
	char filter[SCENE_INPUT_BYTES], search[SCENE_INPUT_BYTES], input[SCENE_INPUT_BYTES];
	const char *job_id; /* only this one; NULL */
	enum overlay overlay;
	struct wish wish; /* to be confirmed, or granted */
	struct scene_view view;
};

void scene_init(struct scene *s);
void scene_release(struct scene *s);

/* Takes a copy. -ENOMEM: there is none to be shown, until the next one. */
int scene_add_snapshot(struct scene *s, const struct snapshot *snap);

/* Takes a copy, of its json too. Where there is no room the oldest birth or death of a process is
 * forgotten before anything else. */
void scene_add_event(struct scene *s, const struct scene_event *event);

/* Begins an episode, or changes it. Of more than SCENE_FLAGS the first that is over is forgotten,
 * and where all last the first. */
void scene_set_flag(struct scene *s, const struct scene_flag *flag);
uint64_t scene_flag_id(const char *episode);

/* Whether it goes on at the moment that is shown. */
bool scene_flag_lasts(const struct scene *s, const struct scene_flag *flag);
uint64_t scene_count_flags(const struct scene *s); /* that do */

/* Marks the rows of what is flagged now, and of all that it is below. */
void scene_mark_flagged(struct scene *s);

/* The events and the flags. */
void scene_forget_past(struct scene *s);

/* When a job or a sheet began (see outline_options.starts); of a time that is not known nothing is
 * kept. */
void scene_set_start(struct scene *s, uint64_t key, uint64_t wall_ns);

/* How the job file calls a sheet (outline_key_of_sheet()); NULL: it has no name. */
void scene_name_sheet(struct scene *s, uint64_t sheet, const char *name);
const char *scene_sheet_name(const struct scene *s, uint64_t sheet); /* or NULL */

/* The jobs that wait, or of which a sheet does (see struct waiting_job), from now on. */
#define SCENE_WAITING 1024
void scene_forget_waiting(struct scene *s);
void scene_add_waiting(struct scene *s, const char *job_id, uint64_t uid, uint64_t key,
		       const char *why);

/* What came of something, in the place of the hints; cut where it is too long. */
void scene_set_message(struct scene *s, const char *format, ...) PRINTF_LIKE(2, 3);

/* After something was chosen: makes the rows anew. */
int scene_refresh(struct scene *s);

/* Of the events that are shown the i-th, from the newest; NULL: there are not so many. */
const struct scene_event *scene_event(const struct scene *s, size_t i);
size_t scene_count_events(const struct scene *s);

/* Takes the user to the anomaly that began then: its line is on view, and the row of what it is
 * about is selected, where there is one. */
void scene_show_anomaly(struct scene *s, uint64_t began_ns);

/* Whether several attempts of its job are known, so that it is to be told which it is of. */
bool scene_is_one_of_several(const struct scene *s, const struct scene_event *event);

/* Where the user is; NULL: there is no row. */
const struct node *scene_selected(const struct scene *s);
int scene_selected_row(const struct scene *s);

/* How long a column of the curves in the rows is: as two snapshots are apart, in whole seconds,
 * and 2 s at least. One gap that is out of the common, as after a pause, leaves it as it was. */
uint64_t scene_step_ns(const struct scene *s);

/* The share of all CPUs between the last two snapshots, 0 to 1; NaN. */
double scene_cpu_share(const struct scene *s);
