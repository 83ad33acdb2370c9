#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/utf8.h"

void cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	argp_err_exit_status = CLI_USAGE;
	if (argp_parse(argp, argc, argv, flags, NULL, input) != 0)
		exit(CLI_USAGE);
}

int cli_fail(enum cli_exit status, const struct err *err)
{
	log_error("%s", err->text);
	return status;
}

int cli_context_open(struct cli_context *ret, struct err *err)
{
	int r;

	ret->mask = NULL;
	config_init(&ret->config);
	r = paths_find(&ret->paths, err);
	if (r == 0)
		r = config_load(ret->paths.config, &ret->config, err);
	if (r == 0 && ret->config.mask_secrets)
		r = mask_new(ret->config.mask_patterns, ret->config.n_mask_patterns, &ret->mask,
			     err);
	if (r < 0)
		config_release(&ret->config);
	return r;
}

void cli_context_close(struct cli_context *ctx)
{
	ctx->mask = mask_free(ctx->mask);
	config_release(&ctx->config);
}

static bool is_alive(void *ctx, const char *boot_id, struct proc_key runner)
{
	(void)ctx;
	return proc_is_alive(boot_id, runner.pid, runner.start_ticks);
}

int cli_open_store(const struct paths *paths, struct store **ret, struct err *err)
{
	int r = store_open(paths->db, STORE_READ, ret, err);

	if (r == -ENOENT)
		return err_set(
			err, r,
			"nothing has been recorded yet in %s: try \"proctor run -- COMMAND\"",
			paths->state_dir);
	if (r == 0)
		store_set_alive_check(*ret, is_alive, NULL);
	return r;
}

void cli_store_cleanup(struct store **store)
{
	*store = store_close(*store);
}

double cli_parse_duration(const struct argp_state *state, const char *option, const char *text)
{
	double seconds = NAN;

	if (num_parse_duration(text, &seconds) < 0 || !isfinite(seconds) || seconds <= 0)
		argp_error(state,
			   "%s wants a length of time such as 30s, 5m, 2h30m or 7d, not '%s'",
			   option, text);
	return seconds;
}

uint64_t cli_time_ago(double seconds)
{
	uint64_t now = clock_wall_ns();

	return seconds * 1e9 < (double)now ? now - (uint64_t)(seconds * 1e9) : 1;
}

int cli_parse_int(const struct argp_state *state, const char *option, const char *text, int min,
		  int max)
{
	int64_t value = 0;

	if (num_parse_i64(text, &value) < 0 || value < min || value > max)
		argp_error(state, "%s wants a whole number from %d to %d, not '%s'", option, min,
			   max, text);
	return (int)value;
}

int cli_print(const struct buf *out)
{
	int r = buf_error(out);

	/* By now no child can inherit this. */
	signal(SIGPIPE, SIG_IGN);
	if (r == 0)
		r = io_write_all(STDOUT_FILENO, out->data, out->len);
	if (r == 0)
		return CLI_DONE;
	if (r != -EPIPE) /* a reader that has seen enough, as in "| head", is no news */
		log_error("cannot write the output: %s", strerror(-r));
	return CLI_FAILED;
}

void cli_add_text(struct buf *out, const char *text, size_t max)
{
	size_t n = strlen(text), columns = 0;

	for (size_t i = 0; i < n && columns < max; columns++)
		i += utf8_add_shown(out, text + i, n - i);
}
