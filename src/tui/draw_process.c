/*
 * All numbers of a process.
 */
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "tui/draw_detail.h"

static int draw_who(const struct area *a, int y, const struct proc_sample *p)
{
	char text[256], b[3][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%d (parent %d), state %c, %s old, threads %s, user id %s",
		 (int)p->key.pid, (int)p->ppid, p->state, draw_time(p->age_seconds, b[0]),
		 draw_count(p->threads, b[1]), draw_count(p->uid, b[2]));
	y = detail_line(a, y, "process", text);
	if (u64_known(p->ns_pid) && p->ns_pid != (uint64_t)p->key.pid) {
		snprintf(text, sizeof(text), "%s in its own pid namespace",
			 draw_count(p->ns_pid, b[0]));
		y = detail_line(a, y, "", text);
	}
	return detail_line(a, y, "command", p->command ? p->command : p->comm);
}

static int draw_whose(const struct area *a, int y, const struct node *node)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct proc_sample *p = node->p;

	if (!p->job_id)
		return detail_line(a, y, "job", "none");
	buf_add_str(&text, p->job_id);
	if (node->attempt_num > 0)
		buf_printf(&text, ", attempt %d", node->attempt_num);
	if (p->sheet_num != SHEET_NONE)
		buf_printf(&text, ", sheet %d", p->sheet_num);
	if (node->sheet_name)
		buf_printf(&text, " (%s)", node->sheet_name);
	if (p->rank != RANK_NONE)
		buf_printf(&text, ", rank %d", p->rank);
	if (p->rank != RANK_NONE && p->world_size != RANK_NONE)
		buf_printf(&text, " of %d", p->world_size);
	if (p->local_rank != RANK_NONE)
		buf_printf(&text, ", local rank %d", p->local_rank);
	return detail_line(a, y, "job", buf_error(&text) == 0 ? text.data : p->job_id);
}

static int draw_memory(const struct area *a, int y, const struct proc_sample *p)
{
	char text[256], b[4][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%s now, %s at most, %s virtual, %s swapped out",
		 draw_bytes(p->rss_bytes, b[0]), draw_bytes(p->hwm_bytes, b[1]),
		 draw_bytes(p->vms_bytes, b[2]), draw_bytes(p->swap_bytes, b[3]));
	y = detail_line(a, y, "memory", text);
	snprintf(text, sizeof(text), "of it %s its own, %s of files, %s shared",
		 draw_bytes(p->rss_anon_bytes, b[0]), draw_bytes(p->rss_file_bytes, b[1]),
		 draw_bytes(p->rss_shmem_bytes, b[2]));
	return detail_line(a, y, "", text);
}

static int draw_cpu(const struct area *a, int y, const struct proc_sample *p)
{
	char text[256], b[5][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%s %%, %s user, %s system; ended children %s, %s",
		 draw_percent(p->cpu_percent, b[0]), draw_cpu_time(p->user_ns, b[1]),
		 draw_cpu_time(p->system_ns, b[2]), draw_cpu_time(p->child_user_ns, b[3]),
		 draw_cpu_time(p->child_system_ns, b[4]));
	return detail_line(a, y, "CPU", text);
}

static int draw_io(const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char text[256], b[5][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%s; %s read in %s calls, %s written in %s",
		 draw_rate(node->io_rate, b[0]), draw_bytes(p->rchar, b[1]),
		 draw_count(p->syscr, b[2]), draw_bytes(p->wchar, b[3]),
		 draw_count(p->syscw, b[4]));
	y = detail_line(a, y, "I/O", text);
	snprintf(text, sizeof(text), "%s read, %s written", draw_bytes(p->read_bytes, b[0]),
		 draw_bytes(p->write_bytes, b[1]));
	return detail_line(a, y, "storage", text);
}

static int draw_counts(const struct area *a, int y, const struct proc_sample *p)
{
	char text[256], b[4][DRAW_NUMBER_BYTES];

	snprintf(text, sizeof(text), "%s minor, %s major; switches %s voluntary, %s involuntary",
		 draw_count(p->minor_faults, b[0]), draw_count(p->major_faults, b[1]),
		 draw_count(p->voluntary_switches, b[2]),
		 draw_count(p->involuntary_switches, b[3]));
	return detail_line(a, y, "page faults", text);
}

static const char *of_limit(uint64_t fds, uint64_t limit, char *room, size_t size)
{
	if (!u64_known(fds))
		snprintf(room, size, "-");
	else if (!u64_known(limit))
		snprintf(room, size, "%llu, of a limit that is not known", (unsigned long long)fds);
	else if (limit == FD_LIMIT_UNLIMITED)
		snprintf(room, size, "%llu, no limit", (unsigned long long)fds);
	else
		snprintf(room, size, "%llu of %llu (%.0f %%)", (unsigned long long)fds,
			 (unsigned long long)limit,
			 limit ? 100.0 * (double)fds / (double)limit : 100.0);
	return room;
}

/* ---- its cgroup ---- */

static const struct cgroup_sample *find_cgroup(const struct snapshot *s, const char *path)
{
	for (size_t i = 0; i < s->n_cgroups; i++)
		if (s->cgroups[i].path && strcmp(s->cgroups[i].path, path) == 0)
			return &s->cgroups[i];
	return NULL;
}

static const char *limit_text(uint64_t bytes, char room[DRAW_NUMBER_BYTES])
{
	return bytes == MEMORY_UNLIMITED ? "none" : draw_bytes(bytes, room);
}

static int draw_cgroup(const struct scene *s, const struct area *a, int y,
		       const struct proc_sample *p)
{
	const struct cgroup_sample *c = p->cgroup ? find_cgroup(&s->snap, p->cgroup) : NULL;
	char text[256], b[4][DRAW_NUMBER_BYTES];

	y = detail_line(a, y, "cgroup", p->cgroup ? p->cgroup : "-");
	if (!c)
		return y;
	snprintf(text, sizeof(text), "memory %s, limit %s, throttled from %s, OOM kills %s",
		 draw_bytes(c->memory_current_bytes, b[0]), limit_text(c->memory_max_bytes, b[1]),
		 limit_text(c->memory_high_bytes, b[2]), draw_count(c->oom_kills, b[3]));
	return detail_line(a, y, "", text);
}

int draw_process(const struct scene *s, const struct area *a, int y, const struct node *node)
{
	const struct proc_sample *p = node->p;
	char text[256], b[2][DRAW_NUMBER_BYTES];

	y = draw_who(a, y, p);
	y = draw_memory(a, y, p);
	y = draw_cpu(a, y, p);
	y = draw_io(a, y, node);
	if (s->snap.n_gpus > 0) {
		snprintf(text, sizeof(text), "%s %%, %s", draw_percent(p->gpu_percent, b[0]),
			 draw_bytes(p->gpu_memory_bytes, b[1]));
		y = detail_line(a, y, "GPU", text);
	}
	y = detail_line(a, y, "open files", of_limit(p->open_fds, p->fd_limit, text, sizeof(text)));
	y = detail_calls(s, a, y, node);
	y = draw_whose(a, y, node);
	y = draw_counts(a, y, p);
	return draw_cgroup(s, a, y, p);
}
