/*
 * users - the names of those whose jobs a daemon of root's has.
 */
#ifndef PROCTOR_CLI_USERS_H
#define PROCTOR_CLI_USERS_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>

/* By name, or by number where there is no such name; cli_usage_error() if it is neither. */
uint64_t users_parse(const struct argp_state *state, const char *option, const char *text);

/* The name of the account, else the number; "-" for U64_UNKNOWN. */
void users_name(uint64_t uid, char *ret, size_t size);

#endif
