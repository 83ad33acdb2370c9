/*
 * snapshot_json - a snapshot that came as JSON, as it was before.
 */
#ifndef PROCTOR_TUI_SNAPSHOT_JSON_H
#define PROCTOR_TUI_SNAPSHOT_JSON_H

#include "base/json_cursor.h"
#include "model/snapshot.h"

/*
 * What is missing, or of another type, is unknown. Bytes were told in MB and come back
 * to the byte. Of the time in system calls only the shares were told: they come back as
 * shares of one second. -EINVAL: it is no snapshot. -ENOMEM.
 */
int snapshot_from_json(struct json_cursor *c, struct snapshot *ret);

#endif
