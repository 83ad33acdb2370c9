/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * rss - how many pages a process has in memory, exactly.
 *
 * For programs that include it: n_cpus is to be set, and the map "offsets" made as
 * large, before they are loaded, and find_offsets run once after.
 */
#ifndef PROCTOR_BPF_RSS_H
#define PROCTOR_BPF_RSS_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "differs.h"

const volatile __u32 n_cpus = 1;

/* What to add to a per-CPU pointer for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} offsets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} probe SEC(".maps");

__u64 laundry; /* a pointer that goes through here comes out as a number */

static __always_inline __u64 number_of(const void *pointer)
{
	*(volatile __u64 *)&laundry = (__u64)pointer;
	return *(volatile __u64 *)&laundry;
}

static long find_offset(__u32 cpu, void *raw)
{
	__u32 zero = 0;
	void *here = bpf_map_lookup_percpu_elem(&probe, &zero, cpu);
	__u64 offset;

	if (!here)
		return 0;
	offset = number_of(here) - *(__u64 *)raw;
	bpf_map_update_elem(&offsets, &cpu, &offset, BPF_ANY);
	return 0;
}

/*
 * The kernel's own table of these offsets has a symbol only where it was built
 * with KALLSYMS_ALL. But of a per-CPU map one can have both the pointer as it is
 * kept and the place it means on each CPU. Run once, before the first read.
 */
SEC("syscall")
int find_offsets(void *ctx)
{
	struct bpf_array *array = (struct bpf_array *)number_of(&probe);
	__u64 raw = 0;

	if (!has_percpu_rss())
		return 0;
	bpf_core_read(&raw, sizeof(raw), &array->pptrs[0]);
	bpf_loop(n_cpus, find_offset, &raw, 0);
	return 0;
}

struct rss_sum {
	__s32 *counters[NR_MM_COUNTERS];
	__s64 pages[NR_MM_COUNTERS];
};

/* Since Linux 6.6 the counters of a process lie side by side: one read for all of them. */
static __always_inline bool are_side_by_side(const struct rss_sum *sum)
{
	for (int k = 1; k < NR_MM_COUNTERS; k++)
		if (sum->counters[k] != sum->counters[0] + k)
			return false;
	return true;
}

static __always_inline void add_side_by_side(struct rss_sum *sum, __u64 offset)
{
	__s32 pages[NR_MM_COUNTERS] = {};

	bpf_probe_read_kernel(pages, sizeof(pages), (void *)((__u64)sum->counters[0] + offset));
	for (int k = 0; k < NR_MM_COUNTERS; k++)
		sum->pages[k] += pages[k];
}

static __always_inline long add_cpu(__u32 cpu, void *ctx)
{
	struct rss_sum *sum = ctx;
	__u64 *offset = bpf_map_lookup_elem(&offsets, &cpu);

	if (!offset)
		return 1;
	if (are_side_by_side(sum)) {
		add_side_by_side(sum, *offset);
		return 0;
	}
	for (int k = 0; k < NR_MM_COUNTERS; k++) {
		__s32 pages = 0;

		bpf_probe_read_kernel(&pages, sizeof(pages),
				      (void *)((__u64)sum->counters[k] + *offset));
		sum->pages[k] += pages;
	}
	return 0;
}

#define CPUS_AT_ONCE 4

static long add_later_cpu(__u32 i, void *ctx)
{
	return add_cpu(CPUS_AT_ONCE + i, ctx);
}

/* The first without a call each: many machines have no more. */
static __always_inline void add_cpus(struct rss_sum *sum)
{
	for (__u32 cpu = 0; cpu < CPUS_AT_ONCE; cpu++)
		if (cpu < n_cpus)
			add_cpu(cpu, sum);
	if (n_cpus > CPUS_AT_ONCE)
		bpf_loop(n_cpus - CPUS_AT_ONCE, add_later_cpu, sum, 0);
}

/* Not in a loop: where element k lies is known to the loader only if k is a constant. */
#define TAKE_COUNTER(sum, mm, k)                                 \
	do {                                                     \
		(sum)->counters[k] = (mm)->rss_stat[k].counters; \
		(sum)->pages[k] = (mm)->rss_stat[k].count;       \
	} while (0)

static __always_inline void sum_percpu(struct mm_struct *mm, struct rss_sum *sum)
{
	TAKE_COUNTER(sum, mm, MM_FILEPAGES);
	TAKE_COUNTER(sum, mm, MM_ANONPAGES);
	TAKE_COUNTER(sum, mm, MM_SWAPENTS);
	TAKE_COUNTER(sum, mm, MM_SHMEMPAGES);
	add_cpus(sum);
}

/* All kinds of pages (MM_...) of mm into sum->pages. */
static __always_inline void sum_pages(struct mm_struct *mm, struct rss_sum *sum)
{
	if (has_percpu_rss())
		sum_percpu(mm, sum);
	else
		for (int k = 0; k < NR_MM_COUNTERS; k++)
			sum->pages[k] = plain_rss(mm, k);
}

#endif
