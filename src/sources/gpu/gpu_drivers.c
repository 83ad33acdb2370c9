/*
 * gpu_drivers - one driver for each vendor's GPUs, opened, asked and replaced.
 *
 * A driver that fails is closed and opened again, not twice within a while; if it only ever
 * opens, the next one of its vendor gets its turn, as it does at once if the driver has taken its
 * process with it. Meanwhile its GPUs are there, and nothing is known of them: they keep their
 * numbers, and nobody is said to use none.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "sources/child.h"
#include "sources/gpu/gpu.h"
#include "sources/sources.h"

#define REOPEN_NS UINT64_C(10000000000) /* from one opening to the next */
#define FAILURES_EACH 2			/* in a row, then it is the next one's turn */
#define MAX_DOUBLINGS 4			/* of the time for which a driver is left alone */
#define NVIDIA_GPUS "proc/driver/nvidia/gpus"

const struct gpu_driver *const gpu_drivers[] = { &gpu_nvml, &gpu_smi, &gpu_drm };

/* ---- whether a driver has found a GPU, without asking it anything ---- */

static uint32_t count_entries(int root_fd, const char *path)
{
	CLEANUP(dir_close) DIR *dir = dir_open_at(root_fd, path);
	const struct dirent *entry;
	uint32_t n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	return n;
}

/* How many GPUs NVIDIA's driver has found. */
static uint32_t gpu_count_nvidia(int root_fd)
{
	return count_entries(root_fd, NVIDIA_GPUS);
}

bool gpu_has_nvidia(int root_fd)
{
	if (gpu_count_nvidia(root_fd) > 0 || faccessat(root_fd, "dev/nvidiactl", F_OK, 0) == 0)
		return true;
	/* Under WSL2 the driver is that of Windows, and all GPUs are one device file. */
	return faccessat(root_fd, "dev/dxg", F_OK, 0) == 0 &&
	       (faccessat(root_fd, "usr/lib/wsl/lib/libnvidia-ml.so.1", F_OK, 0) == 0 ||
		path_has_program(SMI_PROGRAM));
}

bool sources_has_gpu(int root_fd)
{
	return gpu_has_nvidia(root_fd) ||
	       (count_entries(root_fd, "dev/dri") > 0 && gpu_has_drm(root_fd));
}

/*
 * ---- drivers that took the process that asked them with them ----
 *
 * Such a driver is left alone for a while, so that the next one of its vendor has its turn. It
 * may have been an accident (an update of the driver), so it is asked again.
 */

void gpu_record_death(struct gpu_record *record, int signal, uint64_t now_ns)
{
	record->n_deaths++;
	record->signal = signal;
	record->died_boot_ns = now_ns;
}

static uint64_t pause_ns(const struct gpu_record *record, uint64_t again_ns)
{
	unsigned doublings = record->n_deaths - 1;

	return again_ns << (doublings < MAX_DOUBLINGS ? doublings : MAX_DOUBLINGS);
}

bool gpu_is_given_up(const struct gpu_record *record, uint64_t again_ns, uint64_t now_ns)
{
	return record->n_deaths > 0 && now_ns - record->died_boot_ns < pause_ns(record, again_ns);
}

int gpu_tell_death(const struct gpu_record *record, uint64_t again_ns, const char *driver,
		   struct err *err)
{
	unsigned long long minutes = pause_ns(record, again_ns) / UINT64_C(60000000000);
	char how[96];

	if (record->signal == GPU_HUNG)
		snprintf(how, sizeof(how), "did not answer, and was ended");
	else if (record->signal > 0)
		snprintf(how, sizeof(how), "crashed (%s)", strsignal(record->signal));
	else
		snprintf(how, sizeof(how), "ended the process that asked it");
	return err_set(err, -EIO, "%s %s: it is asked again after %llu minutes", driver, how,
		       minutes);
}

/* ---- the drivers of a vendor ---- */

static bool is_given_up(const struct gpu_slots *s, size_t driver)
{
	return gpu_is_given_up(&s->records[driver], s->again_ns, clock_boot_ns());
}

/* The first that is not given up. */
static const struct gpu_driver *best_of(const struct gpu_slots *s, enum gpu_vendor vendor)
{
	for (size_t i = 0; i < GPU_N_DRIVERS; i++)
		if (gpu_drivers[i]->vendor == vendor && !is_given_up(s, i))
			return gpu_drivers[i];
	return NULL;
}

/* What settles the matter: there is none, or none for us. Else the first trouble; 0: none. */
static int code_of(const struct gpu_slots *s, enum gpu_vendor vendor)
{
	int code = 0;

	for (size_t i = 0; i < GPU_N_DRIVERS; i++) {
		int own = gpu_drivers[i]->vendor == vendor ? s->why_not[i].code : 0;

		if (own == -ENODEV || own == -EACCES)
			return own;
		if (code == 0)
			code = own;
	}
	return code;
}

static void join(char note[GPU_NOTE_BYTES], const char *more)
{
	size_t n = strlen(note);

	if (more[0])
		snprintf(note + n, GPU_NOTE_BYTES - n, "%s%s", n ? "; " : "", more);
}

/* Why those of the vendor that are better than this one (NULL: all) are not in use. */
static void join_reasons(const struct gpu_slots *s, enum gpu_vendor vendor,
			 const struct gpu_driver *than, char note[GPU_NOTE_BYTES])
{
	for (size_t i = 0; i < GPU_N_DRIVERS && gpu_drivers[i] != than; i++)
		if (gpu_drivers[i]->vendor == vendor)
			join(note, s->why_not[i].text);
}

/* ---- opening ---- */

static void close_slot(struct gpu_slot *slot)
{
	if (slot->driver)
		slot->driver->close(slot->opened);
	slot->driver = NULL;
}

static void beat(const struct gpu_slots *s, enum gpu_beat what, size_t driver)
{
	if (s->beat)
		s->beat(s->ctx, what, driver);
}

static struct gpu_places *places_of(struct gpu_slots *s, enum gpu_vendor vendor)
{
	return s->places ? &s->places[vendor] : &s->of[vendor].places;
}

/* The one in use is closed only when this one is open. */
static void try_driver(struct gpu_slots *s, int root_fd, size_t i)
{
	const struct gpu_driver *driver = gpu_drivers[i];
	struct gpu_slot *slot = &s->of[driver->vendor];
	struct err *err = &s->why_not[i];
	void *opened;

	if (is_given_up(s, i)) {
		gpu_tell_death(&s->records[i], s->again_ns, driver->name, err);
		return;
	}
	beat(s, GPU_BEAT_ASKS, i);
	if (driver->open(root_fd, places_of(s, driver->vendor), &opened, err) < 0)
		return;
	close_slot(slot);
	slot->driver = driver;
	slot->opened = opened;
}

static void open_slot(struct gpu_slots *s, int root_fd, enum gpu_vendor vendor)
{
	struct gpu_slot *slot = &s->of[vendor];
	const struct gpu_driver *used = slot->driver;
	uint64_t now = clock_boot_ns(), since = now - slot->tried_boot_ns;
	size_t drivers[GPU_N_DRIVERS], n = 0, first = slot->n_failures / FAILURES_EACH;
	bool is_best = used && used == best_of(s, vendor);

	if (is_best || (slot->tried_boot_ns && since < (used ? s->again_ns : REOPEN_NS)))
		return;
	slot->tried_boot_ns = now;
	for (size_t i = 0; i < GPU_N_DRIVERS; i++)
		if (gpu_drivers[i]->vendor == vendor)
			drivers[n++] = i;
	if (used) /* until a better one is open it stays */
		for (size_t i = 0; slot->driver == used && gpu_drivers[drivers[i]] != used; i++)
			try_driver(s, root_fd, drivers[i]);
	else
		for (size_t i = 0; !slot->driver && i < n; i++)
			try_driver(s, root_fd, drivers[(first + i) % n]);
}

/* ---- reading ---- */

/* What is in a reading before a driver adds to it. */
struct mark {
	uint32_t n_devices, n_processes, n_left_out, only_own;
	bool has_note, has_remark;
};

/* False: nothing was read. */
static bool read_slot(struct gpu_slots *s, enum gpu_vendor vendor, struct gpu_reading *ret)
{
	struct mark before = { ret->n_devices, ret->n_processes,     ret->n_left_out,
			       ret->only_own,  ret->note[0] != '\0', ret->remark[0] != '\0' };
	struct gpu_slot *slot = &s->of[vendor];
	struct gpu_places *places = places_of(s, vendor);
	size_t i = 0, n;

	if (!slot->driver)
		return false;
	while (gpu_drivers[i] != slot->driver)
		i++;
	beat(s, GPU_BEAT_ASKS, i);
	if (slot->driver->read(slot->opened, ret, &s->why_not[i]) < 0) {
		ret->n_devices = before.n_devices;
		ret->n_processes = before.n_processes;
		ret->n_left_out = before.n_left_out;
		ret->only_own = before.only_own;
		if (!before.has_note)
			ret->note[0] = '\0';
		if (!before.has_remark)
			ret->remark[0] = '\0';
		slot->n_failures++;
		close_slot(slot);
		return false;
	}
	beat(s, GPU_BEAT_ANSWERED, i);
	s->records[i].n_deaths = 0;
	s->why_not[i] = (struct err)ERR_INIT;
	slot->n_failures = 0;
	gpu_check_devices(ret, before.n_devices);
	/* Which it has, for when it does not answer, or another one does. */
	places->n = ret->n_devices - before.n_devices;
	memcpy(places->names, ret->names[before.n_devices], places->n * sizeof(places->names[0]));
	for (uint32_t k = 0; k < places->n; k++)
		snprintf(places->ids[k], sizeof(places->ids[k]), "%s",
			 slot->driver->id(slot->opened, k));
	n = strlen(ret->rung);
	snprintf(ret->rung + n, sizeof(ret->rung) - n, "%s%s", n ? " + " : "", slot->driver->name);
	if (!before.has_note) {
		/* Before what the driver itself notes: that may be a consequence. */
		char own[GPU_NOTE_BYTES];

		memcpy(own, ret->note, sizeof(own));
		ret->note[0] = '\0';
		join_reasons(s, vendor, s->of[vendor].driver, ret->note);
		join(ret->note, own);
	}
	return true;
}

/* That a vendor has none is no news; that those which are there do not answer is. */
static void add_absent(struct gpu_slots *s, enum gpu_vendor vendor, uint32_t n_found,
		       struct gpu_reading *ret)
{
	const struct gpu_places *places = places_of(s, vendor);
	uint32_t n = places->n > 0 ? places->n : n_found;
	int code = code_of(s, vendor);
	char why[GPU_NOTE_BYTES] = "";

	if (n == 0 && (code == 0 || code == -ENODEV))
		return;
	if (places->n == 0 && code == -EACCES) {
		ret->is_denied = 1; /* there may be some, but not for us */
		n = 0;
	}
	for (uint32_t i = 0; i < n; i++)
		gpu_add_device(ret, i < places->n ? places->names[i] : "");
	ret->n_left_out++;
	join_reasons(s, vendor, NULL, why);
	gpu_note(ret, "%s", why);
}

void gpu_read_all(struct gpu_slots *s, int root_fd, struct gpu_reading *ret)
{
	gpu_reading_init(ret);
	for (int i = 0; i < GPU_VENDORS; i++) {
		enum gpu_vendor vendor = (enum gpu_vendor)i;

		open_slot(s, root_fd, vendor);
		if (!read_slot(s, vendor, ret))
			add_absent(s, vendor, i == GPU_NVIDIA ? gpu_count_nvidia(root_fd) : 0, ret);
	}
	ret->boot_ns = clock_boot_ns();
}

void gpu_close_all(struct gpu_slots *s)
{
	for (int i = 0; i < GPU_VENDORS; i++)
		close_slot(&s->of[i]);
}

/*
 * ---- what each driver costs, for doctor ----
 *
 * A driver is asked by a child of a child: what a program leaves behind falls to the one between,
 * and not to doctor, which takes it for the program.
 */

#define DEADLINE_MS 20000 /* of one driver: nvidia-smi is given 5 s for each call */
#define ANSWER_BYTES 32768
#define MEASURED 64 /* the child's exit status; + enum gpus_told */

/* Who is asked, and where its lines go. */
struct measure {
	const char *rung;
	int fd;
};

/* "NVML: memory takes 0.005 ms"; U64_UNKNOWN: it is no question, or was not answered. */
static void tell(void *ctx, const char *what, uint64_t ns)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const struct measure *m = ctx;

	utf8_add_text(&line, what, strlen(what)); /* drivers name devices as they like */
	if (u64_known(ns))
		buf_printf(&line, " takes %.3g ms", (double)ns / 1e6);
	if (buf_error(&line) == 0)
		dprintf(m->fd, "%s: %s\n", m->rung, line.data);
}

static enum gpus_told read_once(const struct gpu_driver *driver, void *opened, struct measure *m)
{
	static struct gpu_reading reading; /* too large for a stack */
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns(), cost_ns;
	enum gpus_told told = GPUS_TOLD_NOTHING;
	char text[GPU_NAME_BYTES + 32];

	gpu_reading_init(&reading);
	if (driver->read(opened, &reading, &err) < 0) {
		tell(m, err.text, U64_UNKNOWN);
		return GPUS_TOLD_NOTHING;
	}
	cost_ns = clock_boot_ns() - before;
	for (uint32_t i = 0; i < reading.n_devices && told != GPUS_BROKEN; i++) {
		const struct gpu_sample *device = &reading.devices[i];

		if (device->is_lost)
			told = GPUS_BROKEN;
		else if (f64_known(device->utilization_pct) || f64_known(device->memory_used_mb))
			told = GPUS_TOLD;
	}
	if (told == GPUS_TOLD_NOTHING)
		tell(m, "it tells nothing of any GPU", U64_UNKNOWN);
	else
		tell(m, "a whole reading", cost_ns);
	for (uint32_t i = 0; i < reading.n_devices; i++) {
		const char *name = reading.names[i];

		if (reading.devices[i].is_lost)
			snprintf(text, sizeof(text), "GPU %u is lost%s%s%s", i, name[0] ? " (" : "",
				 name, name[0] ? ")" : "");
		else
			snprintf(text, sizeof(text), "%s", name[0] ? name : "a GPU without a name");
		tell(m, text, U64_UNKNOWN);
	}
	if (reading.note[0])
		tell(m, reading.note, U64_UNKNOWN);
	if (reading.remark[0])
		tell(m, reading.remark, U64_UNKNOWN);
	return told;
}

static enum gpus_told measure(const struct gpu_driver *driver, struct measure *m)
{
	struct err err = ERR_INIT;
	enum gpus_told told;
	void *opened;

	if (driver->open(CHILD_CARRIED_FD, NULL, &opened, &err) < 0) {
		tell(m, err.text, U64_UNKNOWN);
		return GPUS_TOLD_NOTHING;
	}
	told = read_once(driver, opened, m);
	if (told != GPUS_TOLD_NOTHING && driver->measure)
		driver->measure(opened, tell, m);
	driver->close(opened);
	return told;
}

/* The one between. Behind the lines it writes a byte, enum gpus_told. */
static void measure_apart(const void *ctx, int fd)
{
	const struct gpu_driver *driver = ctx;
	struct measure m = { driver->name, fd };
	char told = GPUS_TOLD_NOTHING;
	int status = 0;
	pid_t pid;

	gpu_leave_no_core();
	signal(SIGCHLD, SIG_DFL); /* where it is ignored, the status of a child is lost */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(MEASURED + (int)measure(driver, &m));
	}
	if (pid < 0)
		return;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	gpu_end_children();
	if (WIFSIGNALED(status)) {
		dprintf(fd, "%s: it crashes the process that asks it (%s)\n", driver->name,
			strsignal(WTERMSIG(status)));
		told = GPUS_BROKEN;
	} else if (WEXITSTATUS(status) >= MEASURED) {
		told = (char)(WEXITSTATUS(status) - MEASURED);
	} else {
		tell(&m, "it ended the process that asked it", U64_UNKNOWN);
	}
	(void)!write(fd, &told, 1);
}

static enum gpus_told measure_driver(int root_fd, const struct gpu_driver *driver, struct buf *out)
{
	const struct child_question question = { measure_apart, driver, root_fd, DEADLINE_MS };
	static char answer[ANSWER_BYTES];
	ssize_t n = child_ask(&question, memset(answer, 0, sizeof(answer)), sizeof(answer), NULL);
	size_t len = n > 0 ? (size_t)n - 1 : strnlen(answer, sizeof(answer));

	/* A child that the driver has spoilt may have written anything: only the lines are kept. */
	for (size_t at = 0; at < len;) {
		bool is_end = answer[at] == '\n' || answer[at] == '\0';

		at += is_end ? 1 : utf8_add_shown(out, answer + at, len - at);
		if (is_end || at == len)
			buf_add_char(out, '\n');
	}
	if (n > 0)
		return answer[len] == GPUS_TOLD || answer[len] == GPUS_BROKEN
			       ? (enum gpus_told)answer[len]
			       : GPUS_TOLD_NOTHING;
	buf_printf(out, "%s: it does not answer, and was asked no longer\n", driver->name);
	return GPUS_BROKEN;
}

enum gpus_told gpus_measure(int root_fd, struct buf *out)
{
	enum gpus_told worst = GPUS_TOLD_NOTHING;

	for (size_t i = 0; i < GPU_N_DRIVERS; i++) {
		enum gpus_told told = measure_driver(root_fd, gpu_drivers[i], out);

		worst = told > worst ? told : worst;
	}
	return worst;
}
