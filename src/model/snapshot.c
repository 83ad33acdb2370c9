#include "model/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/words.h"

/* What a member is before it is read, by its kind. */
#define UNREAD_PID 0
#define UNREAD_CHAR '?'
#define UNREAD_U64 U64_UNKNOWN
#define UNREAD_LIMIT U64_UNKNOWN
#define UNREAD_SECONDS U64_UNKNOWN
#define UNREAD_MB U64_UNKNOWN
#define UNREAD_F64 F64_UNKNOWN

void proc_sample_init(struct proc_sample *p)
{
	*p = (struct proc_sample){
		.key = { .pid = 0, .start_ticks = U64_UNKNOWN },
		.ignores_sigchld = SIGCHLD_UNKNOWN,
		.boot_ns = U64_UNKNOWN,
		.start_wall_ns = U64_UNKNOWN,
		.age_seconds = F64_UNKNOWN,
		.cpu_wait_ns = U64_UNKNOWN,
#define SAMPLE_RECORDED(kind_, member_, ...) .member_ = UNREAD_##kind_,
#include "model/sample_fields.def"
		.process_limit = U64_UNKNOWN,
		.owner = U64_UNKNOWN,
		.ns_pid = U64_UNKNOWN,
		.gpu_idle_devices = F64_UNKNOWN,
		.sheet_num = SHEET_NONE,
		.rank = RANK_NONE,
		.local_rank = RANK_NONE,
		.world_size = RANK_NONE,
	};
}

/* Everything but the memory that is kept for the next round. */
static void snapshot_clear(struct snapshot *s)
{
	struct snapshot fresh = {
		.daemon_rss_bytes = U64_UNKNOWN,
		.daemon_uptime_seconds = F64_UNKNOWN,
		.resolution_seconds = F64_UNKNOWN,
		.processes = s->processes,
		.cap_processes = s->cap_processes,
		.arena = s->arena,
	};

	system_clear(&fresh);
	*s = fresh;
}

void snapshot_init(struct snapshot *s)
{
	*s = (struct snapshot){ .arena = ARENA_INIT };
	snapshot_clear(s);
}

void snapshot_release(struct snapshot *s)
{
	free(s->processes);
	arena_release(&s->arena);
	snapshot_init(s);
}

void snapshot_reset(struct snapshot *s)
{
	arena_reset(&s->arena);
	snapshot_clear(s);
}

bool snapshot_covers(const struct snapshot *s, const char *job_id)
{
	if (s->covers == COVERS_HOST)
		return true;
	return s->covered_job && strcmp(s->covered_job, job_id) == 0;
}

const char *snapshot_covers_name(enum snapshot_covers covers)
{
	static const char *const names[] = {
		[COVERS_HOST] = "host",
		[COVERS_JOB] = "job",
	};

	return names[covers];
}

struct proc_sample *snapshot_add_process(struct snapshot *s)
{
	struct proc_sample *p;

	if (ARRAY_RESERVE(s->processes, s->cap_processes, s->n_processes + 1) < 0)
		return NULL;
	p = &s->processes[s->n_processes++];
	proc_sample_init(p);
	return p;
}

double system_cpu_share(const struct system_sample *before, const struct system_sample *now)
{
	uint64_t busy = u64_add(u64_delta(now->cpu_user_ns, before->cpu_user_ns),
				u64_delta(now->cpu_system_ns, before->cpu_system_ns));
	uint64_t idle = u64_add(u64_delta(now->cpu_idle_ns, before->cpu_idle_ns),
				u64_delta(now->cpu_iowait_ns, before->cpu_iowait_ns));
	uint64_t stolen = u64_delta(now->cpu_steal_ns, before->cpu_steal_ns);
	uint64_t all = u64_add_known(u64_add(busy, idle), stolen);

	if (!u64_known(busy) || !u64_known(idle) || all == 0)
		return F64_UNKNOWN;
	return (double)busy / (double)all;
}

/* ---- copying ---- */

static bool keep_syscalls(struct arena *arena, struct proc_sample *p)
{
	struct syscall_use *uses;

	if (!p->syscalls)
		return true;
	uses = arena_alloc(arena, (p->n_syscalls + 1) * sizeof(*uses)); /* none is not unknown */
	if (!uses)
		return false;
	memcpy(uses, p->syscalls, p->n_syscalls * sizeof(*uses));
	p->syscalls = uses;
	for (size_t i = 0; i < p->n_syscalls; i++)
		if (!arena_keep(arena, &uses[i].name))
			return false;
	return true;
}

static bool copy_processes(struct snapshot *to, const struct snapshot *from,
			   enum snapshot_scope scope)
{
	for (size_t i = 0; i < from->n_processes; i++) {
		struct proc_sample *p;

		if (scope == SNAPSHOT_JOBS && !from->processes[i].job_id)
			continue;
		p = snapshot_add_process(to);
		if (!p)
			return false;
		*p = from->processes[i];
		if (!arena_keep(&to->arena, &p->command) || !arena_keep(&to->arena, &p->cgroup) ||
		    !arena_keep(&to->arena, &p->job_id) || !keep_syscalls(&to->arena, p))
			return false;
	}
	return true;
}

/* The items are those of the original; NULL stays. False when memory runs out. */
#define KEEP_ITEMS(arena, items, n) \
	(!(items) || ((items) = arena_memdup((arena), (items), (n) * sizeof(*(items)))))

/* The pointers of to are those of the original. */
static bool copy_rest(struct snapshot *to)
{
	struct arena *arena = &to->arena;

	if (!KEEP_ITEMS(arena, to->gpus, to->n_gpus) ||
	    !KEEP_ITEMS(arena, to->cgroups, to->n_cgroups) ||
	    !KEEP_ITEMS(arena, to->progress, to->n_progress) ||
	    !arena_keep(arena, &to->pressure_level) || !arena_keep(arena, &to->covered_job))
		return false;
	for (size_t i = 0; i < to->n_cgroups; i++)
		if (!arena_keep(arena, &to->cgroups[i].path))
			return false;
	for (size_t i = 0; i < to->n_progress; i++)
		if (!arena_keep(arena, &to->progress[i].job_id) ||
		    !arena_keep(arena, &to->progress[i].status))
			return false;
	return true;
}

int snapshot_copy(struct snapshot *to, const struct snapshot *from, enum snapshot_scope scope)
{
	struct snapshot own;

	snapshot_reset(to);
	own = *to;
	*to = *from;
	to->arena = own.arena;
	to->processes = own.processes;
	to->cap_processes = own.cap_processes;
	to->n_processes = 0;
	if (copy_rest(to) && copy_processes(to, from, scope))
		return 0;
	snapshot_reset(to);
	return -ENOMEM;
}
