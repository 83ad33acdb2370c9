/*
 * run_class - which runs are of one kind, and which of them count.
 *
 * From fine to coarse (enum run_rung):
 *  - exact: the command, word by word, and the sheet;
 *  - masked: the command with paths and numbers taken out, the size of its input
 *    files to the next power of two, and the user;
 *  - program: the executable (of an interpreter, its script) and the user.
 * Of a job with several sheets, those that it began with, and how many there are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/run_record.h"

struct class_source {
	const char *command; /* as it is shown, secrets masked; of several sheets the first one's,
				which is there however it ended; NULL: not known */
	int n_sheets;	     /* that it is all of; 1: one command */
	uint64_t argv_hash;
	int sheet_num;
	uint64_t uid;
	uint64_t input_bytes; /* U64_UNKNOWN: it names no files */
};

/* The label lives in the arena. -ENOMEM. */
int class_describe(const struct class_source *source, struct arena *arena, struct run_class *ret);

/* Where there is nothing but a command, or not even that (NULL); borrows it as the label. */
void class_of_command(const char *command, struct run_class *ret);

/* "train.py --lr # PATH": what is left of a command. */
void class_mask_command(const char *command, struct buf *out);

/* What people call it: "train.py" of "/usr/bin/python3 -u src/train.py". */
void class_add_label(const char *command, struct buf *out);

/* "exact command", "masked command", "program and user". */
const char *class_rung_name(enum run_rung rung);

/*
 * ---- units: what counts as one, the first run of each input ----
 *
 * A run is a retry if it is of the same command and input as one that did not succeed, and
 * began within an hour of that one's end, whatever id the job was given. Of runs from a
 * file, which say nothing of that, those with the same job id.
 */

#define UNIT_RETRY_NS UINT64_C(3600000000000) /* a retry begins within this */

/*
 * The whole runs with an outcome, without retries, by class and then by time.
 * *ret is the caller's to free; *ret_n_retries and *ret_n_undecided are those left
 * out. -ENOMEM.
 */
int units_list(const struct run_record *runs, size_t n, const struct run_record ***ret,
	       size_t *ret_n, size_t *ret_n_retries, size_t *ret_n_undecided);

/* Those of a class that ended later than so: [*ret_first, the end that is returned). */
size_t units_of_class(const struct run_record *const *units, size_t n, uint64_t class_key,
		      uint64_t after_wall_ns, size_t *ret_first);
