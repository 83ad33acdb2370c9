#include "sources/life/life.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/ebpf.h"
#include "sources/proc_text.h"
#include "sources/sources.h"
#include "sources/tasks.h"

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

static void take_death(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct exit_account *account = &ret->account;
	struct cpu_split split = { 0 };
	struct task_counts counts = { 0 };
	struct life_death d;

	memcpy(&d, bytes, sizeof(d));
	ret->type = d.head.type == LIFE_RECORD_EXIT ? LIFE_EXIT : LIFE_ACCOUNT;
	ret->parent_pid = (pid_t)d.parent_pid;
	ret->wait_status = (int)d.wait_status;
	ret->uid = d.uid;
	ret->mono_ns = d.head.mono_ns;
	counts.user_ns = d.user_ns;
	counts.system_ns = d.system_ns;
	counts.run_ns = d.run_ns;
	task_split_cpu(&counts, &split);
	account->cpu_ns = d.run_ns;
	account->user_ns = split.user_ns;
	account->system_ns = split.system_ns;
	account->minor_faults = d.minor_faults;
	account->major_faults = d.major_faults;
	account->rchar = d.rchar;
	account->wchar = d.wchar;
	account->read_bytes = d.read_bytes;
	account->write_bytes = d.write_bytes;
	if (ret->type == LIFE_EXIT)
		account->max_rss_bytes = d.max_rss_pages * units->page_bytes;
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
	ret->uid = s.uid;
}

static void take_oom(const void *bytes, const struct life_units *units, struct life_event *ret)
{
	struct life_victim *victim = &ret->victim;
	struct life_oom o;

	memcpy(&o, bytes, sizeof(o));
	ret->type = LIFE_OOM;
	if (o.uid != LIFE_NO_UID)
		ret->uid = o.uid;
	if (o.rss_pages != LIFE_NO_COUNT)
		victim->rss_bytes = o.rss_pages * units->page_bytes;
	if (o.cgroup_id == 0)
		return;
	victim->cgroup_bytes = o.cgroup_pages * units->page_bytes;
	if (o.cgroup_limit_pages > 0 && o.cgroup_limit_pages < NO_LIMIT_PAGES)
		victim->cgroup_limit_bytes = o.cgroup_limit_pages * units->page_bytes;
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
	ev.pid = (pid_t)head.pid;
	ev.tag = head.tag;
	ev.wall_ns = units->wall_ns + head.mono_ns - units->mono_ns;
	if (head.start_boot_ns != 0)
		ev.start_ticks = ns_to_ticks(head.start_boot_ns, units->clock_ticks);
	copy_comm(ev.comm, head.comm);
	rows[head.type].take(bytes, units, &ev);
	if (head.type == LIFE_RECORD_EXIT && len >= sizeof(struct life_failure))
		ev.calls = &((const struct life_failure *)bytes)->calls;
	*ret = ev;
	return 0;
}

/* ---- calls that failed ---- */

/* Names from the file up to its root, as a path. */
static void add_names(struct buf *out, const struct life_call *c, size_t len)
{
	size_t end = len;

	while (end > 0) {
		size_t from = --end; /* its NUL */

		while (from > 0 && c->object[from - 1])
			from--;
		buf_add_char(out, '/');
		buf_add(out, c->object + from, end - from);
		end = from;
	}
}

static void add_address(struct buf *out, const struct life_call *c, size_t len)
{
	char host[INET6_ADDRSTRLEN];
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} a = { 0 };

	memcpy(&a, c->object, len < sizeof(a) - 1 ? len : sizeof(a) - 1);
	if (a.any.sa_family == AF_INET && inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host)))
		buf_printf(out, "%s:%u", host, ntohs(a.v4.sin_port));
	else if (a.any.sa_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host)))
		buf_printf(out, "[%s]:%u", host, ntohs(a.v6.sin6_port));
	else if (a.any.sa_family == AF_UNIX)
		buf_add_str(out, a.local.sun_path);
}

static int compare_calls(const void *left, const void *right)
{
	const struct life_call *l = left, *r = right;

	return COMPARE(r->mono_ns, l->mono_ns);
}

void life_add_calls(struct buf *out, const struct life_event *ev, const struct mask *mask)
{
	struct life_calls sorted;

	if (!ev->calls)
		return;
	sorted = *ev->calls;
	qsort(sorted.calls, LIFE_CALLS, sizeof(sorted.calls[0]), compare_calls);
	for (size_t i = 0; i < LIFE_CALLS && sorted.calls[i].mono_ns != 0; i++) {
		CLEANUP(buf_release) struct buf object = BUF_INIT;
		struct life_call *c = &sorted.calls[i];
		const char *error = strerrorname_np(c->error);
		size_t len = c->len < sizeof(c->object) ? c->len : sizeof(c->object) - 1;
		char number[24];

		c->object[len] = '\0';
		if (c->kind == LIFE_CALL_FILE)
			add_names(&object, c, len);
		else if (c->kind == LIFE_CALL_ADDRESS)
			add_address(&object, c, len);
		else
			buf_add_str(&object, c->object);
		buf_printf(out, "%s %s %llu ", syscall_name(c->nr, number), error ? error : "E",
			   (unsigned long long)((ev->mono_ns - c->mono_ns) / 1000000));
		if (object.len > 0)
			mask_command(mask, object.data, object.len + 1, out);
		buf_add_char(out, '\n');
	}
}

void life_add_said(struct buf *out, const struct life_event *ev, const struct mask *mask)
{
	CLEANUP(buf_release) struct buf said = BUF_INIT;
	uint64_t end = ev->calls ? ev->calls->said_len : 0, from = 0;
	bool is_cut = false;

	/* A line that is cut may begin in the middle of a secret, which the mask would not find. */
	if (end > LIFE_SAID_BYTES) {
		from = end - LIFE_SAID_BYTES;
		is_cut = true;
	}
	for (; from < end; from++) {
		const char c = ev->calls->said[from % LIFE_SAID_BYTES];

		if (c == '\0') {
			const char *last = memrchr(said.data, '\n', said.len);

			buf_truncate(&said, last ? (size_t)(last - said.data) + 1 : 0);
			is_cut = true;
		} else if (!is_cut) {
			buf_add_char(&said, c);
		} else {
			is_cut = c != '\n';
		}
	}
	mask_lines(mask, said.data, said.len, out);
}

/* ---- rungs ---- */

/* Best first. */
static const struct life_kind *const kinds[] = { &life_by_ebpf, &life_by_netlink };

void life_event_init(struct life_event *ev)
{
	*ev = (struct life_event){
		.uid = U64_UNKNOWN,
		.start_ticks = U64_UNKNOWN,
		.victim = { U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN, "" },
	};
	exit_account_init(&ev->account);
}

/* One sentence after the other, as each rung refuses. */
static void add_why(struct err *all, const struct err *one)
{
	size_t len = strlen(all->text);

	if (len > 0)
		snprintf(all->text + len, sizeof(all->text) - len, "; %.250s", one->text);
	else
		*all = *one;
	all->code = one->code;
}

static int open_kind(const struct life_kind *kind, const struct life_options *options,
		     struct life **ret, struct err *err)
{
	if (kind == &life_by_ebpf && !options->want_ebpf) {
		if (options->why_no_ebpf)
			return err_set(err, -EOPNOTSUPP, "%s", options->why_no_ebpf);
		return ebpf_check(err) < 0 ? err->code
					   : err_set(err, -EOPNOTSUPP, SOURCES_EBPF_TOO_SLOW);
	}
	return kind->open(options, ret, err);
}

int life_open_with(const struct life_options *options, struct life **ret, struct err *err)
{
	const struct life_options none = { 0 }, *o = options ? options : &none;
	struct err why = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct err refusal = ERR_INIT;

		if (open_kind(kinds[i], o, ret, &refusal) < 0) {
			add_why(&why, &refusal);
			continue;
		}
		(*ret)->why = (*ret)->reason = why;
		if ((*ret)->lacks.code != 0)
			add_why(&(*ret)->reason, &(*ret)->lacks);
		return 0;
	}
	return err_set(err, why.code, "%s", why.text);
}

struct life *life_close(struct life *life)
{
	if (life)
		life->kind->close(life);
	return NULL;
}

int life_fd(const struct life *life)
{
	return life->kind->fd(life);
}

int64_t life_drain(struct life *life, size_t max, life_handler *fn, void *ctx)
{
	return life->kind->drain(life, max, fn, ctx);
}

int life_track(struct life *life, pid_t pid, uint64_t tag)
{
	return life->kind->track ? life->kind->track(life, pid, tag) : -EOPNOTSUPP;
}

uint64_t life_tag_of(struct life *life, pid_t pid)
{
	return life->kind->tag_of ? life->kind->tag_of(life, pid) : 0;
}

void life_follow_owner(struct life *life, pid_t pid, uint64_t uid)
{
	if (life->kind->follow_owner)
		life->kind->follow_owner(life, pid, uid);
}

int life_want_accounts(struct life *life, bool is_wanted)
{
	return life->kind->want_accounts ? life->kind->want_accounts(life, is_wanted) : -EOPNOTSUPP;
}

struct rung life_rung(const struct life *life)
{
	const struct life_kind *kind = life->kind;
	const char *name = life->has_accounts ? kind->name_with_accounts : kind->name;

	return (struct rung){ SOURCES_RUNG_BIRTHS, name, life->reason.text };
}

const char *life_why_no_better(const struct life *life)
{
	return life->why.text;
}

bool life_sees_signals(const struct life *life)
{
	return life->sees_signals;
}

bool life_sees_calls(const struct life *life)
{
	return life->sees_calls;
}

bool life_sees_oom(const struct life *life)
{
	return life->sees_oom;
}
