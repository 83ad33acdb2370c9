#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "sources/gpu.h"
#include "sources/sources.h"

/* Who wants to know, and of which rung. */
struct measure {
	gpu_tell_fn *fn;
	void *ctx;
	const char *rung;
};

static void tell_cost(void *ctx, const char *question, uint64_t ns)
{
	const struct measure *m = ctx;

	m->fn(m->ctx, m->rung, question, ns);
}

static enum gpus_told judge(const struct gpu_reading *r)
{
	enum gpus_told told = GPUS_TOLD_NOTHING;

	for (uint32_t i = 0; i < r->n_devices; i++) {
		if (r->devices[i].is_lost)
			return GPUS_TOLD_LOSS;
		if (f64_known(r->devices[i].utilization_pct) ||
		    f64_known(r->devices[i].memory_used_mb))
			told = GPUS_TOLD;
	}
	return told;
}

static void tell_device(const struct gpu_reading *r, uint32_t i, const struct measure *m)
{
	char text[GPU_NAME_BYTES + 32];
	bool is_named = r->names[i][0] != '\0';

	if (r->devices[i].is_lost)
		snprintf(text, sizeof(text), "GPU %u is lost%s%s%s", i, is_named ? " (" : "",
			 r->names[i], is_named ? ")" : "");
	else
		snprintf(text, sizeof(text), "%s", is_named ? r->names[i] : "a GPU without a name");
	m->fn(m->ctx, m->rung, text, U64_UNKNOWN);
}

static enum gpus_told read_once(const struct gpu_driver *driver, void *opened,
				const struct measure *m)
{
	static struct gpu_reading reading; /* too large for a stack */
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns(), cost_ns;
	enum gpus_told told;

	gpu_reading_init(&reading);
	if (driver->read(opened, &reading, &err) < 0) {
		m->fn(m->ctx, m->rung, err.text, U64_UNKNOWN);
		return GPUS_TOLD_NOTHING;
	}
	cost_ns = clock_boot_ns() - before;
	told = judge(&reading);
	if (told == GPUS_TOLD_NOTHING)
		m->fn(m->ctx, m->rung, "it tells nothing of any GPU", U64_UNKNOWN);
	else
		m->fn(m->ctx, m->rung, "a whole reading", cost_ns);
	for (uint32_t i = 0; i < reading.n_devices; i++)
		tell_device(&reading, i, m);
	if (reading.note[0])
		m->fn(m->ctx, m->rung, reading.note, U64_UNKNOWN);
	if (reading.remark[0])
		m->fn(m->ctx, m->rung, reading.remark, U64_UNKNOWN);
	return told;
}

const char *gpus_driver_name(size_t i)
{
	return i < GPU_N_DRIVERS ? gpu_drivers[i]->name : NULL;
}

static enum gpus_told measure(int root_fd, const struct gpu_driver *driver, gpu_tell_fn *fn,
			      void *ctx)
{
	struct measure m = { fn, ctx, driver->name };
	struct err err = ERR_INIT;
	enum gpus_told told;
	void *opened;

	if (driver->open(root_fd, &opened, &err) < 0) {
		fn(ctx, driver->name, err.text, U64_UNKNOWN);
		return GPUS_TOLD_NOTHING;
	}
	told = read_once(driver, opened, &m);
	if (told != GPUS_TOLD_NOTHING && driver->measure)
		driver->measure(opened, tell_cost, &m);
	driver->close(opened);
	return told;
}

static enum gpus_told end_like(int status)
{
	if (WIFEXITED(status))
		return (enum gpus_told)WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return GPUS_TOLD_NOTHING;
}

/* What a program leaves behind falls to us, and not to who asks: that takes it for the program. */
enum gpus_told gpus_measure(int root_fd, size_t i, gpu_tell_fn *fn, void *ctx)
{
	int status = 0;
	pid_t pid;

	gpu_leave_no_core();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(measure(root_fd, gpu_drivers[i], fn, ctx));
	}
	if (pid < 0)
		return GPUS_TOLD_NOTHING;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	gpu_end_children();
	return end_like(status);
}
