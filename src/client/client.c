#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

#define DEFAULT_TIMEOUT_MS 10000

const char *proctor_version(void)
{
	return PROCTOR_VERSION;
}

/* ---- opening ---- */

struct proctor *proctor_new(void)
{
	struct proctor *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->timeout_ms = DEFAULT_TIMEOUT_MS;
	p->error_data = (struct buf)BUF_INIT;
	return p;
}

/* Of a forked child it is the copy that is closed: the parent's stays. */
static void disconnect(struct proctor *p)
{
	p->rpc = rpc_client_close(p->rpc);
	p->fn = NULL;
	event_queue_release(&p->events);
}

struct proctor *proctor_free(struct proctor *p)
{
	if (!p)
		return NULL;
	disconnect(p);
	buf_release(&p->error_data);
	free(p);
	return NULL;
}

uint64_t client_timeout(int timeout_ms)
{
	return timeout_ms < 0 ? RPC_FOREVER : (uint64_t)timeout_ms;
}

void proctor_set_timeout(struct proctor *p, int timeout_ms)
{
	if (!p)
		return;
	p->timeout_ms = timeout_ms;
	if (p->rpc)
		rpc_client_set_timeout(p->rpc, client_timeout(timeout_ms));
}

static void forget_error(struct proctor *p)
{
	p->err = (struct err)ERR_INIT;
	p->was_answered = false;
}

int proctor_open(struct proctor *p, const char *path)
{
	struct rpc_client_options options = {
		.path = path,
		.on_event = client_take_event,
		.ctx = p,
	};
	int r;

	if (!p)
		return -EINVAL;
	forget_error(p);
	disconnect(p);
	options.timeout_ms = p->timeout_ms == 0 ? 1 : client_timeout(p->timeout_ms);
	r = rpc_client_open(&options, &p->rpc, &p->err);
	p->opened_by = getpid();
	return r;
}

int client_begin(struct proctor *p)
{
	if (!p)
		return -EINVAL;
	forget_error(p);
	if (!p->rpc)
		return err_set(&p->err, -ENOTCONN, "not connected: proctor_open() comes first");
	if (p->opened_by != getpid())
		return err_set(&p->err, -EBADFD,
			       "the connection is that of process %d, which this one was forked "
			       "from: open another",
			       (int)p->opened_by);
	return 0;
}

int proctor_fd(const struct proctor *p)
{
	return p && p->rpc ? rpc_client_fd(p->rpc) : -ENOTCONN;
}

/* ---- errors ---- */

const char *proctor_error(const struct proctor *p)
{
	return p ? p->err.text : "no memory left for a connection";
}

long long proctor_error_code(const struct proctor *p)
{
	return p && p->was_answered ? rpc_client_error_code(p->rpc) : 0;
}

const char *proctor_error_data(struct proctor *p)
{
	const struct rpc_value *data = p && p->was_answered ? rpc_client_error_data(p->rpc) : NULL;
	struct json j;

	if (!data)
		return NULL;
	buf_reset(&p->error_data);
	json_init(&j, &p->error_data);
	rpc_value_write(data, &j);
	return buf_error(&p->error_data) < 0 ? NULL : p->error_data.data;
}

/* ---- calls ---- */

static void cleanup_value(struct rpc_value **value)
{
	*value = rpc_value_free(*value);
}

int client_render(const struct rpc_value *value, char **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	char *detached;

	json_init(&j, &text);
	rpc_value_write(value, &j);
	detached = buf_detach(&text);
	if (!detached)
		return err_set(err, -ENOMEM, "no memory left for what the daemon said");
	*ret = detached;
	return 0;
}

int proctor_call(struct proctor *p, const char *method, const char *params, char **ret_json)
{
	CLEANUP(cleanup_value) struct rpc_value *value = NULL;
	int r = client_begin(p);

	if (ret_json)
		*ret_json = NULL;
	if (r < 0)
		return r;
	if (!method)
		return err_set(&p->err, -EINVAL, "no method is named");
	r = rpc_client_call(p->rpc, method, params, &value, &p->err);
	p->was_answered = r < 0 && rpc_client_error_code(p->rpc) != 0;
	if (r < 0 || !ret_json)
		return r;
	return client_render(value, ret_json, &p->err);
}

void proctor_free_text(char *text)
{
	free(text);
}
