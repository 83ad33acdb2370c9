#include "recorder/late_word.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"

#define TIMEOUT_MS 5000
#define PAUSE_SECONDS 1
#define GIVE_UP_NS (UINT64_C(3600) * 1000000000)
#define MAX_FILES 64

/* What a daemon says for good: asking it again would change nothing. */
static const int final_answers[] = { -EPROTO, -ENOSYS, -EINVAL, -EACCES,
				     -EPERM,  -ENOENT, -EEXIST, -EMSGSIZE };

static int say_hello(struct rpc_client *client, const struct attempt *a, struct log_sender *sender)
{
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_value *answer = NULL;
	struct json j;
	int r;

	json_init(&j, &hello);
	json_begin_object(&j);
	json_key_string(&j, "job_id", a->job_id);
	log_sender_write_hello(sender, &j);
	json_end_object(&j);
	r = buf_error(&hello);
	if (r == 0)
		r = rpc_client_call(client, "runner.hello", hello.data, &answer, NULL);
	if (r == 0)
		log_sender_begin(sender, rpc_value_u64(rpc_value_get(answer, "from")));
	rpc_value_free(answer);
	return r;
}

/* True: the daemon has it, or does not want to. */
static bool tell(const struct attempt *a, struct log_sender *sender)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	struct rpc_client *client = NULL;
	bool is_final = false;
	int r = rpc_client_open(&options, &client, NULL);

	if (r < 0)
		return false;
	r = say_hello(client, a, sender);
	if (r == 0)
		r = log_sender_finish(sender, client,
				      clock_boot_ns() + TIMEOUT_MS * UINT64_C(1000000));
	for (size_t i = 0; i < ARRAY_SIZE(final_answers); i++)
		is_final |= r == final_answers[i] && rpc_client_error_code(client) != 0;
	rpc_client_close(client);
	return r == 0 || is_final;
}

/* False: nobody came within the hour. */
static bool tell_until_heard(const struct attempt *a, struct log_sender *sender)
{
	const struct timespec pause = { .tv_sec = PAUSE_SECONDS };
	uint64_t until = clock_boot_ns() + GIVE_UP_NS;
	bool is_heard = tell(a, sender);

	while (!is_heard && clock_boot_ns() < until) {
		nanosleep(&pause, NULL);
		is_heard = tell(a, sender);
	}
	return is_heard;
}

/* Whoever wants us gone need not ask twice: the job is over. */
static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int compare_files(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* All but the standard ones and these. */
static int close_others(int *files, size_t n)
{
	unsigned from = STDERR_FILENO + 1;

	qsort(files, n, sizeof(*files), compare_files);
	for (size_t i = 0; i < n; i++) {
		unsigned file = (unsigned)files[i];

		if (file > from && close_range(from, file - 1, 0) < 0)
			return -errno;
		from = file >= from ? file + 1 : from;
	}
	return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

/* Who reads our output is not to wait for this process. */
__attribute__((noreturn)) static void become_courier(const struct attempt *a,
						     struct log_sender *sender)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), files[MAX_FILES];
	size_t n = log_sender_files(sender, files, MAX_FILES);

	setsid();
	if (null_fd < 0 || chdir("/") < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0 || dup2(null_fd, STDERR_FILENO) < 0 ||
	    close_others(files, n) < 0)
		_exit(1);
	prctl(PR_SET_NAME, "proctor-late");
	reset_signals();
	_exit(tell_until_heard(a, sender) ? 0 : 1);
}

/* We end soon and do not wait for it: it is then nobody's child. */
static bool leave(const struct attempt *a, struct log_sender *sender)
{
	pid_t pid = fork();

	if (pid == 0)
		become_courier(a, sender);
	return pid > 0;
}

static bool tell_here(const struct attempt *a, struct log_sender *sender)
{
	reset_signals();
	return tell_until_heard(a, sender);
}

void late_word_leave(const struct attempt *a, struct log_sender *sender, bool stays)
{
	bool is_left = false;

	if (sender) { /* whoever finds us, or what we leave, shall know why */
		log_info("no daemon hears how %s ended: it is told when one is back, within an "
			 "hour",
			 a->job_id);
		is_left = stays ? tell_here(a, sender) : leave(a, sender);
	}
	log_sender_close(sender);
	if (!is_left)
		log_warning("the daemon will not know how %s ended; the record of its user does",
			    a->job_id);
}
