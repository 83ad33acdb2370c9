#include "daemon/link.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "rpc/rpc.h"

/* A daemon that is busy for longer is done without. */
#define TIMEOUT_MS 100
#define RETRY_NS UINT64_C(5000000000)

struct link {
	struct loop *loop;
	struct rpc_client *client; /* NULL: there is no connection */
	struct loop_fd *watch;
	bool records;
	uint64_t tried_boot_ns; /* 0: never */
};

struct link *link_new(struct loop *loop)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link)
		link->loop = loop;
	return link;
}

static void hang_up(struct link *link)
{
	link->watch = link->watch ? loop_fd_close(link->watch) : NULL;
	link->client = rpc_client_close(link->client);
	link->records = false;
}

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	hang_up(link);
	free(link);
	return NULL;
}

/* The daemon has nothing to say to us: what comes is its end. */
static void on_readable(void *ctx)
{
	struct link *link = ctx;
	int r = rpc_client_listen(link->client, 0, NULL);

	if (r != -ETIMEDOUT)
		hang_up(link);
}

static void write_hello(struct buf *out, const struct attempt *a, dev_t device, ino_t inode)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", a->job_id);
	json_key_i64(&j, "attempt", a->attempt_num);
	json_key_u64(&j, "device", (uint64_t)device);
	json_key_u64(&j, "inode", (uint64_t)inode);
	json_key_f64(&j, "interval_seconds", a->interval_seconds);
	json_end_object(&j);
}

static int greet(struct link *link, const struct attempt *a, dev_t device, ino_t inode)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	CLEANUP(buf_release) struct buf hello = BUF_INIT;
	struct rpc_value *answer = NULL;
	int r = rpc_client_open(&options, &link->client, NULL);

	if (r < 0)
		return r;
	write_hello(&hello, a, device, inode);
	r = rpc_client_call(link->client, "runner.hello", hello.data, &answer, NULL);
	if (r < 0)
		return r;
	link->records = rpc_value_bool(rpc_value_get(answer, "records"), false);
	rpc_value_free(answer);
	link->watch = loop_watch_fd(link->loop, rpc_client_fd(link->client), on_readable, link);
	return link->watch ? 0 : -ENOMEM;
}

void link_greet(struct link *link, const struct attempt *a, dev_t device, ino_t inode)
{
	uint64_t now = clock_boot_ns();

	if (link->client || (link->tried_boot_ns && now - link->tried_boot_ns < RETRY_NS))
		return;
	link->tried_boot_ns = now;
	if (greet(link, a, device, inode) < 0)
		hang_up(link);
}

bool link_records(const struct link *link)
{
	return link->records;
}

void link_tell_changed(struct link *link)
{
	if (link->client && rpc_client_notify(link->client, "runner.changed", NULL, NULL) < 0)
		hang_up(link);
}
