/*
 * class - which jobs are of one kind.
 *
 * From fine to coarse (enum run_rung):
 *  - exact: the command, word by word, and the sheet;
 *  - masked: the command with paths and numbers taken out, the size of its input
 *    files to the next power of two, and the user;
 *  - program: the executable (of an interpreter, its script) and the user.
 * Of a job with several sheets, those that it began with, and how many there are.
 */
#ifndef PROCTOR_LEARN_CLASS_H
#define PROCTOR_LEARN_CLASS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/run.h"

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

#endif
