/*
 * top_stream - snapshots as they are taken, one JSON object per line.
 */
#ifndef PROCTOR_CLI_TOP_STREAM_H
#define PROCTOR_CLI_TOP_STREAM_H

#include "base/err.h"
#include "base/path.h"

/*
 * From a daemon, or where none runs from the log that runners write. With job_id only those
 * that have it, with its processes alone. Until a signal ends it or nobody
 * reads any more; returns the exit status.
 */
int top_stream(const struct paths *paths, const char *job_id);

#endif
