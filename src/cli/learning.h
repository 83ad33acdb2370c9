/*
 * learning - what the verbs that learn from the record share.
 */
#ifndef PROCTOR_CLI_LEARNING_H
#define PROCTOR_CLI_LEARNING_H

#include <stdbool.h>

#include "base/err.h"
#include "base/settings.h"
#include "store/store.h"

/*
 * The record with all that has ended made into runs. *ret is NULL where nothing was
 * ever recorded. Who may not write reads what is there: *ret_is_writable is false,
 * and it is said.
 */
int cli_open_learned(const struct settings *settings, struct store **ret, bool *ret_is_writable,
		     struct err *err);

/* settings_open() with a bad file told, and exit status 2. */
int cli_open_settings(struct settings *ret, struct err *err);

#endif
