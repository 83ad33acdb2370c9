/*
 * ingest - the records of logs become rows (store_take_in()).
 *
 * The attempt's row has the cursor of its log, which moves in the transaction that stores the
 * records before it. So a record is stored once, however many processes ingest one log at the same
 * time and wherever one of them is killed. Only a log that is stored, and on the disk in the
 * database, is removed.
 *
 * A log is hostile until it is parsed, but no more: the folder of logs belongs to the owner of the
 * database, who may write any row there anyway. A copy (log_origin) of another user's log is so in
 * all that it has: whose it is and who runs it is what the origin has, it has a number of its own,
 * texts are cut and made printable, there is room for so many sheets, anomalies are of its job
 * alone and are named after the user, and no time is later than now.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

/* Notes about an attempt's log, which begin with a number. The notes of its end leave them alone.
 */
#define NOTE_DAMAGED_RECORDS "damaged records"
#define NOTE_LOST_RECORDS "lost records"

/* Whether the folder beside this database has a log. */
bool ingest_has_logs(const char *db_path);

/* Of all files of the folder, about. */
uint64_t ingest_count_bytes(const char *db_path);

/* Whether a log has something that the database lacks. Writes nothing. */
bool ingest_has_news(struct store *store);

/*
 * Whether the log of an attempt whose runner is dead has more than its row: its end may be there,
 * and could not be stored yet.
 */
bool ingest_is_behind(struct store *store, int64_t attempt_id);

/* As store_take_in(), on a handle that writes. -EBUSY: the lock timeout is over.
 */
int ingest_logs(struct store *store, struct err *err);
