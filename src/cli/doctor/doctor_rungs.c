#include "cli/doctor/doctor_rungs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "sources/sources.h"

/* ---- what the drivers of GPUs answer here, and what that costs ---- */

#define DEADLINE_NS                                                                   \
	UINT64_C(20000000000) /* of one driver: nvidia-smi is given 5 s for each call \
			       */
#define ENDED_MS 2000	      /* after its last word */
#define REAP_MS 10
/* For who answers a run: one that crashes or hangs is replaced by the next. */
#define WAIT_MS 20000
#define PATIENCE_SECONDS 10 /* the first question after a start takes some seconds */

/* ---- in the child ---- */

/* Drivers name devices as they like: no name reaches the terminal as it is, or makes a line. */
static void add_shown(struct buf *out, const char *text, size_t n)
{
	for (size_t at = 0; at < n;)
		at += utf8_add_shown(out, text + at, n - at);
}

static void print_answer(void *ctx, const char *rung, const char *what, uint64_t ns)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	ssize_t n;

	buf_printf(&line, "%s: ", rung);
	add_shown(&line, what, strlen(what));
	if (u64_known(ns))
		buf_printf(&line, " takes %.3g ms", (double)ns / 1e6);
	buf_add_char(&line, '\n');
	n = write(*(int *)ctx, line.data, line.len);
	(void)n; /* who asked is gone */
}

/* ---- in the parent ---- */

/* False: it did not come to its end. */
static bool read_answers(int fd, struct buf *out)
{
	uint64_t deadline = clock_boot_ns() + DEADLINE_NS, now;
	char text[1024];

	while ((now = clock_boot_ns()) < deadline) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&wait, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, text, sizeof(text));
		if (n <= 0)
			return n == 0;
		buf_add(out, text, (size_t)n);
	}
	return false;
}

/* A child that the driver has spoilt may have written anything: only the lines are kept. */
static void add_lines(struct buf *out, const struct buf *said)
{
	const char *at = said->data ? said->data : "", *end = at + said->len;

	while (at < end) {
		size_t n = strcspn(at, "\n");

		n = n < (size_t)(end - at) ? n : (size_t)(end - at);
		add_shown(out, at, n);
		buf_add_char(out, '\n');
		at += n + 1;
	}
}

static enum doctor_gpu hear(const char *name, pid_t pid, int fd, struct buf *out)
{
	CLEANUP(buf_release) struct buf said = BUF_INIT;
	bool has_ended = read_answers(fd, &said), is_reaped = false;
	struct pollfd nothing = { .fd = -1 };
	int status = 0;

	if (!has_ended)
		kill(pid, SIGKILL);
	/* one that hangs inside the kernel cannot be waited for */
	for (int left_ms = ENDED_MS; !is_reaped && left_ms > 0; left_ms -= REAP_MS) {
		is_reaped = waitpid(pid, &status, WNOHANG) != 0;
		if (!is_reaped)
			poll(&nothing, 1, REAP_MS);
	}
	add_lines(out, &said);
	if (!has_ended || !is_reaped) {
		buf_printf(out, "%s: it does not answer, and was asked no longer\n", name);
		return DOCTOR_GPU_BROKEN;
	}
	if (WIFSIGNALED(status)) {
		buf_printf(out, "%s: it crashes the process that asks it (%s)\n", name,
			   strsignal(WTERMSIG(status)));
		return DOCTOR_GPU_BROKEN;
	}
	if (said.len == 0)
		buf_printf(out, "%s: it ended the process that asked it\n", name);
	if (said.len > 0 && WEXITSTATUS(status) == GPUS_TOLD_LOSS)
		return DOCTOR_GPU_BROKEN;
	return said.len > 0 && WEXITSTATUS(status) == GPUS_TOLD ? DOCTOR_GPU_ANSWERS
								: DOCTOR_GPU_SILENT;
}

static enum doctor_gpu ask(int root_fd, size_t i, struct buf *out)
{
	enum doctor_gpu result = DOCTOR_GPU_SILENT;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return result;
	pid = fork();
	if (pid == 0)
		_exit(gpus_measure(root_fd, i, print_answer, &fds[1]));
	close(fds[1]);
	if (pid > 0)
		result = hear(gpus_driver_name(i), pid, fds[0], out);
	close(fds[0]);
	return result;
}

enum doctor_gpu doctor_ask_gpus(int root_fd, struct buf *out)
{
	enum doctor_gpu worst = DOCTOR_GPU_SILENT;

	signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody learns how a child has ended */
	for (size_t i = 0; gpus_driver_name(i); i++) {
		enum doctor_gpu result = ask(root_fd, i, out);

		worst = result > worst ? result : worst;
	}
	return worst;
}

/* ---- the rungs ---- */

/* n: there is none. */
static size_t find(const struct rung *rungs, size_t n, const char *measurement)
{
	size_t i = 0;

	while (i < n && strcmp(rungs[i].measurement, measurement) != 0)
		i++;
	return i;
}

/* of: "rungs", or "rung_reasons", which an older one does not tell. */
static const char *daemon_says(const struct doctor_rungs *r, const char *of,
			       const char *measurement)
{
	return rpc_value_string(rpc_value_get(rpc_value_get(r->daemon, of), measurement));
}

/* strace is slow, so a run takes it where somebody asks: its caller, or the configuration. */
static void find_asked(const struct config *config, struct doctor_rungs *r)
{
	size_t i = find(r->of_run, r->n_of_run, SOURCES_RUNG_SYSCALLS);
	size_t own = find(r->own, r->n_own, SOURCES_RUNG_SYSCALLS);
	const char *of_daemon = daemon_says(r, "rungs", SOURCES_RUNG_SYSCALLS);
	bool is_ebpf = own < r->n_own && strcmp(r->own[own].rung, SOURCES_RUNG_SYSCALLS_EBPF) == 0;
	bool can = is_ebpf || sources_has_strace();

	r->by_asking = "";
	if (can && config->strace_enabled && i < r->n_of_run)
		r->of_run[i].rung =
			is_ebpf ? SOURCES_RUNG_SYSCALLS_EBPF : SOURCES_RUNG_SYSCALLS_STRACE;
	else if (can)
		r->by_asking = is_ebpf ? SOURCES_RUNG_SYSCALLS_EBPF " (--syscalls=auto)"
				       : SOURCES_RUNG_SYSCALLS_STRACE " (--syscalls=strace)";
	if (!is_ebpf && of_daemon && strcmp(of_daemon, SOURCES_RUNG_SYSCALLS_EBPF) == 0)
		r->by_asking = SOURCES_RUNG_SYSCALLS_EBPF ", by the daemon (--syscalls=auto)";
}

void doctor_find_rungs(int root_fd, const struct config *config, struct arena *arena,
		       struct doctor_rungs *ret)
{
	const struct probe_allows allows = { config->ebpf_enabled, config->syscalls_enabled };
	struct err err = ERR_INIT;

	ret->n_own = sources_probe_ebpf_rungs(root_fd, &allows, arena, ret->own);
	ret->n_of_run = sources_probe_rungs(root_fd, NULL, arena, ret->of_run);
	if (cli_call("daemon.status", NULL, &ret->daemon, &err) < 0)
		ret->daemon = NULL;
	find_asked(config, ret);
}

void doctor_release_rungs(struct doctor_rungs *r)
{
	cli_value_cleanup(&r->daemon);
}

/* Asks as a run would, and writes who answered among the rungs. */
void doctor_find_gpu_rungs(int root_fd, struct arena *arena, struct doctor_rungs *r)
{
	struct gpus_options options = { .root_fd = root_fd,
					.at_once = true,
					.patience_seconds = PATIENCE_SECONDS };
	size_t own = find(r->own, r->n_own, SOURCES_RUNG_GPU);
	size_t of_run = find(r->of_run, r->n_of_run, SOURCES_RUNG_GPU);
	struct gpus *gpus = NULL;

	if (gpus_open(&options, &gpus, NULL) == 0 && gpus) {
		gpus_wait(gpus, WAIT_MS);
		gpus_tell_rung(gpus, arena, r->own, r->n_own);
		gpus_close(gpus);
	}
	if (own < r->n_own && of_run < r->n_of_run)
		r->of_run[of_run] = r->own[own];
}

/* ---- telling ---- */

void doctor_add_rungs(struct buf *out, const struct doctor_rungs *r)
{
	uint64_t n_missing = rpc_value_u64(rpc_value_get(r->daemon, "process_accounts_missing"));

	for (size_t i = 0; i < r->n_own; i++) {
		const struct rung *own = &r->own[i];
		const char *rung = daemon_says(r, "rungs", own->measurement);
		const char *reason = daemon_says(r, "rung_reasons", own->measurement);
		size_t of_run = find(r->of_run, r->n_of_run, own->measurement);

		buf_printf(out, "  %-28s %s\n", own->measurement, own->rung);
		if (own->reason[0])
			buf_printf(out, "  %-28s   not better: %s\n", "", own->reason);
		if (rung && strcmp(rung, own->rung) != 0) {
			buf_printf(out, "  %-28s   the daemon that runs here: ", "");
			cli_add_text(out, rung, 100);
			buf_add_str(out, reason && reason[0] ? ": " : "");
			cli_add_text(out, reason ? reason : "", 300);
			buf_add_char(out, '\n');
		}
		/* the rung has promised it and did not keep it, as the daemon has seen */
		if (strcmp(own->measurement, SOURCES_RUNG_BIRTHS) == 0 && u64_known(n_missing) &&
		    n_missing > 0)
			buf_printf(out,
				   "  %-28s   of %llu ends the daemon had no last word: their CPU "
				   "time is a least time\n",
				   "", (unsigned long long)n_missing);
		if (of_run < r->n_of_run && strcmp(r->of_run[of_run].rung, own->rung) != 0)
			buf_printf(out, "  %-28s   a run without a daemon: %s\n", "",
				   r->of_run[of_run].rung);
		if (strcmp(own->measurement, SOURCES_RUNG_SYSCALLS) == 0 && r->by_asking[0])
			buf_printf(out, "  %-28s   a run that asks for it: %s\n", "", r->by_asking);
	}
}

static void write_object(struct json *j, const char *key, const struct rung *rungs, size_t n,
			 bool are_reasons)
{
	json_key(j, key);
	json_begin_object(j);
	for (size_t i = 0; i < n; i++)
		json_key_string(j, rungs[i].measurement,
				are_reasons ? rungs[i].reason : rungs[i].rung);
	json_end_object(j);
}

void doctor_write_rungs(struct json *j, const struct doctor_rungs *r)
{
	write_object(j, "rungs", r->own, r->n_own, false);
	write_object(j, "run_rungs", r->of_run, r->n_of_run, false);
	json_key(j, "daemon_process_accounts_missing");
	rpc_value_write(rpc_value_get(r->daemon, "process_accounts_missing"), j);
	json_key(j, "daemon_rungs");
	rpc_value_write(rpc_value_get(r->daemon, "rungs"), j);
	json_key(j, "daemon_rung_reasons");
	rpc_value_write(rpc_value_get(r->daemon, "rung_reasons"), j);
	write_object(j, "rung_reasons", r->own, r->n_own, true);
}
