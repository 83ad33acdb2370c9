#include "daemon/late_word.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/guest.h"
#include "rpc/rpc.h"

#define TIMEOUT_MS 5000
#define PAUSE_SECONDS 1
#define GIVE_UP_NS (UINT64_C(3600) * 1000000000)

/* What a daemon says for good: asking it again would change nothing. */
static const int final_answers[] = { -EPROTO, -ENOSYS, -EINVAL, -EACCES,
				     -EPERM,  -ENOENT, -EEXIST, -EMSGSIZE };

static void write_word(struct buf *out, const struct attempt *a)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_i64(&j, "pid", a->runner.pid);
	json_key_u64(&j, "start_ticks", a->runner.start_ticks);
	json_key(&j, "job");
	guest_write(&j, a, a->sheets, a->n_sheets);
	json_end_object(&j);
}

/* True: the daemon knows, or does not want to. */
static bool tell(const char *word)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	struct rpc_client *client = NULL;
	bool is_final = false;
	int r = rpc_client_open(&options, &client, NULL);

	if (r < 0)
		return false;
	r = rpc_client_call(client, "runner.ended", word, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(final_answers); i++)
		is_final |= r == final_answers[i] && rpc_client_error_code(client) != 0;
	rpc_client_close(client);
	return r == 0 || is_final;
}

/* False: nobody came within the hour. */
static bool tell_until_heard(const char *word)
{
	const struct timespec pause = { .tv_sec = PAUSE_SECONDS };
	uint64_t until = clock_boot_ns() + GIVE_UP_NS;
	bool is_heard = tell(word);

	while (!is_heard && clock_boot_ns() < until) {
		nanosleep(&pause, NULL);
		is_heard = tell(word);
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

/* Who reads our output, or wants to unmount our folder, is not to wait for this process. */
__attribute__((noreturn)) static void become_messenger(const char *word)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (null_fd < 0 || chdir("/") < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0 || dup2(null_fd, STDERR_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
		_exit(1);
	prctl(PR_SET_NAME, "proctor-late");
	reset_signals();
	_exit(tell_until_heard(word) ? 0 : 1);
}

/* We end soon and do not wait for it: it is then nobody's child. */
static int leave(const char *word)
{
	pid_t pid = fork();

	if (pid == 0)
		become_messenger(word);
	return pid < 0 ? -errno : 0;
}

static bool tell_here(const char *word)
{
	reset_signals();
	return tell_until_heard(word);
}

void late_word_leave(const struct attempt *a, bool stays)
{
	CLEANUP(buf_release) struct buf word = BUF_INIT;

	write_word(&word, a);
	if (buf_error(&word) == 0) /* whoever finds us, or what we leave, shall know why */
		log_info("no daemon hears how %s ended: it is told when one is back, within an "
			 "hour",
			 a->job_id);
	if (buf_error(&word) == 0 && (stays ? tell_here(word.data) : leave(word.data) == 0))
		return;
	log_warning("the daemon will not know how %s ended; the record of its user does",
		    a->job_id);
}
