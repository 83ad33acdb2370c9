/*
 * gpu_smi - the text that nvidia-smi prints.
 */
#ifndef PROCTOR_SOURCES_GPU_SMI_H
#define PROCTOR_SOURCES_GPU_SMI_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
