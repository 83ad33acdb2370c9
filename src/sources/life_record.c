#include "sources/life_record.h"

#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "sources/life_rung.h"
#include "sources/parse_host.h"
#include "sources/tasks_sample.h"

/* A kernel's limit that nobody has set; it counts in pages and keeps clear of overflow. */
#define NO_LIMIT_PAGES (UINT64_C(1) << 50)

static void copy_comm(char to[LIFE_COMM_BYTES], const char from[LIFE_COMM_BYTES])
{
	memcpy(to, from, LIFE_COMM_BYTES);
	to[LIFE_COMM_BYTES - 1] = '\0';
}

static void take_birth(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct life_birth b;

	(void)units;
	memcpy(&b, bytes, sizeof(b));
	ret->type = b.head.type == LIFE_RECORD_FORK ? LIFE_FORK : LIFE_EXEC;
	ret->parent_pid = ret->type == LIFE_FORK ? (pid_t)b.parent_pid : 0;
}

static void take_account(const struct life_death *d, struct exit_account *ret)
{
	const struct task_counts counts = { .user_ns = d->user_ns,
					    .system_ns = d->system_ns,
					    .run_ns = d->run_ns };
	struct cpu_split split = { 0 };

	task_split_cpu(&counts, &split);
	ret->cpu_ns = d->run_ns;
	ret->user_ns = split.user_ns;
	ret->system_ns = split.system_ns;
	ret->minor_faults = d->minor_faults;
	ret->major_faults = d->major_faults;
	ret->rchar = d->rchar;
	ret->wchar = d->wchar;
	ret->read_bytes = d->read_bytes;
	ret->write_bytes = d->write_bytes;
}

static void take_death(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct life_death d;

	memcpy(&d, bytes, sizeof(d));
	ret->type = d.head.type == LIFE_RECORD_EXIT ? LIFE_EXIT : LIFE_ACCOUNT;
	ret->parent_pid = (pid_t)d.parent_pid;
	ret->wait_status = (int)d.wait_status;
	ret->uid = d.uid;
	take_account(&d, &ret->account);
	if (ret->type == LIFE_EXIT)
		ret->account.max_rss_bytes = d.max_rss_pages * units->page_bytes;
}

static void take_signal(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct life_signalled s;

	(void)units;
	memcpy(&s, bytes, sizeof(s));
	ret->type = LIFE_SIGNAL;
	ret->sender.signal = (int)s.signal;
	ret->sender.is_kernel = s.is_from_kernel != 0;
	ret->sender.pid = (pid_t)s.sender_pid;
	ret->sender.tag = s.sender_tag;
	copy_comm(ret->sender.comm, s.sender_comm);
}

static uint64_t limit_bytes(uint64_t pages, uint64_t page_bytes)
{
	return pages == 0 || pages >= NO_LIMIT_PAGES ? U64_UNKNOWN : pages * page_bytes;
}

static void take_oom(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct life_victim *victim = &ret->victim;
	struct life_oom o;

	memcpy(&o, bytes, sizeof(o));
	ret->type = LIFE_OOM;
	if (o.rss_pages != LIFE_NO_COUNT)
		victim->rss_bytes = o.rss_pages * units->page_bytes;
	if (o.cgroup_id == 0)
		return;
	victim->cgroup_bytes = o.cgroup_pages * units->page_bytes;
	victim->cgroup_limit_bytes = limit_bytes(o.cgroup_limit_pages, units->page_bytes);
	memcpy(victim->cgroup, o.cgroup, sizeof(victim->cgroup));
	victim->cgroup[sizeof(victim->cgroup) - 1] = '\0';
}

/* By enum life_record: how long it is, and who takes it. */
static const struct {
	size_t bytes;
	void (*take)(const void *bytes, const struct life_units *units, struct life_event *ret);
} rows[] = {
	[LIFE_RECORD_FORK] = { sizeof(struct life_birth), take_birth },
	[LIFE_RECORD_EXEC] = { sizeof(struct life_birth), take_birth },
	[LIFE_RECORD_EXIT] = { sizeof(struct life_death), take_death },
	[LIFE_RECORD_FREE] = { sizeof(struct life_death), take_death },
	[LIFE_RECORD_SIGNAL] = { sizeof(struct life_signalled), take_signal },
	[LIFE_RECORD_OOM] = { sizeof(struct life_oom), take_oom },
};

static void take_head(const struct life_head *head, const struct life_units *units,
		      struct life_event *ret)
{
	ret->pid = (pid_t)head->pid;
	ret->tag = head->tag;
	ret->wall_ns = units->wall_ns + head->mono_ns - units->mono_ns;
	if (head->start_boot_ns != 0)
		ret->start_ticks = ns_to_ticks(head->start_boot_ns, units->clock_ticks);
	copy_comm(ret->comm, head->comm);
}

int life_record_parse(const void *bytes, size_t len, const struct life_units *units,
		      struct life_event *ret)
{
	struct life_head head;
	struct life_event ev;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	if (head.type >= ARRAY_SIZE(rows) || !rows[head.type].take || len < rows[head.type].bytes)
		return -EBADMSG;
	life_event_init(&ev);
	take_head(&head, units, &ev);
	rows[head.type].take(bytes, units, &ev);
	*ret = ev;
	return 0;
}
