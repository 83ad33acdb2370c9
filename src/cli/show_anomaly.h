/*
 * show_anomaly - episodes as lines for people, the same in every verb.
 */
#ifndef PROCTOR_CLI_SHOW_ANOMALY_H
#define PROCTOR_CLI_SHOW_ANOMALY_H

#include "base/buf.h"
#include "base/json.h"
#include "model/anomaly.h"

/* A table: when it began, how long it lasted, how bad, what, whose. Each line is complete. */
void show_anomaly_titles(struct buf *out);
void show_anomaly(struct buf *out, const struct episode *e);

/* An object. attempt_num 0: of none. */
void show_anomaly_json(struct json *j, const struct episode *e, int attempt_num);

#endif
