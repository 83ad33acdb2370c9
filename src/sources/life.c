#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "sources/life_rung.h"
#include "sources/sources.h"

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
	if (kind == &life_by_ebpf && !options->want_ebpf)
		return err_set(
			err, -EOPNOTSUPP, "%s",
			options->why_no_ebpf
				? options->why_no_ebpf
				: "loading the eBPF program takes longer than most commands");
	return kind->open(options, ret, err);
}

static int try_kind(const struct life_kind *kind, const struct life_options *options,
		    struct err *why, struct life **ret)
{
	struct err err = ERR_INIT;
	int r = open_kind(kind, options, ret, &err);

	if (r < 0) {
		add_why(why, &err);
		return r;
	}
	(*ret)->why = (*ret)->reason = *why;
	if ((*ret)->lacks.code != 0)
		add_why(&(*ret)->reason, &(*ret)->lacks);
	return r;
}

int life_open_with(const struct life_options *options, struct life **ret, struct err *err)
{
	const struct life_options none = { 0 };
	struct err why = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (try_kind(kinds[i], options ? options : &none, &why, ret) == 0)
			return 0;
	return err_set(err, why.code, "%s", why.text);
}

int life_open(struct life **ret, struct err *err)
{
	return life_open_with(NULL, ret, err);
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

bool life_gathers(const struct life *life)
{
	return life->kind->gathers;
}

int64_t life_drain(struct life *life, life_handler *fn, void *ctx)
{
	return life->kind->drain(life, SIZE_MAX, fn, ctx);
}

int64_t life_drain_some(struct life *life, size_t max, life_handler *fn, void *ctx)
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

bool life_sees_oom(const struct life *life)
{
	return life->sees_oom;
}

bool life_has_accounts(const struct life *life)
{
	return life->has_accounts;
}
