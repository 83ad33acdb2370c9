#include "cli/doctor_rungs.h"

#include <string.h>

#include "base/err.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/doctor_gpu.h"

/* n: there is none. */
static size_t find(const struct rung *rungs, size_t n, const char *measurement)
{
	size_t i = 0;

	while (i < n && strcmp(rungs[i].measurement, measurement) != 0)
		i++;
	return i;
}

/* ---- finding ---- */

static bool is_by_ebpf(const struct doctor_rungs *r)
{
	size_t i = find(r->own, r->n_own, SOURCES_RUNG_SYSCALLS);

	return i < r->n_own && strcmp(r->own[i].rung, SOURCES_RUNG_SYSCALLS_EBPF) == 0;
}

/* of: "rungs", or "rung_reasons", which an older one does not tell. */
static const char *daemon_says(const struct doctor_rungs *r, const char *of,
			       const char *measurement)
{
	return rpc_value_string(rpc_value_get(rpc_value_get(r->daemon, of), measurement));
}

static bool daemon_has_ebpf(const struct doctor_rungs *r)
{
	const char *rung = daemon_says(r, "rungs", SOURCES_RUNG_SYSCALLS);

	return rung && strcmp(rung, SOURCES_RUNG_SYSCALLS_EBPF) == 0;
}

/* strace is slow, so a run takes it where somebody asks: its caller, or the configuration. */
static void find_asked(const struct config *config, struct doctor_rungs *r)
{
	size_t i = find(r->of_run, r->n_of_run, SOURCES_RUNG_SYSCALLS);
	bool is_ebpf = is_by_ebpf(r);

	bool can = is_ebpf || sources_has_strace();

	r->by_asking = "";
	if (can && config->strace_enabled && i < r->n_of_run)
		r->of_run[i].rung =
			is_ebpf ? SOURCES_RUNG_SYSCALLS_EBPF : SOURCES_RUNG_SYSCALLS_STRACE;
	else if (can)
		r->by_asking = is_ebpf ? SOURCES_RUNG_SYSCALLS_EBPF " (--syscalls=auto)"
				       : SOURCES_RUNG_SYSCALLS_STRACE " (--syscalls=strace)";
	if (!is_ebpf && daemon_has_ebpf(r))
		r->by_asking = SOURCES_RUNG_SYSCALLS_EBPF ", by the daemon (--syscalls=auto)";
}

void doctor_find_rungs(int root_fd, const struct config *config, struct arena *arena,
		       struct doctor_rungs *ret)
{
	const struct probe_allows allows = { config->ebpf_enabled, config->syscalls_enabled };
	struct err err = ERR_INIT;

	ret->n_own = sources_probe_ebpf_rungs(root_fd, &allows, arena, ret->own);
	ret->n_of_run = sources_probe_rungs(root_fd, arena, ret->of_run);
	if (cli_call("daemon.status", NULL, &ret->daemon, &err) < 0)
		ret->daemon = NULL;
	find_asked(config, ret);
}

void doctor_release_rungs(struct doctor_rungs *r)
{
	cli_value_cleanup(&r->daemon);
}

void doctor_find_gpu_rungs(int root_fd, struct arena *arena, struct doctor_rungs *r)
{
	size_t own = find(r->own, r->n_own, SOURCES_RUNG_GPU);
	size_t of_run = find(r->of_run, r->n_of_run, SOURCES_RUNG_GPU);

	doctor_tell_gpu_rung(root_fd, arena, r->own, r->n_own);
	if (own < r->n_own && of_run < r->n_of_run)
		r->of_run[of_run] = r->own[own];
}

/* ---- telling ---- */

static void add_of_run(struct buf *out, const struct doctor_rungs *r, const struct rung *own)
{
	size_t i = find(r->of_run, r->n_of_run, own->measurement);

	if (i < r->n_of_run && strcmp(r->of_run[i].rung, own->rung) != 0)
		buf_printf(out, "  %-28s   a run without a daemon: %s\n", "", r->of_run[i].rung);
}

static void add_asked(struct buf *out, const struct doctor_rungs *r, const struct rung *own)
{
	if (strcmp(own->measurement, SOURCES_RUNG_SYSCALLS) == 0 && r->by_asking[0])
		buf_printf(out, "  %-28s   a run that asks for it: %s\n", "", r->by_asking);
}

static void add_of_daemon(struct buf *out, const struct doctor_rungs *r, const struct rung *own)
{
	const char *rung = daemon_says(r, "rungs", own->measurement);
	const char *reason = daemon_says(r, "rung_reasons", own->measurement);

	if (!rung || strcmp(rung, own->rung) == 0)
		return;
	buf_printf(out, "  %-28s   the daemon that runs here: ", "");
	cli_add_text(out, rung, 100);
	if (reason && reason[0]) {
		buf_add_str(out, ": ");
		cli_add_text(out, reason, 300);
	}
	buf_add_char(out, '\n');
}

/* What the rung has promised and did not keep, as far as the daemon that runs has seen. */
static void add_missing(struct buf *out, const struct doctor_rungs *r, const struct rung *own)
{
	uint64_t n = rpc_value_u64(rpc_value_get(r->daemon, "process_accounts_missing"));

	if (strcmp(own->measurement, SOURCES_RUNG_BIRTHS) == 0 && u64_known(n) && n > 0)
		buf_printf(
			out,
			"  %-28s   of %llu ends the daemon had no last word: their CPU time is a "
			"least time\n",
			"", (unsigned long long)n);
}

void doctor_add_rungs(struct buf *out, const struct doctor_rungs *r)
{
	for (size_t i = 0; i < r->n_own; i++) {
		const struct rung *own = &r->own[i];

		buf_printf(out, "  %-28s %s\n", own->measurement, own->rung);
		if (own->reason[0])
			buf_printf(out, "  %-28s   not better: %s\n", "", own->reason);
		add_of_daemon(out, r, own);
		add_missing(out, r, own);
		add_of_run(out, r, own);
		add_asked(out, r, own);
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
