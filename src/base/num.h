/*
 * num - strict numbers from foreign text, and amounts of memory for people.
 *
 * Of the parsers: the whole text must be the number: no leading space, no trailing rubbish, no
 * silent overflow. -EINVAL: not a number; -ERANGE: does not fit. On failure
 * *ret is untouched.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decimal digits only. */
int num_parse_u64(const char *text, uint64_t *ret);

/* Decimal digits of s[0..n), as found inside a larger text. */
int num_parse_u64_n(const char *s, size_t n, uint64_t *ret);

/* Optional '-', decimal digits. */
int num_parse_i64(const char *text, int64_t *ret);

/* A finite decimal number (no hex, no nan, no inf), whatever the locale says. */
int num_parse_f64(const char *text, double *ret);

/* The same, and "inf", "-Infinity", "nan". */
int num_parse_any_f64(const char *text, double *ret);

/*
 * Reads the unsigned number that *cursor points at and moves behind it.
 * For walking through lines of numbers such as /proc/PID/stat.
 */
int num_scan_u64(const char **cursor, uint64_t *ret);

/*
 * A length of time in seconds: "30s", "5m", "1h", "2h30m", "7d" (units once
 * each, largest first, whole numbers), or a bare number, which is minutes.
 * Space around it is skipped. A bare number may be negative, "inf" or "nan", as
 * the rule this follows has it: who needs a length checks that it is one.
 */
int num_parse_duration(const char *text, double *ret_seconds);

/* What users write: the same, and parts of a second ("200ms", "0.2s"). */
int num_parse_time(const char *text, double *ret_seconds);

/*
 * An amount of memory in bytes: "512M", "1.5G", "8GiB", "64 kB". A unit is K, M, G or T, each 1024
 * times the one before it. -EDOM: there is no unit.
 */
int num_parse_size(const char *text, uint64_t *ret_bytes);

/* Appends "312 MB" or "1.5 GB"; "-" for U64_UNKNOWN. A MB has 1024 x 1024 bytes. */
void num_add_bytes(struct buf *out, uint64_t bytes);
