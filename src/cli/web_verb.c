#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

struct web_args {
	bool only_print;
};

static const struct argp_option web_options[] = {
	CLI_OPTION("print", web_args, only_print, NULL, "Print the link, and open no browser"),
	{ 0 },
};

static const struct argp web_argp = {
	.options = web_options,
	.doc = "Opens the daemon's page for the user who calls it, with a link that is valid once, for "
	       "a minute. Without a desktop it prints the link.\v"
	       "The page shows what this user may see. It is on 127.0.0.1:9797 unless web.listen names "
	       "another address. From another host: ssh -L 9797:127.0.0.1:9797 HOST.",
};

#define BROWSER "xdg-open"

/*
 * Other users can read the arguments of a process: so the browser gets a file of mode 0600 that
 * leads to the link. It stays, as a browser may open it late; the link is of no use by then.
 */
static int open_browser(const char *link, struct err *err)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT, page = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	char browser[] = BROWSER, *argv[] = { browser, NULL, NULL };
	struct socket_paths places;
	char *slash;
	pid_t pid;
	int r = socket_paths_find(&places, err);

	if (r < 0)
		return r;
	slash = strrchr(places.items[0], '/');
	if (slash)
		*slash = '\0';
	r = path_make_dir(places.items[0], err);
	if (r < 0)
		return r;
	buf_printf(&path, "%s/web.html", places.items[0]);
	buf_printf(&page, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n",
		   link);
	if (buf_error(&path) < 0 || buf_error(&page) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	unlink(path.data);
	fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, page.data, page.len) != (ssize_t)page.len)
		return err_set(err, -errno, "cannot write %s: %s", path.data, strerror(errno));
	argv[1] = path.data;
	r = posix_spawnp(&pid, BROWSER, NULL, NULL, argv, environ);
	return r == 0 ? 0 : err_set(err, -r, "cannot start %s: %s", BROWSER, strerror(r));
}

int cli_web(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct web_args args = { 0 };
	struct err err = ERR_INIT;
	const char *link;

	cli_parse(&web_argp, argc, argv, 0, &args);
	if (cli_call("web.link", NULL, &answer, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	link = rpc_value_string(rpc_value_get(answer, "link"));
	if (!link)
		return cli_fail(CLI_FAILED,
				(err_set(&err, -EPROTO, "the daemon sent no link"), &err));
	if (!args.only_print && (getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"))) {
		if (open_browser(link, &err) == 0)
			return CLI_DONE;
		log_warning("%s", err.text);
	}
	buf_printf(&out, "%s\n", link);
	return cli_print(&out);
}
