/*
 * library - libmicrohttpd, which is loaded when the page is first asked for: with the libraries
 * behind it it takes milliseconds and megabytes, which each "proctor run" would pay for.
 */
#pragma once

#include <microhttpd.h>

#include "base/err.h"

#define HTTP_FUNCTIONS(X)                \
	X(add_connection)                \
	X(add_response_header)           \
	X(create_response_from_buffer)   \
	X(create_response_from_callback) \
	X(destroy_response)              \
	X(get_connection_info)           \
	X(get_connection_values)         \
	X(get_daemon_info)               \
	X(get_timeout)                   \
	X(lookup_connection_value)       \
	X(queue_response)                \
	X(resume_connection)             \
	X(run)                           \
	X(start_daemon)                  \
	X(stop_daemon)                   \
	X(suspend_connection)

struct http_library {
#define HTTP_FUNCTION(name) __typeof__(MHD_##name) *name;
	HTTP_FUNCTIONS(HTTP_FUNCTION)
#undef HTTP_FUNCTION
};

/* It stays loaded. -ENOENT: it is not installed. */
int http_library_load(struct http_library *ret, struct err *err);
