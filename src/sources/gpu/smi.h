/*
 * smi - NVIDIA's program: running it, and the text that it prints. Inside gpu_smi*.c.
 */
#ifndef PROCTOR_SOURCES_GPU_SMI_H
#define PROCTOR_SOURCES_GPU_SMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SMI_PROGRAM "nvidia-smi"
#define SMI_UUID_BYTES 96

/* ---- running it (smi.c) ---- */

/* In a handler of signals: kills what runs now, with all that it started. */
void smi_end_program(void);

/* ---- what it prints ---- */

enum smi_field { SMI_UTILIZATION, SMI_MEMORY_USED, SMI_MEMORY_TOTAL, SMI_TEMPERATURE, SMI_FIELDS };

/* A line of --query-gpu=utilization.gpu,memory.used,memory.total,temperature.gpu. */
struct smi_line {
	int index;		   /* lines are counted whatever is on them, blank ones are not */
	bool is_whole;		   /* four fields, and all of them numbers */
	double values[SMI_FIELDS]; /* as they stand there: inf and 101 are possible; NaN: no number
				    */
};

/* Fills up to max; returns how many. */
size_t smi_parse(const char *text, struct smi_line *ret, size_t max);

struct smi_device {
	char uuid[SMI_UUID_BYTES];
	bool is_listed; /* the last time it was asked */
	bool is_lost;	/* it is listed, and said to be that */
	uint64_t index; /* its number; U64_UNKNOWN: not told */
	struct smi_line line;
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

#endif
