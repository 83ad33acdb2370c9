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

/* Whether the next value is this text, without escapes. */
static bool is_next(struct json_cursor *c, const char *wanted)
{
	const char *text;
	size_t n, len = strlen(wanted);

	json_cursor_value(c, &text, &n);
	return n == len + 2 && text[0] == '"' && memcmp(text + 1, wanted, len) == 0;
}

/* To the value of this key; those before it are passed over, but for one that must be so. */
static bool go_to(struct json_cursor *c, const char *key, const char *before, const char *wanted)
{
	const char *name;
	size_t n;
	bool is_right = false;

	if (!json_cursor_enter(c, '{'))
		return false;
	while (json_cursor_next_key(c, &name, &n)) {
		if (json_cursor_is(name, n, key))
			return is_right;
		if (json_cursor_is(name, n, "result"))
			return false; /* an answer, and a long one perhaps */
		if (json_cursor_is(name, n, before))
			is_right = is_next(c, wanted);
		else
			json_cursor_skip(c);
	}
	return false;
}

bool notice_find_data(const char *line, size_t len, const char *topic, struct json_cursor *ret)
{
	json_cursor_init(ret, line, len);
	return go_to(ret, "params", "method", "event") && go_to(ret, "data", "topic", topic);
}
