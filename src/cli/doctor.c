#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "model/snapshot.h"
#include "report/report.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

/*
 * ---- how each measurement is made here: by who runs long, by a run that no daemon watches, and by
 * the daemon that a run would find ----
 */

struct doctor_rungs {
	struct rung
		own[SOURCES_MAX_RUNGS]; /* of a daemon of this user, and whoever else runs long */
	size_t n_own;
	struct rung of_run[SOURCES_MAX_RUNGS + 1]; /* of a run without one */
	size_t n_of_run;
	const char *by_asking; /* what counts system calls of a run that asks for it; "": nothing */
	struct rpc_value *daemon; /* the status of the one that answers; NULL: none does */
};

/* For who answers a run: one that crashes or hangs is replaced by the next. */
#define WAIT_MS 20000
#define PATIENCE_SECONDS 10 /* the first question after a start takes some seconds */

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

/* ---- telling ---- */

static void doctor_add_rungs(struct buf *out, const struct doctor_rungs *r)
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
	json_key_object(j, key);
	for (size_t i = 0; i < n; i++)
		json_key_string(j, rungs[i].measurement,
				are_reasons ? rungs[i].reason : rungs[i].rung);
	json_end_object(j);
}

/* ---- what doctor looks at beside the rungs ---- */

enum health { HEALTH_OK, HEALTH_NOTE, HEALTH_BROKEN };

/* What the checks look at. */
struct patient {
	struct paths paths;
	struct err paths_err; /* code 0: paths is good */
	struct config config;
	struct err config_err; /* code 0: config is what the file says */
	int root_fd;
	struct snapshot snap; /* of the host alone */
	struct doctor_rungs rungs;
	struct arena arena;
};

/* How long the database is looked through. */
#define STORE_CHECK_MS 5000

static enum health check_kernel(struct patient *p, struct buf *detail)
{
	struct utsname name;

	(void)p;
	if (uname(&name) < 0)
		return HEALTH_NOTE;
	buf_printf(detail, "%s %s %s, user id %u", name.sysname, name.release, name.machine,
		   (unsigned)geteuid());
	return HEALTH_OK;
}

/* The nearest folder above path that exists decides whether it can be made. */
static bool can_be_made(const char *path)
{
	char part[PATH_BYTES];
	char *slash;

	strcpy(part, path); /* paths are at most PATH_BYTES */
	while (access(part, F_OK) < 0) {
		slash = strrchr(part, '/');
		if (!slash)
			return access(".", W_OK | X_OK) == 0;
		if (slash == part)
			slash++; /* "/" itself */
		if (*slash == '\0')
			return false;
		*slash = '\0';
	}
	return access(part, W_OK | X_OK) == 0;
}

/* With less than this not even a short run can be recorded for certain. */
#define MIN_FREE_BYTES (UINT64_C(1) << 20)

static enum health check_room(const char *dir, struct buf *detail)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(dir, &fs) < 0)
		return HEALTH_OK;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (free_bytes >= MIN_FREE_BYTES)
		return HEALTH_OK;
	buf_printf(detail,
		   ": its disk is full (%llu bytes are free), so nothing more can be recorded: "
		   "free some room, or set PROCTOR_HOME to a folder on another",
		   (unsigned long long)free_bytes);
	return HEALTH_BROKEN;
}

static enum health check_folder(struct patient *p, struct buf *detail)
{
	const char *dir = p->paths.state_dir;

	if (p->paths_err.code) {
		buf_add_str(detail, p->paths_err.text);
		return HEALTH_BROKEN;
	}
	if (access(dir, W_OK | X_OK) == 0) {
		buf_printf(detail, "%s", dir);
		return check_room(dir, detail);
	}
	if (errno == ENOENT && can_be_made(dir)) {
		buf_printf(detail, "%s (made by the first run)", dir);
		return HEALTH_OK;
	}
	buf_printf(detail, "%s cannot be written: %s; jobs run, and are not recorded", dir,
		   strerror(errno));
	return HEALTH_BROKEN;
}

/* Whether what is old stays for now. */
static bool add_hold(struct store *store, struct buf *detail)
{
	uint64_t until_ns = 0;
	char until[32];

	if (store_read_retention_hold(store, clock_wall_ns(), &until_ns, NULL) < 0 || !until_ns)
		return false;
	buf_printf(detail,
		   "; the clock has jumped ahead, so nothing is removed for its age until %s "
		   "(\"proctor gc --trust-clock\": the clock is right)",
		   clock_format_local(until_ns, until, sizeof(until)));
	return true;
}

/* That it is so for some minutes is in order. */
static bool add_over(struct patient *p, struct store *store, struct buf *detail)
{
	struct retention_policy policy = upkeep_policy(&p->config.retention, p->paths.jsonl);
	uint64_t over = 0;

	if (p->config_err.code || store_read_over(store, &policy, &over, NULL) < 0 || over == 0)
		return false;
	buf_add_str(detail, "; with what lies beside it ");
	report_add_bytes(detail, over);
	buf_add_str(detail, " above max_bytes: \"proctor gc\" removes what it may");
	return true;
}

static bool add_unreadable_logs(struct patient *p, struct buf *detail)
{
	size_t n = store_count_unreadable_logs(p->paths.db);

	if (n > 0)
		buf_printf(detail,
			   "; %zu log%s in %s-logs cannot be read, and %s removed after 30 days", n,
			   n == 1 ? "" : "s", p->paths.db, n == 1 ? "is" : "are");
	return n > 0;
}

/* What is in it. */
static enum health look_through(struct patient *p, struct buf *detail)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	struct attempt_filter filter = { 0 };
	struct err err = ERR_INIT;
	int checked = 0, r = cli_open_store(&p->paths, STORE_READ, &store, &err);

	if (r == -ENOENT) { /* a disk that was full leaves an empty one */
		buf_printf(detail, "%s (empty: the next run uses it)", p->paths.db);
		return HEALTH_OK;
	}
	if (r == 0)
		r = checked = store_check(store, STORE_CHECK_MS, &err);
	if (r == 0)
		r = store_list_attempts(store, &filter, &list, &err);
	/* else it is in use: there is something to say about it, and nothing to do */
	if (r < 0 && !(checked == -ETIMEDOUT || checked == -ENODATA || checked == -EUCLEAN)) {
		buf_add_str(detail, err.text);
		if (err.code == -EBADMSG && access(p->paths.state_dir, W_OK | X_OK) < 0)
			buf_printf(detail, "; but it cannot be moved, as %s cannot be written: %s",
				   p->paths.state_dir, strerror(errno));
		return HEALTH_BROKEN;
	}
	if (checked < 0)
		buf_add_str(detail, err.text);
	else
		buf_printf(detail, "%s, %zu attempt%s, no damage", p->paths.db, list.n,
			   list.n == 1 ? "" : "s");
	return add_hold(store, detail) | add_over(p, store, detail) |
				       add_unreadable_logs(p, detail) ||
			       checked < 0
		       ? HEALTH_NOTE
		       : HEALTH_OK;
}

static enum health check_store(struct patient *p, struct buf *detail)
{
	struct err err = ERR_INIT;
	enum health health;

	if (p->paths_err.code)
		return HEALTH_BROKEN;
	if (access(p->paths.db, F_OK) < 0 && errno == ENOENT) {
		buf_printf(detail, "%s (made by the first run)", p->paths.db);
		return HEALTH_OK;
	}
	health = look_through(p, detail);
	if (health == HEALTH_BROKEN || store_check_access(p->paths.db, &err) == 0)
		return health;
	buf_reset(detail);
	buf_printf(detail, "%s; jobs run, and are not recorded", err.text);
	return HEALTH_BROKEN;
}

static enum health check_jsonl(struct patient *p, struct buf *detail)
{
	size_t n = strlen(p->paths.state_dir);
	bool is_in_state_folder = strncmp(p->paths.jsonl, p->paths.state_dir, n) == 0 &&
				  p->paths.jsonl[n] == '/' && !strchr(p->paths.jsonl + n + 1, '/');
	struct err err = ERR_INIT;
	struct jsonl *log;
	int r;

	if (p->paths_err.code || p->config_err.code)
		return HEALTH_BROKEN;
	if (!p->paths.jsonl[0]) {
		buf_add_str(detail, "none is written (jsonl_path)");
		return HEALTH_OK;
	}
	if (access(p->paths.state_dir, F_OK) < 0 && is_in_state_folder) {
		buf_printf(detail, "%s (made by the first run)", p->paths.jsonl);
		return HEALTH_OK;
	}
	log = jsonl_new(p->paths.jsonl, config_log_bytes(&p->config));
	r = log ? jsonl_check(log, &err) : err_set(&err, -ENOMEM, "out of memory");
	jsonl_free(log);
	buf_add_str(detail, r < 0 ? err.text : p->paths.jsonl);
	return r < 0 ? HEALTH_BROKEN : HEALTH_OK;
}

/* Those that the file has and nothing looks at. */
static void add_idle_setting(void *ctx, const struct config *c, const struct config_setting *s)
{
	(void)c;
	if (s->line != 0 && s->not_yet)
		buf_printf(ctx, "; line %d, %s: this version does not %s yet", s->line, s->name,
			   s->not_yet);
}

static enum health check_config(struct patient *p, struct buf *detail)
{
	size_t before;

	if (p->paths_err.code)
		return HEALTH_BROKEN;
	if (p->config_err.code) {
		buf_add_str(detail, p->config_err.text);
		return HEALTH_BROKEN;
	}
	buf_printf(detail, "%s%s", p->paths.config,
		   p->config.was_read ? "" : " (not there: defaults)");
	before = detail->len;
	config_each(&p->config, add_idle_setting, detail);
	return detail->len == before ? HEALTH_OK : HEALTH_NOTE;
}

static enum health check_pressure(struct patient *p, struct buf *detail)
{
	if (u64_known(p->snap.system.psi_memory.some.total_us)) {
		buf_add_str(detail, "cpu, memory and io stalls can be read");
		return HEALTH_OK;
	}
	buf_add_str(detail,
		    "this kernel has no PSI, or it is off (boot with psi=1): stall times stay "
		    "unknown");
	return HEALTH_NOTE;
}

static struct rung probe_job_cgroup(struct patient *p)
{
	struct job_limits limits = JOB_LIMITS_NONE;
	struct job_cgroup *cgroup;
	struct err err = ERR_INIT;

	if (job_cgroup_new(p->root_fd, &limits, &cgroup, &err) < 0)
		return (struct rung){ RUNG_CGROUP, "none", arena_strdup(&p->arena, err.text) };
	job_cgroup_free(cgroup);
	return (struct rung){ RUNG_CGROUP, RUNG_CGROUP_OWN, "" };
}

/* Makes one as a run does, with limits that hold nothing back. */
static bool add_job_cgroup(struct patient *p, struct buf *detail)
{
	struct job_limits limits = { UINT64_C(1) << 50, JOB_PROCESSES_MAX, 64 };
	struct job_cgroup *cgroup;
	struct err err = ERR_INIT;

	if (job_cgroup_new(p->root_fd, &limits, &cgroup, &err) < 0) {
		buf_printf(detail, "; jobs get none of their own: %s", err.text);
		return false;
	}
	job_cgroup_free(cgroup);
	buf_add_str(detail, "; each job gets its own");
	if (u64_known(limits.memory_bytes) || u64_known(limits.max_processes) ||
	    !isnan(limits.cpus)) {
		buf_printf(detail,
			   ", where the kernel does not enforce limits of %s%s%s: the parent "
			   "cgroup passes no controllers on",
			   u64_known(limits.memory_bytes) ? "memory " : "",
			   u64_known(limits.max_processes) ? "processes " : "",
			   isnan(limits.cpus) ? "" : "CPU time");
		return false;
	}
	buf_add_str(detail, ", with limits of memory, processes and CPU time");
	return true;
}

static enum health check_cgroups(struct patient *p, struct buf *detail)
{
	bool is_v2 = faccessat(p->root_fd, "sys/fs/cgroup/cgroup.controllers", F_OK, 0) == 0;
	bool is_hybrid =
		faccessat(p->root_fd, "sys/fs/cgroup/unified/cgroup.controllers", F_OK, 0) == 0;
	bool is_v1 = faccessat(p->root_fd, "sys/fs/cgroup/memory", F_OK, 0) == 0;

	if (is_v2)
		buf_add_str(detail, "version 2");
	else if (is_hybrid)
		buf_add_str(detail,
			    "hybrid: version 1 controllers with a version 2 tree beside them");
	else if (is_v1)
		buf_add_str(detail, "version 1");
	else
		buf_add_str(detail, "none mounted");
	return add_job_cgroup(p, detail) ? HEALTH_OK : HEALTH_NOTE;
}

static enum health check_files(struct patient *p, struct buf *detail)
{
	struct rlimit limit;

	(void)p;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return HEALTH_NOTE;
	if (limit.rlim_max == RLIM_INFINITY)
		buf_add_str(detail, "no limit on open files");
	else
		buf_printf(detail, "up to %llu open files", (unsigned long long)limit.rlim_max);
	return HEALTH_OK;
}

#define GPUS_ARE_OFF "the configuration has gpu_enabled: false"

/*
 * Asks as a run would, and notes who answered among the rungs. Then a line for each answer, of
 * which the first stands beside the name: "NVML: memory takes 0.005 ms".
 */
static enum health check_gpus(struct patient *p, struct buf *detail)
{
	const struct gpus_options options = { .root_fd = p->root_fd,
					      .at_once = true,
					      .patience_seconds = PATIENCE_SECONDS };
	struct doctor_rungs *r = &p->rungs;
	size_t own = find(r->own, r->n_own, SOURCES_RUNG_GPU);
	size_t of_run = find(r->of_run, r->n_of_run, SOURCES_RUNG_GPU);
	struct gpus *gpus = NULL;
	enum gpus_told told;

	if (!sources_has_gpu(p->root_fd)) {
		buf_add_str(detail, "none; looked for " SOURCES_GPU_LOOKED_FOR);
		if (!p->config.gpu_enabled)
			buf_add_str(detail, "; it would not be asked: " GPUS_ARE_OFF);
		return HEALTH_OK;
	}
	if (!p->config.gpu_enabled) {
		buf_add_str(detail, "not asked: " GPUS_ARE_OFF);
		return HEALTH_NOTE;
	}
	if (gpus_open(&options, &gpus, NULL) == 0 && gpus) {
		gpus_wait(gpus, WAIT_MS);
		gpus_tell_rung(gpus, &p->arena, r->own, r->n_own);
		gpus_close(gpus);
	}
	if (own < r->n_own && of_run < r->n_of_run)
		r->of_run[of_run] = r->own[own];
	told = gpus_measure(p->root_fd, detail);
	if (detail->len > 0 && detail->data[detail->len - 1] == '\n')
		buf_truncate(detail, detail->len - 1);
	return told == GPUS_TOLD ? HEALTH_OK : HEALTH_NOTE;
}

/* In the order in which they are printed; detail gets what was found, in words, and the lines
 * behind its first stand below that. That of the GPUs fills in their rungs. */
static const struct {
	const char *name;
	enum health (*fn)(struct patient *p, struct buf *detail);
} doctor_checks[] = {
	{ "kernel", check_kernel },
	{ "folder", check_folder },
	{ "database", check_store },
	{ "log", check_jsonl },
	{ "configuration", check_config },
	{ "pressure", check_pressure },
	{ "cgroups", check_cgroups },
	{ "open files", check_files },
	{ "GPUs", check_gpus },
};

/* ---- the verb ---- */

struct doctor_args {
	bool json, repair, all;
};

static const struct argp_option doctor_options[] = {
	CLI_OPTION("json", doctor_args, json, NULL, "Print JSON"),
	CLI_OPTION(
		"repair", doctor_args, repair, NULL,
		"Only this: move the database aside if it cannot be used, so that a new one can begin"),
	CLI_OPTION("all", doctor_args, all, NULL,
		   "With --repair: also if only a part of what it holds is damaged"),
	{ 0 },
};

static const struct argp doctor_argp = {
	.options = doctor_options,
	.doc = "Tells which rung each measurement takes on this machine for this user and why not a "
	       "better one, and whether proctor's own files are in order.\v"
	       "Exits with 1 if something is broken; a lower rung is not. The database is looked "
	       "through for 5 seconds, with --repair to its end.",
};

static const char *const health_names[] = { "ok", "note", "broken" };

struct result {
	enum health health;
	struct buf detail;
};

/* ---- the visit ---- */

static int examine(struct patient *p, struct err *err)
{
	struct collector_options options = { 0 };
	struct probe_allows allows;
	struct collector *collector;
	int r;

	/* what is wrong with a file is told by its check */
	if (paths_find(&p->paths, &p->paths_err) == 0 &&
	    config_load(p->paths.config, &p->config, NULL, &p->config_err) == 0)
		settings_place(&p->paths, p->paths.config, &p->config, &p->config_err);
	p->root_fd = options.root_fd = proc_open_root(err);
	/* all of them are tried, which takes some tenths of a second */
	allows = (struct probe_allows){ p->config.ebpf_enabled, p->config.syscalls_enabled };
	p->rungs.n_own = sources_probe_ebpf_rungs(p->root_fd, &allows, &p->arena, p->rungs.own);
	p->rungs.n_of_run = sources_probe_rungs(p->root_fd, NULL, &p->arena, p->rungs.of_run);
	p->rungs.of_run[p->rungs.n_of_run++] = probe_job_cgroup(p);
	(void)cli_call("daemon.status", NULL, &p->rungs.daemon, NULL);
	find_asked(&p->config, &p->rungs);
	if (p->root_fd < 0) /* the rungs say why nothing of this machine can be looked at */
		return p->root_fd == -EXDEV ? 0 : p->root_fd;
	r = collector_new(&options, &collector, err);
	if (r < 0)
		return r;
	r = collector_scan(collector, &p->snap, err);
	collector_free(collector);
	return r;
}

static void release(struct patient *p)
{
	close_fd(&p->root_fd);
	cli_value_cleanup(&p->rungs.daemon);
	snapshot_release(&p->snap);
	config_release(&p->config);
	arena_release(&p->arena);
}

static void write_json(const struct patient *p, const struct result *results, struct buf *out)
{
	static const char *const of_daemon[][2] = {
		{ "daemon_process_accounts_missing", "process_accounts_missing" },
		{ "daemon_rungs", "rungs" },
		{ "daemon_rung_reasons", "rung_reasons" },
	};
	const struct doctor_rungs *r = &p->rungs;
	struct json j;

	json_init_object(&j, out);
	write_object(&j, "rungs", r->own, r->n_own, false);
	write_object(&j, "run_rungs", r->of_run, r->n_of_run, false);
	for (size_t i = 0; i < ARRAY_SIZE(of_daemon); i++) { /* null without one */
		json_key(&j, of_daemon[i][0]);
		rpc_value_write(rpc_value_get(r->daemon, of_daemon[i][1]), &j);
	}
	write_object(&j, "rung_reasons", r->own, r->n_own, true);
	json_key_array(&j, "checks");
	for (size_t i = 0; i < ARRAY_SIZE(doctor_checks); i++) {
		json_begin_object(&j);
		json_key_string(&j, "name", doctor_checks[i].name);
		json_key_string(&j, "health", health_names[results[i].health]);
		json_key_string(&j, "detail", results[i].detail.data);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static int run_checks(struct patient *p, bool json)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct result results[ARRAY_SIZE(doctor_checks)];
	int status = CLI_DONE, printed;

	for (size_t i = 0; i < ARRAY_SIZE(doctor_checks); i++) {
		results[i] = (struct result){ .detail = BUF_INIT };
		results[i].health = doctor_checks[i].fn(p, &results[i].detail);
		if (results[i].health == HEALTH_BROKEN)
			status = CLI_FAILED;
	}
	if (json)
		write_json(p, results, &out);
	else {
		buf_add_str(&out, "What is measured here, and how\n");
		doctor_add_rungs(&out, &p->rungs);
		buf_add_str(&out, "\nThis machine and proctor's files\n");
		for (size_t i = 0; i < ARRAY_SIZE(doctor_checks); i++) {
			buf_printf(&out, "  %-14s %-7s ", doctor_checks[i].name,
				   health_names[results[i].health]);
			for (const char *text = results[i].detail.data; *text; text++)
				if (*text == '\n')
					buf_printf(&out, "\n%25s", "");
				else
					buf_add_char(&out, *text);
			buf_add_char(&out, '\n');
		}
	}
	printed = cli_print(&out);
	for (size_t i = 0; i < ARRAY_SIZE(doctor_checks); i++)
		buf_release(&results[i].detail);
	return printed == CLI_DONE ? status : printed;
}

/* ---- the operation ---- */

static int repair(bool json, bool all)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(free_ptr) char *aside = NULL; /* where the database went; NULL: err says why not */
	struct err err = ERR_INIT;
	struct paths paths;
	struct json j;
	int r;

	if (cli_find_paths(&paths, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	r = store_quarantine(paths.db, all, &aside, &err);
	/* these may stay as they are */
	if (r < 0 && !(r == -EALREADY || r == -ENOENT || r == -EUCLEAN))
		return cli_fail(CLI_FAILED, &err);
	if (json) {
		json_init_object(&j, &out);
		json_key_string(&j, "database", paths.db);
		json_key_bool(&j, "repaired", aside != NULL);
		json_key_string(&j, "moved_to", aside);
		json_key_string(&j, "reason", r < 0 ? err.text : NULL);
		json_end_object(&j);
		buf_add_char(&out, '\n');
	} else if (!aside) {
		buf_printf(&out, "nothing to repair: %s\n", err.text);
	} else {
		buf_printf(
			&out,
			"The damaged database %s is now\n"
			"  %s\n"
			"with its -wal and -shm, if it had any, as they were. A new one, which is empty, has "
			"begun.\n"
			"To look into it, copy these files into an empty folder under the name proctor.db, and "
			"set\n"
			"PROCTOR_HOME to that; \"sqlite3 FILE .recover\", or .dump where there is no .recover, "
			"may\n"
			"still read what proctor does not. proctor(1) has how to use what they give.\n",
			paths.db, aside);
	}
	return cli_print(&out);
}

int cli_doctor(int argc, char **argv)
{
	CLEANUP(release) struct patient patient = { .root_fd = -1 };
	struct doctor_args args = { 0 };
	struct err err = ERR_INIT;

	snapshot_init(&patient.snap);
	config_init(&patient.config);
	cli_parse(&doctor_argp, argc, argv, 0, &args);
	if (args.all && !args.repair)
		cli_reject(argv, "--all goes with --repair");
	if (args.repair)
		return repair(args.json, args.all);
	if (examine(&patient, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	return run_checks(&patient, args.json);
}
