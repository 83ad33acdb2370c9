/*
 * subscribe [TOPICS [COUNT]] - prints what happens, one event per line, until COUNT events were
 * printed, Ctrl-C, or the end of the daemon.
 *
 *	cc -o subscribe subscribe.c $(pkg-config --cflags --libs libproctor)
 *	./subscribe 'job.*,sheet.failed'
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <proctor/proctor.h>

struct watch {
	struct proctor *p;
	unsigned long n_left; /* 0 at the start: no end */
	int is_over;
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int sig)
{
	(void)sig;
	is_interrupted = 1;
}

/* A callback may ask on the same connection: no event is lost by that. */
static void print_jobs(struct proctor *p)
{
	char *json = NULL;

	if (proctor_jobs(p, &json) == 0)
		printf("jobs %s\n", json);
	proctor_free_text(json);
}

static int on_event(void *ctx, const struct proctor_event *event)
{
	struct watch *watch = ctx;

	printf("%s %s\n", event->topic, event->data);
	if (strcmp(event->topic, "job.started") == 0)
		print_jobs(watch->p);
	fflush(stdout);
	watch->is_over = --watch->n_left == 0;
	return watch->is_over;
}

/* A signal does not end a wait, so it waits for a second at a time. */
static int watch_events(struct watch *watch, const char *topics)
{
	int r = proctor_open(watch->p, NULL);

	if (r == 0)
		r = proctor_subscribe(watch->p, topics, on_event, watch);
	while (r >= 0 && !watch->is_over && !is_interrupted)
		r = proctor_listen(watch->p, 1000);
	return r;
}

int main(int argc, char **argv)
{
	struct watch watch = { proctor_new(), argc > 2 ? strtoul(argv[2], NULL, 10) : 0, 0 };
	int r;

	signal(SIGINT, on_signal);
	r = watch_events(&watch, argc > 1 ? argv[1] : "job.*,sheet.*");
	if (r < 0)
		fprintf(stderr, "subscribe: %s\n", proctor_error(watch.p));
	proctor_free(watch.p);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
