#include "daemon/methods/raw_event.h"

#include <string.h>

#include "base/macros.h"

/* Two strings follow it, each with its NUL: the id of the job, and the details. */
struct raw_event {
	uint64_t wall_ns;
	pid_t pid;
	enum event_type type;
	struct exit_status status;
	int sheet_num, attempt_num;
};

void raw_event_pack(struct buf *out, const struct proc_event *ev, int attempt_num)
{
	const struct raw_event head = {
		.wall_ns = ev->wall_ns,
		.pid = ev->key.pid,
		.type = ev->type,
		.status = ev->status,
		.sheet_num = ev->sheet_num,
		.attempt_num = attempt_num,
	};

	buf_add(out, (const char *)&head, sizeof(head));
	buf_add_str(out, ev->job_id ? ev->job_id : "");
	buf_add_char(out, '\0');
	buf_add_str(out, ev->details ? ev->details : "");
	buf_add_char(out, '\0');
}

const char *raw_event_job_id(const char *bytes)
{
	return bytes + sizeof(struct raw_event);
}

void raw_event_write_json(struct json *j, const char *bytes)
{
	const char *job_id = raw_event_job_id(bytes);
	struct raw_event head;
	struct proc_event ev;

	memcpy(&head, bytes, sizeof(head));
	ev = (struct proc_event){
		.wall_ns = head.wall_ns,
		.key = { .pid = head.pid },
		.type = head.type,
		.status = head.status,
		.sheet_num = head.sheet_num,
		.job_id = job_id[0] ? job_id : NULL,
		.details = job_id + strlen(job_id) + 1,
	};
	process_event_write_json(j, &ev, head.attempt_num);
}

void process_event_write_json(struct json *j, const struct proc_event *ev, int attempt_num)
{
	json_begin_object(j);
	json_key_string(j, "event", topic_name(process_event_topic(ev->type)));
	proc_event_write_fields(j, ev);
	json_key_i64(j, "attempt", attempt_num);
	json_end_object(j);
}

enum topic process_event_topic(enum event_type type)
{
	static const enum topic topics[] = {
		[EVENT_SPAWN] = TOPIC_PROCESS_SPAWN,   [EVENT_EXIT] = TOPIC_PROCESS_EXIT,
		[EVENT_SIGNAL] = TOPIC_PROCESS_SIGNAL, [EVENT_KILL] = TOPIC_PROCESS_KILL,
		[EVENT_OOM] = TOPIC_PROCESS_OOM,       [EVENT_ORPHAN] = TOPIC_PROCESS_ORPHAN,
	};

	_Static_assert(ARRAY_SIZE(topics) == N_EVENT_TYPES, "each has its topic");
	return topics[type];
}
