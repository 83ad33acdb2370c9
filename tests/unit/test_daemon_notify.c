#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/notify.h"

/* A socket as a service manager has one; name is as in NOTIFY_SOCKET. */
static int listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = 5 };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, name, strlen(name));
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void assert_told(int fd, const char *wanted)
{
	char text[256];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	assert_string_equal(text, wanted);
}

static void assert_silent(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

static void test_paths_and_names(void **state)
{
	char dir[] = "/tmp/proctor-notify-XXXXXX", path[64], name[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	fd = listen_at(path);
	notify_service_manager("READY=1");
	assert_told(fd, "READY=1");
	close(fd);
	notify_service_manager("READY=1"); /* nobody is there any more */
	unlink(path);
	rmdir(dir);

	snprintf(name, sizeof(name), "@proctor-notify-%d", (int)getpid());
	fd = listen_at(name);
	notify_service_manager("STOPPING=1");
	assert_told(fd, "STOPPING=1");
	setenv("NOTIFY_SOCKET", "relative", 1);
	notify_service_manager("READY=1");
	unsetenv("NOTIFY_SOCKET");
	notify_service_manager("READY=1");
	assert_silent(fd);
	close(fd);
}

/* With the time: the manager tells by it which reload an answer belongs to. */
static void test_reloading(void **state)
{
	char name[64], text[256] = "";
	long long before_us = 0, us = 0;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "@proctor-notify-%d", (int)getpid());
	fd = listen_at(name);
	notify_reloading();
	notify_reloading();
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%lld", &before_us), 1);
	memset(text, 0, sizeof(text));
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%lld", &us), 1);
	assert_true(before_us > 0 && us >= before_us);
	close(fd);
}

static void test_watchdog(void **state)
{
	char pid[32];

	(void)state;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(notify_watchdog_ms(), 15000);
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(notify_watchdog_ms(), 15000);
	setenv("WATCHDOG_PID", "1", 1); /* meant for another process */
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_PID", pid, 1);
	setenv("WATCHDOG_USEC", "-5", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths_and_names),
		cmocka_unit_test(test_reloading),
		cmocka_unit_test(test_watchdog),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
