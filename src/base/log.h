/*
 * log - what proctor says to its operator, on stderr, one line each.
 *
 * "proctor: warning: …". The level, and whether lines begin with the time, are the
 * only globals of the program.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Lines begin with the local time: for a log that nobody else puts it into. */
void log_set_stamped(bool is_stamped);

/* From now on to the end of this file, for its owner alone: stderr is it. Makes it if need be. */
int log_open(const char *path);

/* Somebody has removed that file: what is written goes nowhere. */
bool log_is_removed(void);

/* Writes one line if level is not above the one set. Never fails, keeps errno. */
void log_print(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_print(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_print(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_print(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_print(LOG_DEBUG, __VA_ARGS__)
