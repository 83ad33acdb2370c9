/*
 * ranks_svg - the ranks over time as a drawing: memory, the onset, phases below.
 */
#ifndef PROCTOR_CLI_RANKS_SVG_H
#define PROCTOR_CLI_RANKS_SVG_H

#include "base/buf.h"
#include "crossrank/crossrank.h"

/* Appends one <svg> element that needs nothing else. */
void ranks_add_svg(struct buf *out, const struct rank_analysis *a);

#define RANKS_SPARK_COLUMNS 24

/* A rank's memory in so many block characters, the whole record of all ranks wide. */
void ranks_add_spark(struct buf *out, const struct rank_analysis *a, const struct rank *rank);

#endif
