/*
 * gpu - what graphics processors do, and for whom: inside sources/.
 *
 * A driver is one way of asking: NVIDIA's library, NVIDIA's program, and what the
 * kernel says of all others. gpu_drivers[] lists them, best first; of those with
 * the same vendor the first that opens is used. Drivers may hang, crash or vanish
 * for a while, so they are only ever asked by a process of their own (gpu_reader.c),
 * and what it has read comes over a socket, whole readings at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/snapshot.h"
#include "sources/sources.h"

#define GPU_MAX_DEVICES 64
#define GPU_MAX_PROCESSES 1024
#define GPU_NAME_BYTES 64
#define GPU_NOTE_BYTES 320
#define GPU_DEVICE_UNKNOWN (-1)

/* A process that holds a device. */
struct gpu_process {
	struct proc_key key;
	int device; /* index of it; GPU_DEVICE_UNKNOWN: it holds one, and which is not told */
	uint64_t memory_bytes;
	double utilization_pct; /* of the device, since the last time it was asked */
};

struct gpu_reading {
	uint64_t boot_ns;	   /* when it was complete */
	uint64_t asked_boot_ns;	   /* when the oldest of it was asked; 0: when it was complete */
	uint64_t cpu_ns;	   /* that all readings of the process that reads took so far */
	char rung[GPU_NAME_BYTES]; /* who said so: "NVML", "NVML + DRM fdinfo"; "": nobody */
	char note[GPU_NOTE_BYTES]; /* what is wrong, so that something is not known; "": nothing */
	char remark[GPU_NOTE_BYTES]; /* what is odd, and known all the same; "": nothing */
	uint32_t n_devices;
	uint32_t n_processes;
	uint32_t n_left_out;  /* processes that had no room, or that could not be told */
	uint32_t only_own;    /* not 0: processes of other users could not be looked into */
	uint32_t is_denied;   /* not 0: we have no rights to some, and so do not count them */
	uint32_t has_holders; /* not 0: of those left out, all that hold a device file are listed */
	uint32_t is_interim;  /* not 0: who asked has died, and another one asks already */
	struct gpu_sample devices[GPU_MAX_DEVICES];
	char names[GPU_MAX_DEVICES][GPU_NAME_BYTES];
	struct gpu_process processes[GPU_MAX_PROCESSES]; /* of a message only n_processes */
};

void gpu_reading_init(struct gpu_reading *r);

/* How much of it is sent. */
size_t gpu_reading_bytes(const struct gpu_reading *r);

/* There are more than GPU_MAX_DEVICES. */
void gpu_note_more_devices(struct gpu_reading *r);

/* The next device, all unknown but its index; NULL: there is no room, which is noted. */
struct gpu_sample *gpu_add_device(struct gpu_reading *r, const char *name);

/*
 * Counts those that have no room. Of two entries of the same process and device the larger
 * values stay: one that both draws and computes is listed twice.
 */
void gpu_add_process(struct gpu_reading *r, const struct gpu_process *p);

/* What it has was asked for then, and is told again: of several drivers the oldest counts. */
void gpu_note_asked(struct gpu_reading *r, uint64_t boot_ns);

/* Into a reading's note or remark: the first stays. */
void gpu_note_first(char note[GPU_NOTE_BYTES], const char *format, ...) PRINTF_LIKE(2, 3);
#define gpu_note(r, ...) gpu_note_first((r)->note, __VA_ARGS__)
#define gpu_remark(r, ...) gpu_note_first((r)->remark, __VA_ARGS__) /* and nothing is unknown */

/* Shares that cannot be (negative, tenfold) are unknown; a little too much is 100, and remarked. */
double gpu_sane_percent(struct gpu_reading *r, int device, double percent);

/* The same of the share of a process, by the number that the driver calls it by. */
double gpu_sane_share(struct gpu_reading *r, int device, uint64_t pid, double percent);

/*
 * Of the devices from the first on: degrees, power, clock and memory that cannot be are unknown,
 * and noted; so is what a process holds of one if that is more than there is.
 */
void gpu_check_devices(struct gpu_reading *r, uint32_t first);

/* ---- how far apart readings are (gpu.c) ---- */

/* {0} at first. */
struct gpu_pace {
	uint64_t n, last_boot_ns;
	uint64_t min_ns, max_ns; /* of two or more */
};

/* What was asked then once already is no other reading. */
void gpu_pace_add(struct gpu_pace *p, uint64_t asked_boot_ns);

/* "1.00 s to 5.02 s apart", "one alone"; false: there was none. */
bool gpu_pace_tell(const struct gpu_pace *p, char *ret, size_t size);

/* ---- what was done between two looks (gpu.c) ---- */

/* Over the time for which it was told. */
struct gpu_mean {
	double sum;	/* of the values, each as often as it lasted nanoseconds */
	double more_ns; /* for which it was told beyond that of all; below 0: not told of that */
};

/* A process, on all devices. */
struct gpu_span {
	struct proc_key key;
	struct gpu_mean percent, idleness;
};

/* {0} at first. */
struct gpu_spans {
	double ns; /* of all readings in which who is not listed did nothing */
	bool is_full;
	uint32_t n;
	struct gpu_span of[GPU_MAX_PROCESSES]; /* they ascend, as in a reading that is sorted */
};

/* By pid. */
void gpu_sort_processes(struct gpu_reading *r);

/* A sorted reading, so long after the one before it: it tells what was done since. */
void gpu_spans_add(struct gpu_spans *s, const struct gpu_reading *r, uint64_t since_ns);

/*
 * Puts means over all of them in the place of what the last says of a process, which is 0 if that
 * does not list it. Where the last does not tell them, they are not told.
 */
void gpu_spans_tell(const struct gpu_spans *s, const struct proc_key *key, double *percent,
		    double *idleness);
void gpu_spans_reset(struct gpu_spans *s);

/* ---- which GPU has which number (gpu.c) ---- */

#define GPU_ID_BYTES 96

/* A vendor's GPUs in the order of their numbers, as they were first told of; {0}: none yet. */
struct gpu_places {
	uint32_t n;
	char ids[GPU_MAX_DEVICES][GPU_ID_BYTES]; /* a UUID, or a place on the bus; "": not told */
	char names[GPU_MAX_DEVICES][GPU_NAME_BYTES];
};

/* After a process that a driver may have spoilt has written it. */
void gpu_make_places_safe(struct gpu_places *p);

/* ---- drivers ---- */

/* For doctor: called with what each kind of question costs. */
typedef void gpu_cost_fn(void *ctx, const char *question, uint64_t ns);

enum gpu_vendor { GPU_NVIDIA, GPU_DRM, GPU_VENDORS };

struct gpu_driver {
	const char *name;
	enum gpu_vendor vendor;
	/* Its devices stand where they stood before, new ones behind. places may be NULL: none did.
	 * -ENODEV: there is none of these here; else err says why not. */
	int (*open)(int root_fd, const struct gpu_places *places, void **ret, struct err *err);
	/* Adds to the reading. A failure means that it must be opened anew. */
	int (*read)(void *driver, struct gpu_reading *ret, struct err *err);
	/* Of its i-th device, as it stands in a reading; "": not told. */
	const char *(*id)(const void *driver, size_t i);
	/* NULL: not told. */
	void (*measure)(void *driver, gpu_cost_fn *fn, void *ctx);
	void (*close)(void *driver);
};

/* Whether NVIDIA's driver is there: then a library that is missing is worth a word. */
bool gpu_has_nvidia(int root_fd);

/* Whether a GPU has a driver in the kernel that tells of its clients. */
bool gpu_has_drm(int root_fd);

extern const struct gpu_driver gpu_nvml, gpu_smi, gpu_drm;
#define GPU_N_DRIVERS 3
extern const struct gpu_driver *const gpu_drivers[GPU_N_DRIVERS];

/* ---- drivers that take their process with them (gpu_drivers.c) ---- */

/* Kept by who outlives those that ask; {0} at first. */
struct gpu_record {
	unsigned n_deaths;     /* in a row, of processes that were asking this driver */
	int signal;	       /* that ended the last; 0: another end; GPU_HUNG: ours */
	uint64_t died_boot_ns; /* when the last did */
};

#define GPU_HUNG (-1)
#define GPU_AGAIN_NS UINT64_C(300000000000) /* until a driver that was left is asked again */

void gpu_record_death(struct gpu_record *record, int signal, uint64_t now_ns);

/* Whether it is left alone for now: each death makes that twice as long. again_ns for the first. */
bool gpu_is_given_up(const struct gpu_record *record, uint64_t again_ns, uint64_t now_ns);

/* "NVML crashed (Segmentation fault): it is asked again after 5 minutes"; returns -EIO. */
int gpu_tell_death(const struct gpu_record *record, uint64_t again_ns, const char *driver,
		   struct err *err);

/* ---- all drivers (gpu_drivers.c) ---- */

/* The driver of a vendor's GPUs that is in use; {0} at first. */
struct gpu_slot {
	const struct gpu_driver *driver; /* NULL: none is open */
	void *opened;
	uint64_t tried_boot_ns;	  /* when one was opened, or could not be; 0: never */
	unsigned n_failures;	  /* readings in a row */
	struct gpu_places places; /* unless others keep them */
};

/* A driver (its number in gpu_drivers) is about to be asked, or has answered. */
enum gpu_beat { GPU_BEAT_ASKS, GPU_BEAT_ANSWERED };
typedef void gpu_beat_fn(void *ctx, enum gpu_beat beat, size_t driver);

/* {0} at first, but for again_ns and the records. */
struct gpu_slots {
	struct gpu_slot of[GPU_VENDORS];
	struct gpu_record records[GPU_N_DRIVERS];
	uint64_t again_ns;	   /* until a better driver than that in use is asked again */
	struct gpu_places *places; /* of each vendor, where they outlive this process; NULL: not */
	struct err why_not[GPU_N_DRIVERS]; /* why it did not answer the last time; code 0: it did */
	gpu_beat_fn *beat;		   /* NULL: nobody listens */
	void *ctx;
};

/* Opens what is not open, and asks them all. */
void gpu_read_all(struct gpu_slots *s, int root_fd, struct gpu_reading *ret);
void gpu_close_all(struct gpu_slots *s);

/* ---- whose a reading is (gpu_owner.c) ---- */

/* How device files are recognised. */
struct gpu_files {
	const char *prefix; /* of their path; inside a chroot something stands before it, */
	unsigned major;	    /* and then their number must be this */
};

extern const struct gpu_files gpu_nvidia_files, gpu_drm_files;

/* Whether a link in proc/PID/fd leads to one. Files that are none are not touched. */
bool gpu_is_device_file(int folder_fd, const char *name, const struct gpu_files *files);

enum gpu_holds { GPU_HOLDS_NOT, GPU_HOLDS, GPU_HOLDS_MAYBE };

/*
 * Whether a process has such a file open; MAYBE: it may not be looked into. ret_devices: which of
 * those with a number, one bit for each; NULL: nobody wants to know.
 */
enum gpu_holds gpu_holds_device(int root_fd, uint64_t pid, const struct gpu_files *files,
				uint64_t *ret_devices);

/* False: there is no such process. */
bool gpu_read_key(int root_fd, uint64_t pid, struct proc_key *ret);

/* Whether it is of this user; one that runs a program with more rights is it too. */
bool gpu_is_own(int root_fd, uint64_t pid);

#define GPU_MAX_OWNERS 256
#define GPU_MAX_INNER 8192

/* Whom a pid meant, or that nobody was found (key.pid 0). */
struct gpu_owner {
	uint64_t pid, found_boot_ns;
	struct proc_key key;
	bool is_old_news; /* nobody was found, in a look that had been taken before */
};

/* A process that has another pid inside its own namespace. */
struct gpu_inner {
	pid_t inner, pid;
};

/*
 * What is remembered for some seconds, for who asks every second, {0} at first: whom pids meant,
 * and one look at all processes for all pids that are nobody's here.
 */
struct gpu_owners {
	struct gpu_owner items[GPU_MAX_OWNERS];
	size_t n, next; /* the next is overwritten when all are in use */
	struct gpu_inner inners[GPU_MAX_INNER];
	size_t n_inners;
	bool has_all;		 /* of them */
	uint64_t looked_boot_ns; /* 0: never */
	uint64_t n_looks;
};

/*
 * The process that a driver means by this pid: the one that has it here, if it holds
 * a device file, else the only one that has it inside its own namespace and holds one.
 * False: it cannot be told.
 */
bool gpu_owners_find(struct gpu_owners *o, int root_fd, uint64_t pid, const struct gpu_files *files,
		     struct proc_key *ret);

/* ---- whom no driver tells of (gpu_owner.c) ---- */

/*
 * Adds, with all unknown, whoever holds a device file and is not in the reading, and whoever holds
 * more devices than it is listed on while one of them cannot be read: what a driver does not list
 * it may use all the same. Notes only_own where processes of others could not be looked into.
 */
void gpu_add_holders(int root_fd, const struct gpu_files *files, struct gpu_reading *ret);

/* Who was on which device when that was last read; {0} at first. */
struct gpu_users {
	uint32_t n;
	struct gpu_process of[GPU_MAX_PROCESSES];
};

/*
 * Where some were left out: the same of all kinds of device files, after which the rest uses no
 * GPU. Who was on a device that cannot be read any more is unknown too.
 */
void gpu_find_left_out(int root_fd, struct gpu_users *users, struct gpu_reading *ret);

/* ---- the process that reads (gpu_reader.c) ---- */

/* A library's crash is told, and leaves no file behind: of this process, and those it starts. */
void gpu_leave_no_core(void);

/* Kills them, and whom they leave to us where we are a subreaper, and waits a little. */
void gpu_end_children(void);

/*
 * Starts it, detached: nobody's child here. It ends when the socket is closed, whatever its
 * driver does. -errno. The caller has one thread.
 */
int gpu_reader_start(const struct gpus_options *options, int *ret_fd, struct err *err);

/* Until the next reading, of a reader that has read for so long: at first less than the interval.
 */
double gpu_pause_seconds(double interval_seconds, uint64_t age_ns);

/*
 * ---- inside drm.c: the texts in which the kernel tells of the clients of the cards it drives ----
 */

#define DRM_SLOT_BYTES 32
#define DRM_MAX_ENGINES 8
#define DRM_ENGINE_BYTES 24

/* One kind of engine, and how much of it a client had. What is not said is U64_UNKNOWN. */
struct drm_engine {
	char name[DRM_ENGINE_BYTES]; /* "render"; "": no such */
	uint64_t busy_ns;
	uint64_t cycles, total_cycles; /* some drivers count in the engine's own clock */
	uint64_t capacity;	       /* how many of this kind there are, if not one */
	bool has_fallen;	       /* since the reading before, whose values stand */
};

/* What proc/PID/fdinfo/N says of one client of a device. */
struct drm_client {
	char slot[DRM_SLOT_BYTES]; /* of the device on the PCI bus */
	uint64_t id;
	uint64_t memory_bytes; /* of the device's own; U64_UNKNOWN: it does not say */
	struct drm_engine engines[DRM_MAX_ENGINES];
};

/* False: it is no client, or does not say of which device. */
bool drm_parse_client(const char *text, struct drm_client *ret);

/* How busy each engine was kept by the clients that were added up; {0}: by nobody yet. */
struct drm_use {
	struct {
		char name[DRM_ENGINE_BYTES];
		double percent;
	} engines[DRM_MAX_ENGINES];
	size_t n;
	bool is_part; /* one of an engine is not known, and may be more than the others */
};

/*
 * Of a later reading; a counter may fall for a while, and then it catches up: how busy it was is
 * unknown at both, since what it comes to then is of a longer time.
 */
void drm_keep_highest(struct drm_client *now, const struct drm_client *before);

/* Adds a client's, between two readings wall_ns apart; before NULL: it began between them. */
void drm_add_use(struct drm_use *sum, const struct drm_client *now, const struct drm_client *before,
		 double wall_ns);

/* That of the busiest, which may be a little above 100; NaN: not told. */
double drm_busiest_percent(const struct drm_use *use);

/* The first word behind a key of a device's uevent: "PCI_SLOT_NAME=", "DRIVER=". */
bool drm_find_value(const char *text, const char *key, char ret[DRM_SLOT_BYTES]);

/* ---- inside smi.c: NVIDIA's program ---- */

#define SMI_PROGRAM "nvidia-smi"
#define SMI_UUID_BYTES 96

/* In a handler of signals: kills what runs now, with all that it started. */
void smi_end_program(void);

/* ---- what it prints ---- */

enum smi_field { SMI_UTILIZATION, SMI_MEMORY_USED, SMI_MEMORY_TOTAL, SMI_TEMPERATURE, SMI_FIELDS };

/*
 * A line of --query-gpu=utilization.gpu,memory.used,memory.total,temperature.gpu, as the values
 * stand there: inf and 101 are possible, NaN is no number. False: not four, or not all numbers.
 */
bool smi_parse_line(const char *line, size_t n, double ret[SMI_FIELDS]);

struct smi_device {
	char uuid[SMI_UUID_BYTES];
	bool is_listed; /* the last time it was asked */
	bool is_lost;	/* it is listed, and said to be that */
	uint64_t index; /* its number; U64_UNKNOWN: not told */
	double values[SMI_FIELDS];
};

/*
 * A line of the same query with uuid before them, and maybe index behind: what else does not parse
 * is unknown. False: it is none, but a warning.
 */
bool smi_parse_device(const char *line, struct smi_device *ret);

struct smi_process {
	char uuid[SMI_UUID_BYTES];
	uint64_t pid;
	uint64_t memory_bytes; /* U64_UNKNOWN: not told */
};

/* A line of --query-compute-apps=gpu_uuid,pid,used_memory. False: it is none, but a warning. */
bool smi_parse_process(const char *line, struct smi_process *ret);
