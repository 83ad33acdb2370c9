#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

static enum log_level max_level = LOG_WARNING;
static bool has_times;

void log_set_level(enum log_level level)
{
	max_level = level;
}

enum log_level log_get_level(void)
{
	return max_level;
}

void log_set_stamped(bool is_stamped)
{
	has_times = is_stamped;
}

int log_open(const char *path)
{
	CLEANUP(close_fd)
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 || dup2(fd, STDERR_FILENO) < 0 ? -errno : 0;
}

bool log_is_removed(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
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
	char line[1024], time[32];
	va_list ap;
	int head = 0, n;

	if (level > max_level)
		return;
	if (has_times)
		head = snprintf(line, sizeof(line), "%s ",
				clock_format_local(clock_wall_ns(), time, sizeof(time)));
	head += snprintf(line + head, sizeof(line) - (size_t)head, "%s", prefix[level]);
	va_start(ap, fmt);
	n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	/* A message may quote file names and arguments: none of them is to command the terminal. */
	for (unsigned char *p = (unsigned char *)line + head; *p; p++) {
		if (*p == '\n' || *p == '\t')
			*p = ' ';
		else if (*p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
			*p = '?';
	}
	n = (int)strlen(line);
	line[n++] = '\n';
	/* One write, so that lines of several runners do not interleave. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* nobody left to tell */
	}
	errno = saved;
}

/* ---- err.h ---- */

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	err->fact_len = 0;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

void err_advise(struct err *err, const char *advice)
{
	if (!err)
		return;
	err->fact_len = strlen(err->text);
	snprintf(err->text + err->fact_len, sizeof(err->text) - err->fact_len, ": %s", advice);
}

size_t err_fact_len(const struct err *err)
{
	return err->fact_len ? err->fact_len : strlen(err->text);
}
