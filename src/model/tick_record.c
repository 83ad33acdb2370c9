#include "model/tick_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/record.h"
#include "model/tick_snapshot.h"

/*
 * The bytes: the number of the whole tick (how many there have been in the log), the number of the
 * first new description, how many there are, each as sample_process_columns (record.h), and a tick
 * (tick.h) whose keys of processes are the numbers of their descriptions.
 *
 * The number of the whole tick keeps a later one from being read as a difference from another,
 * where both the key and its whole tick were lost.
 */

#define POINT_KEY 1 /* of the attempt's only one */

/* Processes that are younger than the whole tick cost all of their words in each later one. So the
 * next tick is whole when those since the last one have taken so many times its bytes. */
#define WHOLE_PART 4

/* ---- writing ---- */

struct tick_writer {
	uint64_t n_whole;	    /* the number of the whole tick */
	bool has_whole;		    /* false: the next is whole */
	size_t whole_bytes;	    /* its size */
	size_t later_bytes;	    /* of those since */
	struct tick whole, now;	    /* the one that is written */
	struct process_index index; /* numbers of descriptions */
	int64_t n_described;	    /* since the key */
	struct buf described;	    /* in the tick that is written */
	struct call_names call_names;
	struct listed_process *listed;
	size_t cap;
};

struct tick_writer *tick_writer_new(void)
{
	struct tick_writer *w = malloc(sizeof(*w));

	if (w)
		*w = (struct tick_writer){ .whole = TICK_INIT,
					   .now = TICK_INIT,
					   .described = BUF_INIT };
	return w;
}

struct tick_writer *tick_writer_free(struct tick_writer *w)
{
	if (!w)
		return NULL;
	tick_release(&w->whole);
	tick_release(&w->now);
	process_index_release(&w->index);
	buf_release(&w->described);
	call_names_release(&w->call_names);
	free(w->listed);
	free(w);
	return NULL;
}

void tick_writer_begin_key(struct tick_writer *w)
{
	w->has_whole = false;
	w->n_described = 0;
	process_index_clear(&w->index);
}

/* The number of its description, which is written where it is a new one. */
static int describe(struct tick_writer *w, const struct proc_sample *p, int64_t *ret)
{
	struct process_entry *known = process_index_find(&w->index, p->key);
	uint64_t h = process_fingerprint(HASH_INIT, p);

	h = fingerprint_number(h,
			       (uint64_t)(uint32_t)p->local_rank << 32 | (uint32_t)p->world_size);
	h = fingerprint_number(fingerprint_number(h, p->ns_pid), p->start_wall_ns);
	if (known && known->fingerprint == h) {
		*ret = known->number;
		return 0;
	}
	*ret = ++w->n_described;
	record_write_struct(&w->described, &sample_process_columns, p);
	if (!known)
		return process_index_add(&w->index, p->key, h, *ret);
	known->fingerprint = h;
	known->number = *ret;
	return 0;
}

static int write_tick(struct tick_writer *w, const struct snapshot *snap,
		      const struct series_point *point, struct buf *out)
{
	int64_t n_before = w->n_described;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < snap->n_processes; i++) {
		int64_t number;

		if (!snap->processes[i].job_id)
			continue;
		if (describe(w, &snap->processes[i], &number) < 0 ||
		    ARRAY_RESERVE(w->listed, w->cap, n + 1) < 0)
			return -ENOMEM;
		w->listed[n++] = (struct listed_process){ number, i };
	}
	r = tick_fill_host(&w->now, snap);
	if (r == 0)
		r = tick_fill_samples(&w->now, &w->call_names, snap, w->listed, n);
	if (r == 0 && point) {
		uint64_t *words = tick_add(&w->now, LIST_POINTS, POINT_KEY);

		if (!words)
			return -ENOMEM;
		point_to_words(point, words);
	}
	if (!w->has_whole)
		w->n_whole++;
	record_write_number(out, w->n_whole);
	record_write_number(out, (uint64_t)n_before + 1);
	record_write_number(out, (uint64_t)(w->n_described - n_before));
	buf_add(out, w->described.data, w->described.len);
	tick_write(out, &w->now, w->has_whole ? &w->whole : NULL, (int64_t)w->n_whole);
	return r < 0 || buf_error(&w->described) < 0 || buf_error(out) < 0 ? -ENOMEM : 0;
}

int tick_writer_write(struct tick_writer *w, const struct snapshot *snap,
		      const struct series_point *point, struct buf *out)
{
	int r;

	buf_reset(out);
	buf_reset(&w->described);
	tick_reset(&w->now);
	if (w->has_whole && w->later_bytes / WHOLE_PART > w->whole_bytes)
		tick_writer_begin_key(w);
	r = write_tick(w, snap, point, out);
	if (r < 0) {
		tick_writer_begin_key(w); /* nobody has read these descriptions */
	} else if (!w->has_whole) {
		struct tick written = w->now;

		w->now = w->whole;
		w->whole = written;
		w->has_whole = true;
		w->whole_bytes = out->len;
		w->later_bytes = 0;
	} else {
		w->later_bytes += out->len;
	}
	return r;
}

/* ---- reading ---- */

struct description {
	int64_t number; /* ascending */
	pid_t pid;
	size_t at; /* in the bytes */
};

/* A process of the tick that is read. */
struct found_process {
	pid_t pid;
	const uint64_t *row; /* its number and the words of its sample */
	size_t described_at;
	const uint64_t *calls; /* rows of LIST_SYSCALLS */
	size_t n_calls;
};

struct tick_decoder {
	uint64_t n_whole; /* the number of the whole tick */
	bool has_whole;
	struct tick whole, now;
	struct description *described;
	size_t n_described, cap_described;
	struct buf bytes; /* of the descriptions: they take less room than structs would */
	struct found_process *found;
	size_t cap_found;
	struct arena arena; /* of descriptions that are looked at */
	size_t text_max;    /* as of struct record_reader */
};

struct tick_decoder *tick_decoder_new(void)
{
	struct tick_decoder *d = malloc(sizeof(*d));

	if (d)
		*d = (struct tick_decoder){
			.whole = TICK_INIT, .now = TICK_INIT, .bytes = BUF_INIT, .arena = ARENA_INIT
		};
	return d;
}

struct tick_decoder *tick_decoder_free(struct tick_decoder *d)
{
	if (!d)
		return NULL;
	tick_release(&d->whole);
	tick_release(&d->now);
	free(d->described);
	buf_release(&d->bytes);
	free(d->found);
	arena_release(&d->arena);
	free(d);
	return NULL;
}

void tick_decoder_distrust(struct tick_decoder *d)
{
	d->text_max = RECORD_FOREIGN_TEXT;
}

void tick_decoder_begin_key(struct tick_decoder *d)
{
	d->has_whole = false;
	d->n_described = 0;
	buf_reset(&d->bytes);
}

/* Takes n descriptions, which are those from this number on. */
static int take_descriptions(struct tick_decoder *d, struct record_reader *r, uint64_t first,
			     uint64_t n)
{
	const uint8_t *begin = r->p;
	size_t at = d->bytes.len;

	if (first == 0 || first > SAMPLE_KEY_MAX || n > (uint64_t)(r->end - r->p) ||
	    (d->n_described > 0 && (int64_t)first <= d->described[d->n_described - 1].number))
		return -EBADMSG;
	for (uint64_t i = 0; i < n; i++) {
		size_t from = (size_t)(r->p - begin);
		struct proc_sample p;

		proc_sample_init(&p);
		arena_reset(&d->arena);
		record_read_struct(r, &sample_process_columns, &p);
		if (r->error < 0)
			return r->error;
		if (ARRAY_RESERVE(d->described, d->cap_described, d->n_described + 1) < 0)
			return -ENOMEM;
		d->described[d->n_described++] =
			(struct description){ (int64_t)(first + i), p.key.pid, at + from };
	}
	buf_add(&d->bytes, begin, (size_t)(r->p - begin));
	return buf_error(&d->bytes);
}

/* The row of a list, by its place. */
static const uint64_t *row_at(const struct tick *t, enum tick_list list, size_t i)
{
	return t->lists[list].rows + i * (1 + list_words[list]);
}

static int compare_found(const void *a, const void *b)
{
	const struct found_process *x = a, *y = b;

	return COMPARE(x->pid, y->pid) ?: COMPARE(x->row, y->row);
}

/* Each sample with its description and its system calls, by pid as in /proc. */
static int find_processes(struct tick_decoder *d, const struct tick *t)
{
	size_t n = t->lists[LIST_SAMPLES].n, n_calls = t->lists[LIST_SYSCALLS].n;
	size_t described = 0, call = 0;
	bool is_sorted = true;

	if (ARRAY_RESERVE(d->found, d->cap_found, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const uint64_t *row = row_at(t, LIST_SAMPLES, i);
		struct found_process *found = &d->found[i];

		while (described < d->n_described &&
		       d->described[described].number < (int64_t)row[0])
			described++;
		if (described == d->n_described ||
		    d->described[described].number != (int64_t)row[0])
			return -EBADMSG;
		*found = (struct found_process){ .pid = d->described[described].pid,
						 .row = row,
						 .described_at = d->described[described].at };
		for (; call < n_calls; call++) {
			const uint64_t *call_row = row_at(t, LIST_SYSCALLS, call);

			if (call_row[0] >> SYSCALL_BITS > row[0])
				break;
			if (call_row[0] >> SYSCALL_BITS < row[0])
				continue;
			if (found->n_calls++ == 0)
				found->calls = call_row;
		}
		is_sorted &= i == 0 || found[-1].pid <= found->pid;
	}
	if (!is_sorted)
		qsort(d->found, n, sizeof(*d->found), compare_found);
	return 0;
}

static int give_calls(const struct found_process *found, const char *const *strings,
		      size_t n_strings, struct snapshot *ret, struct proc_sample *p)
{
	struct syscall_use *uses;
	size_t n = 0;

	if (found->n_calls == 0)
		return 0; /* nobody counted them */
	uses = arena_alloc(&ret->arena, found->n_calls * sizeof(*uses));
	if (!uses)
		return -ENOMEM;
	for (size_t i = 0; i < found->n_calls; i++) {
		const uint64_t *words = found->calls + i * (1 + SYSCALL_WORDS) + 1;

		if (!u64_known(words[SYSCALL_NAME]))
			continue; /* there was none */
		if (words[SYSCALL_NAME] >= n_strings)
			return -EBADMSG;
		uses[n++] = (struct syscall_use){ .name = strings[words[SYSCALL_NAME]],
						  .count = words[SYSCALL_COUNT],
						  .errors = words[SYSCALL_ERRORS],
						  .cpu_ns = words[SYSCALL_CPU_NS],
						  .wait_ns = words[SYSCALL_WAIT_NS] };
	}
	p->syscalls = uses;
	p->n_syscalls = n;
	return 0;
}

static int give_processes(struct tick_decoder *d, const struct tick *t, const char *job_id,
			  const char *const *strings, size_t n_strings, struct snapshot *ret)
{
	int r = find_processes(d, t);

	for (size_t i = 0; r == 0 && i < t->lists[LIST_SAMPLES].n; i++) {
		const struct found_process *found = &d->found[i];
		struct proc_sample *p = snapshot_add_process(ret);
		struct record_reader description = {
			(const uint8_t *)d->bytes.data + found->described_at,
			(const uint8_t *)d->bytes.data + d->bytes.len,
			&ret->arena,
			0,
			d->text_max,
		};

		if (!p)
			return -ENOMEM;
		record_read_struct(&description, &sample_process_columns, p);
		p->job_id = job_id;
		r = description.error;
		if (r == 0)
			r = sample_from_words(found->row + 1, t->head[HOST_BOOT_NS], p);
		if (r == 0)
			r = give_calls(found, strings, n_strings, ret, p);
	}
	return r;
}

/* The strings of the tick, in the snapshot's arena, by number; all NULL where it has none. */
static int keep_strings(const struct tick_reader *tick, struct arena *arena, const char ***ret)
{
	size_t len;
	char *copy;

	if (tick_index_strings(tick, ret) < 0)
		return -ENOMEM;
	if (tick->n_strings == 0)
		return 0;
	len = (size_t)((*ret)[tick->n_strings - 1] - tick->strings);
	len += strlen(tick->strings + len) + 1;
	copy = arena_memdup(arena, tick->strings, len);
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < tick->n_strings; i++)
		(*ret)[i] = copy + ((*ret)[i] - tick->strings);
	return 0;
}

static int give(struct tick_decoder *d, const struct tick_reader *tick, const struct tick *t,
		const char *job_id, struct snapshot *ret, struct series_point *ret_point)
{
	static const enum tick_list things[] = { LIST_GPUS, LIST_PROGRESS, LIST_CGROUPS };
	CLEANUP(free_ptr) const char **strings = NULL;
	int r = keep_strings(tick, &ret->arena, &strings);

	if (r == 0)
		r = host_from_words(t->head, ret);
	if (r < 0)
		return r;
	if (u64_known(t->head[HEAD_LEVEL])) {
		if (t->head[HEAD_LEVEL] >= tick->n_strings)
			return -EBADMSG;
		ret->pressure_level = strings[t->head[HEAD_LEVEL]];
	}
	if (u64_known(t->head[HEAD_HAS_GPUS])) {
		ret->gpus = arena_alloc(&ret->arena, sizeof(*ret->gpus)); /* none is not unknown */
		r = ret->gpus ? 0 : -ENOMEM;
	}
	for (size_t k = 0; k < ARRAY_SIZE(things); k++)
		for (size_t i = 0; r == 0 && i < t->lists[things[k]].n; i++)
			r = snapshot_add_row(ret, things[k], row_at(t, things[k], i) + 1, strings,
					     tick->n_strings);
	if (r == 0)
		r = give_processes(d, t, job_id, strings, tick->n_strings, ret);
	if (r == 0 && ret_point && t->lists[LIST_POINTS].n > 0)
		r = point_from_words(row_at(t, LIST_POINTS, 0) + 1, ret_point);
	ret->covers = COVERS_JOB;
	ret->covered_job = job_id;
	return r;
}

static int read_tick(struct tick_decoder *d, struct record_reader *bytes, const char *job_id,
		     struct snapshot *ret, struct series_point *ret_point)
{
	uint64_t n_whole = record_read_number(bytes), first = record_read_number(bytes);
	uint64_t n = record_read_number(bytes);
	struct tick_reader tick = { 0 };
	size_t n_described, n_bytes;
	bool is_whole;
	int r;

	if (bytes->error < 0 || n_whole == 0 || n_whole > INT64_MAX)
		return -EBADMSG;
	if (n_whole != d->n_whole) {
		tick_decoder_begin_key(d);
		d->n_whole = n_whole;
	}
	n_described = d->n_described;
	n_bytes = d->bytes.len;
	r = take_descriptions(d, bytes, first, n);
	if (r == 0)
		r = tick_read(&tick, bytes->p, (size_t)(bytes->end - bytes->p),
			      d->has_whole ? (int64_t)n_whole : 0, d->whole.head);
	is_whole = r == 0 && tick.before_id == 0;
	if (r == 0 && (is_whole || ret))
		r = tick_take(&tick, is_whole ? NULL : &d->whole, is_whole ? &d->whole : &d->now);
	if (r == 0 && ret)
		r = give(d, &tick, is_whole ? &d->whole : &d->now, job_id, ret, ret_point);
	if (is_whole)
		d->has_whole = r == 0;
	if (r < 0) {
		d->n_described = n_described;
		buf_truncate(&d->bytes, n_bytes);
	}
	return r;
}

int tick_decoder_read(struct tick_decoder *d, const void *bytes, size_t n, const char *job_id,
		      struct snapshot *ret, struct series_point *ret_point)
{
	struct record_reader reader = { bytes, (const uint8_t *)bytes + n, &d->arena, 0,
					d->text_max };
	int r;

	if (ret)
		snapshot_reset(ret);
	if (ret_point)
		*ret_point = (struct series_point){ .wall_ns = U64_UNKNOWN,
						    .sheet_num = SHEET_NONE,
						    .rss_bytes = U64_UNKNOWN,
						    .cpu_percent = F64_UNKNOWN,
						    .n_processes = U64_UNKNOWN };
	r = read_tick(d, &reader, job_id, ret, ret_point);
	if (r < 0 && ret)
		snapshot_reset(ret);
	return r;
}
