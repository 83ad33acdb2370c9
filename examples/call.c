/*
 * call [-t MILLISECONDS] METHOD [PARAMS] - asks the proctor daemon, and prints its answer.
 *
 *	cc -o call call.c $(pkg-config --cflags --libs libproctor)
 *	./call job.report '{"job_id":"nightly"}'
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <proctor/proctor.h>

static int call(struct proctor *p, const char *method, const char *params)
{
	char *json = NULL;

	if (proctor_open(p, NULL) < 0 || proctor_call(p, method, params, &json) < 0) {
		fprintf(stderr, "call: %s\n", proctor_error(p));
		return EXIT_FAILURE;
	}
	puts(json);
	proctor_free_text(json);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct proctor *p = proctor_new();
	int option, status;

	while ((option = getopt(argc, argv, "t:")) == 't')
		proctor_set_timeout(p, (int)strtol(optarg, NULL, 10));
	if (option != -1 || argc - optind < 1 || argc - optind > 2) {
		fprintf(stderr, "usage: call [-t MILLISECONDS] METHOD [PARAMS]\n");
		proctor_free(p);
		return 2;
	}
	status = call(p, argv[optind], argv[optind + 1]);
	proctor_free(p);
	return status;
}
