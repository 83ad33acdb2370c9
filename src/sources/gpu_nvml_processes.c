/*
 * gpu_nvml_processes - who holds a device of NVIDIA's, and how busy each keeps it.
 *
 * Shares cost a hundred times what the list does: they are asked every few seconds, every time
 * for some seconds after a process was listed that was not listed before, and whenever the
 * device's own use, which costs little, has moved, and once more then: the first answer is of what
 * was before and after, and the next stands for what follows.
 *
 * The driver keeps some 20 s of samples, and tells of each process one number: its mean since a
 * time that we name, where what it did nothing in counts as 0. The time named is when it was last
 * asked; but of a change, the last reading, until which the answer before is good.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "sources/gpu_nvml.h"

#define SHARES_EVERY_NS UINT64_C(5000000000)
#define MOVED_POINTS 10
#define SAMPLED_WITHIN_US UINT64_C(1000000) /* samples are no further apart */

/* ---- the lists ---- */

typedef int list_fn(nvml_device, unsigned *, struct nvml_process_v3 *);

/* False: one that cannot be had, which is not an empty one; but a device that cannot draw has
 * nobody draw. */
static bool add_list(struct nvml *n, const struct nvml_gpu *d, list_fn *ask, bool is_needed)
{
	unsigned count = GPU_MAX_PROCESSES;
	int result = ask ? ask(d->handle, &count, n->list + n->n_listed) : NVML_INSUFFICIENT_SIZE;

	if (result == NVML_NOT_SUPPORTED && !is_needed)
		return true;
	if (result != NVML_OK || count > GPU_MAX_PROCESSES)
		return false;
	n->n_listed += count;
	return true;
}

static void read_lists(struct nvml *n, const struct nvml_gpu *d, int index, struct gpu_reading *ret)
{
	bool has_all;

	n->n_listed = 0;
	has_all = add_list(n, d, n->call.compute_processes, true);
	has_all &= add_list(n, d, n->call.graphics_processes, false);
	if (has_all)
		return;
	ret->n_left_out++;
	gpu_note(ret, "the driver does not tell all processes that use GPU %d", index);
}

/* ---- shares ---- */

static const struct nvml_asked *find_asked(const struct nvml_gpu *d, unsigned pid)
{
	for (unsigned i = 0; i < d->n_asked; i++)
		if (d->asked[i].pid == pid)
			return &d->asked[i];
	return NULL;
}

static bool has_new_process(const struct nvml *n, const struct nvml_gpu *d)
{
	for (unsigned i = 0; i < n->n_listed; i++)
		if (!find_asked(d, n->list[i].pid))
			return true;
	return false;
}

/* Who is listed now. Of those that were there when nobody had asked yet, none is new. */
static void keep_asked(const struct nvml *n, struct nvml_gpu *d, bool is_first)
{
	struct nvml_asked *asked = calloc(n->n_listed + 1, sizeof(*asked));

	for (unsigned i = 0; asked && i < n->n_listed; i++)
		asked[i] = (struct nvml_asked){
			.pid = n->list[i].pid,
			.is_new = !is_first && !find_asked(d, n->list[i].pid),
		};
	free(d->asked);
	d->asked = asked;
	d->n_asked = asked ? n->n_listed : 0;
}

/* By the clock that samples are dated by; there may be none if it is less than a second ago. */
static uint64_t sample_time_us(uint64_t since_ns, uint64_t now_ns)
{
	uint64_t now_us = clock_wall_ns() / 1000;
	uint64_t ago_us = since_ns ? (now_ns - since_ns) / 1000 : 0;

	if (ago_us < SAMPLED_WITHIN_US)
		ago_us = SAMPLED_WITHIN_US;
	return now_us > ago_us ? now_us - ago_us : 0;
}

/* From the last sample that was told: there may be no newer one, or the clock was set. */
static uint64_t since_last_told_us(const struct nvml_gpu *d)
{
	return d->shares_time_us > SAMPLED_WITHIN_US ? d->shares_time_us - SAMPLED_WITHIN_US : 0;
}

static void ask_since(const struct nvml *n, struct nvml_gpu *d, uint64_t since_us)
{
	unsigned count = NVML_MAX_SHARES;
	int result = n->call.process_utilization(d->handle, d->shares, &count, since_us);
	bool has_all = result == NVML_OK && count <= NVML_MAX_SHARES;
	uint64_t newest_us = 0;

	/* That there are none means that nobody was busy. */
	d->shares_known = result == NVML_NOT_FOUND || has_all;
	d->n_shares = has_all ? count : 0;
	for (unsigned i = 0; i < d->n_shares; i++)
		if (d->shares[i].time_us > newest_us)
			newest_us = d->shares[i].time_us;
	if (newest_us > 0)
		d->shares_time_us = newest_us;
}

void nvml_ask_shares(const struct nvml *n, struct nvml_gpu *d, double use_pct, uint64_t since_ns,
		     uint64_t now_ns)
{
	if (!n->call.process_utilization)
		return;
	if (!d->shares)
		d->shares = calloc(NVML_MAX_SHARES, sizeof(*d->shares));
	d->shares_boot_ns = now_ns;
	d->shares_use_pct = use_pct;
	d->n_shares = 0;
	d->shares_known = false;
	if (!d->shares)
		return;
	ask_since(n, d, sample_time_us(since_ns, now_ns));
	if (d->shares_known && d->n_shares == 0 && use_pct > 0)
		ask_since(n, d, since_last_told_us(d));
}

/* Between some and none the least is much. A device that does not tell its use never has. */
static bool has_moved(const struct nvml_gpu *d, double use_pct)
{
	return fabs(use_pct - d->shares_use_pct) > MOVED_POINTS ||
	       (use_pct == 0) != (d->shares_use_pct == 0);
}

static void read_shares(const struct nvml *n, struct nvml_gpu *d, double use_pct, uint64_t now_ns)
{
	bool is_first = d->shares_boot_ns == 0;
	bool moves = !is_first && has_moved(d, use_pct);
	bool has_new = !is_first && has_new_process(n, d);
	uint64_t since_ns = moves || has_new ? d->listed_boot_ns : d->shares_boot_ns;

	d->listed_boot_ns = now_ns;
	if (has_new)
		d->young_until_ns = now_ns + SHARES_EVERY_NS;
	if (!is_first && now_ns >= d->young_until_ns && !moves && !d->has_moved &&
	    now_ns - d->shares_boot_ns < SHARES_EVERY_NS)
		return;
	nvml_ask_shares(n, d, use_pct, since_ns, now_ns);
	d->has_moved = moves;
	keep_asked(n, d, is_first);
}

/*
 * What was told of it, or the mean where a driver tells its samples one by one. One of which
 * nothing is told did nothing if it was listed all the time; else it may have begun too late.
 */
static double share_of(const struct nvml_gpu *d, unsigned pid, int index, struct gpu_reading *ret)
{
	const struct nvml_asked *asked = find_asked(d, pid);
	bool has_sample = false;
	double sum = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_shares; i++) {
		double percent = d->shares[i].pid == pid
					 ? gpu_sane_share(ret, index, pid, d->shares[i].sm)
					 : F64_UNKNOWN;

		has_sample |= d->shares[i].pid == pid;
		sum += f64_known(percent) ? percent : 0;
		n += f64_known(percent);
	}
	if (n > 0)
		return sum / n;
	return d->shares_known && asked && !asked->is_new && !has_sample ? 0 : F64_UNKNOWN;
}

/* ---- both ---- */

static void add_process(struct nvml *n, const struct nvml_gpu *d, int index,
			const struct nvml_process_v3 *p, struct gpu_reading *ret)
{
	struct gpu_process process = {
		.device = index,
		.memory_bytes = p->used_memory == NVML_NOT_AVAILABLE ? U64_UNKNOWN : p->used_memory,
		.utilization_pct = share_of(d, p->pid, index, ret),
	};

	if (gpu_owners_find(&n->owners, n->root_fd, p->pid, &gpu_nvidia_files, &process.key))
		gpu_add_process(ret, &process);
	else
		ret->n_left_out++;
}

void nvml_read_processes(struct nvml *n, struct nvml_gpu *d, const struct gpu_sample *of,
			 uint64_t now_ns, struct gpu_reading *ret)
{
	read_lists(n, d, of->index, ret);
	read_shares(n, d, of->utilization_pct, now_ns);
	if (n->n_listed > 0 && !d->shares_known)
		gpu_note(ret,
			 "the driver does not tell the share of each process on GPU %d, as of "
			 "one that is divided (MIG)",
			 of->index);
	for (unsigned i = 0; i < n->n_listed; i++)
		add_process(n, d, of->index, &n->list[i], ret);
}
