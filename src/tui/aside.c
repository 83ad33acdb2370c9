#include "tui/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

#define READ_BYTES 4096

/* There is one stderr, and a handler of signals can be handed nothing. -1: nothing is begun. */
static struct {
	int read_fd, stderr_fd;
} aside = { -1, -1 };

static int turn_stderr(int pipe_fds[2])
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd >= 0 && dup2(pipe_fds[1], STDERR_FILENO) < 0)
		close_fd(&fd);
	return fd;
}

/* A pipe that is full loses what comes then: nobody who speaks is to wait for who reads. */
void aside_begin(void)
{
	int fds[2];

	if (aside.read_fd >= 0 || !isatty(STDERR_FILENO) || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	aside.stderr_fd = turn_stderr(fds);
	close_fd(&fds[1]);
	if (aside.stderr_fd < 0)
		close_fd(&fds[0]);
	else
		aside.read_fd = fds[0];
}

static void take_line(char *text, char *ret, size_t size)
{
	static const char name[] = "proctor: ";

	if (strncmp(text, name, strlen(name)) == 0)
		text += strlen(name);
	if (text[0])
		snprintf(ret, size, "%s", text);
}

bool aside_read(char *ret, size_t size)
{
	char text[READ_BYTES];
	ssize_t n;

	ret[0] = '\0';
	while (aside.read_fd >= 0 && (n = read(aside.read_fd, text, sizeof(text) - 1)) > 0) {
		char *rest = text, *line;

		text[n] = '\0';
		while ((line = strsep(&rest, "\n")))
			take_line(line, ret, size);
	}
	return ret[0] != '\0';
}

/* Only what a handler of signals may call. */
void aside_end(void)
{
	int saved = errno;
	char text[READ_BYTES];
	ssize_t n;

	if (aside.read_fd < 0)
		return;
	dup2(aside.stderr_fd, STDERR_FILENO);
	while ((n = read(aside.read_fd, text, sizeof(text))) > 0)
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			break; /* nobody left to tell */
	close(aside.stderr_fd);
	close(aside.read_fd);
	aside.read_fd = aside.stderr_fd = -1;
	errno = saved;
}
