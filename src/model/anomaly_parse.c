#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/anomaly.h"

#define MB 1048576.0
#define MAX_TEXT_BYTES (1 << 20) /* of what we wrote ourselves; more is not it */

static void drop(json_t **root)
{
	json_decref(*root);
}

/* NULL: it is no object. */
static json_t *parse(const char *text)
{
	size_t n = text ? strnlen(text, MAX_TEXT_BYTES) : 0;
	json_t *root = n > 0 && n < MAX_TEXT_BYTES ? json_loadb(text, n, 0, NULL) : NULL;

	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

static double read_f64(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_number(v) ? json_number_value(v) : F64_UNKNOWN;
}

static uint64_t read_u64(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
								: U64_UNKNOWN;
}

static uint64_t read_mb(const json_t *object, const char *key)
{
	double bytes = read_f64(object, key) * MB;

	return bytes >= 0 && bytes < 0x1p63 ? (uint64_t)bytes : U64_UNKNOWN;
}

static void read_string(const json_t *object, const char *key, char *ret, size_t size)
{
	const char *s = json_string_value(json_object_get(object, key));
	size_t n = s ? utf8_cut(s, strlen(s), size - 1) : 0;

	if (n > 0)
		memcpy(ret, s, n);
	ret[n] = '\0';
}

/* ---- the host ---- */

static void read_process(const json_t *object, struct anomaly_process *ret)
{
	uint64_t pid = read_u64(object, "pid");

	*ret = (struct anomaly_process){
		.key = { pid <= INT32_MAX ? (pid_t)pid : 0, read_u64(object, "start_ticks") },
		.cpu_percent = read_f64(object, "cpu_percent"),
		.rss_bytes = read_mb(object, "rss_mb"),
	};
	read_string(object, "comm", ret->comm, sizeof(ret->comm));
	read_string(object, "job_id", ret->job_id, sizeof(ret->job_id));
}

static size_t read_top(const json_t *object, const char *key, struct anomaly_process *ret)
{
	const json_t *list = json_object_get(object, key);
	size_t n = 0;

	for (; n < json_array_size(list) && n < ANOMALY_TOP; n++)
		read_process(json_array_get(list, n), &ret[n]);
	return n;
}

int anomaly_host_read_json(const char *text, struct anomaly_host *ret)
{
	CLEANUP(drop) json_t *root = parse(text);
	uint64_t running;

	anomaly_host_init(ret);
	if (!root)
		return -EBADMSG;
	running = read_u64(root, "running_jobs");
	*ret = (struct anomaly_host){
		.memory_total_bytes = read_mb(root, "memory_total_mb"),
		.memory_available_bytes = read_mb(root, "memory_available_mb"),
		.swap_free_bytes = read_mb(root, "swap_free_mb"),
		.load1 = read_f64(root, "load_avg_1"),
		.cpu_some = read_f64(root, "psi_cpu_some"),
		.memory_some = read_f64(root, "psi_memory_some"),
		.memory_full = read_f64(root, "psi_memory_full"),
		.io_some = read_f64(root, "psi_io_some"),
		.io_full = read_f64(root, "psi_io_full"),
		.n_processes = read_u64(root, "processes"),
		.running_jobs = running <= INT32_MAX ? (int)running : -1,
		.knows_cpu = json_is_array(json_object_get(root, "top_cpu")),
		.knows_rss = json_is_array(json_object_get(root, "top_rss")),
	};
	ret->n_top_cpu = read_top(root, "top_cpu", ret->top_cpu);
	ret->n_top_rss = read_top(root, "top_rss", ret->top_rss);
	return 0;
}

/* ---- the evidence ---- */

static void read_files(const json_t *list, struct anomaly_evidence *e)
{
	for (; e->n_files < json_array_size(list) && e->n_files < ANOMALY_MAX_FILES; e->n_files++) {
		const json_t *object = json_array_get(list, e->n_files);
		struct anomaly_file *file = &e->files[e->n_files];
		uint64_t fd = read_u64(object, "fd");

		file->fd = fd <= INT32_MAX ? (int)fd : -1;
		read_string(object, "target", file->target, sizeof(file->target));
	}
}

static void read_syscalls(const json_t *list, struct anomaly_evidence *e)
{
	e->has_syscalls = json_is_array(list);
	for (; e->n_syscalls < json_array_size(list) && e->n_syscalls < ANOMALY_MAX_SYSCALLS;
	     e->n_syscalls++) {
		const json_t *object = json_array_get(list, e->n_syscalls);
		struct anomaly_syscall *call = &e->syscalls[e->n_syscalls];

		read_string(object, "name", call->name, sizeof(call->name));
		call->count = read_u64(object, "count");
		call->time_pct = read_f64(object, "time_pct");
	}
}

int anomaly_evidence_read_json(const char *text, struct anomaly_evidence *ret)
{
	CLEANUP(drop) json_t *root = parse(text);

	anomaly_evidence_init(ret);
	if (!root)
		return -EBADMSG;
	ret->fast_interval_seconds = read_f64(root, "fast_interval_seconds");
	ret->n_files_open = read_u64(root, "open_file_count");
	read_files(json_object_get(root, "open_files"), ret);
	read_syscalls(json_object_get(root, "top_syscalls"), ret);
	read_string(root, "trace", ret->trace, sizeof(ret->trace));
	read_string(root, "trace_missing", ret->trace_missing, sizeof(ret->trace_missing));
	return 0;
}
