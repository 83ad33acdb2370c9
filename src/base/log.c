#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static enum log_level max_level = LOG_WARNING;

void log_set_level(enum log_level level)
{
	max_level = level;
}

enum log_level log_get_level(void)
{
	return max_level;
}

void log_print(enum log_level level, const char *fmt, ...)
{
	static const char *const prefix[] = {
		[LOG_ERROR] = "proctor: ",
		[LOG_WARNING] = "proctor: warning: ",
		[LOG_INFO] = "proctor: ",
		[LOG_DEBUG] = "proctor: debug: ",
	};
	int saved = errno;
	char line[1024];
	va_list ap;
	int head, n;

	if (level > max_level)
		return;
	head = snprintf(line, sizeof(line), "%s", prefix[level]);
	va_start(ap, fmt);
	n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n += head;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* One write, so that lines of several runners do not interleave. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* nobody left to tell */
	}
	errno = saved;
}
