/*
 * doctor_rungs - how each measurement is made here: by who runs long, by a run that no daemon
 * watches, and by the daemon that a run would find.
 */
#ifndef PROCTOR_CLI_DOCTOR_DOCTOR_RUNGS_H
#define PROCTOR_CLI_DOCTOR_DOCTOR_RUNGS_H

#include "base/buf.h"
#include "base/config.h"
#include "base/json.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

struct doctor_rungs {
	struct rung
		own[SOURCES_MAX_RUNGS]; /* of a daemon of this user, and whoever else runs long */
	size_t n_own;
	struct rung of_run[SOURCES_MAX_RUNGS]; /* of a run without one */
	size_t n_of_run;
	const char *by_asking; /* what counts system calls of a run that asks for it; "": nothing */
	struct rpc_value *daemon; /* the status of the one that answers; NULL: none does */
};

/* Tries all of them, which takes some tenths of a second. Their texts live in the arena. */
void doctor_find_rungs(int root_fd, const struct config *config, struct arena *arena,
		       struct doctor_rungs *ret);
void doctor_release_rungs(struct doctor_rungs *r);

/* The drivers of GPUs, which a run asks as well. */
void doctor_find_gpu_rungs(int root_fd, struct arena *arena, struct doctor_rungs *r);

/* The worst of what drivers do: none answers, one does, one crashes, hangs or has lost a GPU. */
enum doctor_gpu { DOCTOR_GPU_SILENT, DOCTOR_GPU_ANSWERS, DOCTOR_GPU_BROKEN };

/*
 * One line for each answer: "NVML: memory takes 0.005 ms". Each driver is asked by a child of
 * its own that is ended if it hangs; then, or if it crashes, a line says so.
 */
enum doctor_gpu doctor_ask_gpus(int root_fd, struct buf *out);

/* Some lines for each. */
void doctor_add_rungs(struct buf *out, const struct doctor_rungs *r);

/*
 * The members rungs and rung_reasons, run_rungs, and daemon_rungs and daemon_rung_reasons, which
 * are null without a daemon.
 */
void doctor_write_rungs(struct json *j, const struct doctor_rungs *r);

#endif
