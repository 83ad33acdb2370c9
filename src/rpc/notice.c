#include "rpc/notice.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

/* {"jsonrpc":"2.0","method":"event","params":{"topic":… */
static void begin_notice(struct json *j, struct buf *line, const char *topic)
{
	json_init(j, line);
	json_begin_object(j);
	json_key_string(j, "jsonrpc", "2.0");
	json_key_string(j, "method", "event");
	json_key(j, "params");
	json_begin_object(j);
	json_key_string(j, "topic", topic);
}

static struct message *end_notice(struct json *j, struct buf *line)
{
	json_end_object(j);
	json_end_object(j);
	return message_new(line);
}

struct message *notice_event(const char *topic, uint64_t wall_ns, const char *json, size_t len)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct json j;

	if (memchr(json, '\n', len) || buf_reserve(&line, len + 160) < 0)
		return NULL;
	begin_notice(&j, &line, topic);
	json_key_f64(&j, "timestamp", clock_ns_to_seconds(wall_ns));
	json_key(&j, "data");
	json_raw(&j, json, len);
	return end_notice(&j, &line);
}

struct message *notice_lost(uint64_t count)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	struct json j;

	begin_notice(&j, &line, "lost");
	json_key_u64(&j, "count", count);
	return end_notice(&j, &line);
}
