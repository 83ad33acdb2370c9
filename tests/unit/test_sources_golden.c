/*
 * Runs the collector over every captured tree of tests/golden/proc and compares
 * all values with its case.json, the unknown ones included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* base/json.h has functions of these names too. */
#define json_string jansson_string
#define json_null jansson_null
#include <jansson.h>
#undef json_string
#undef json_null
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"

enum kind {
	KIND_U64,
	KIND_F64,
	KIND_INT,
	KIND_UNSIGNED,
	KIND_CHAR,
	KIND_TEXT,
	KIND_COMM,
	KIND_PSI
};

struct row {
	const char *key;
	enum kind kind;
	size_t offset;
};

#define P(key, kind)                                          \
	{                                                     \
#key, kind, offsetof(struct proc_sample, key) \
	}

static const struct row process_rows[] = {
	{ "pid", KIND_INT, offsetof(struct proc_sample, key.pid) },
	{ "start_ticks", KIND_U64, offsetof(struct proc_sample, key.start_ticks) },
	P(ppid, KIND_INT),
	P(state, KIND_CHAR),
	P(comm, KIND_COMM),
	P(command, KIND_TEXT),
	P(boot_ns, KIND_U64),
	P(start_wall_ns, KIND_U64),
	P(age_seconds, KIND_F64),
	P(cpu_ns, KIND_U64),
	P(cpu_percent, KIND_F64),
	P(user_ns, KIND_U64),
	P(system_ns, KIND_U64),
	P(child_user_ns, KIND_U64),
	P(child_system_ns, KIND_U64),
	P(rss_bytes, KIND_U64),
	P(vms_bytes, KIND_U64),
	P(hwm_bytes, KIND_U64),
	P(rss_anon_bytes, KIND_U64),
	P(rss_file_bytes, KIND_U64),
	P(rss_shmem_bytes, KIND_U64),
	P(swap_bytes, KIND_U64),
	P(page_table_bytes, KIND_U64),
	P(rchar, KIND_U64),
	P(wchar, KIND_U64),
	P(syscr, KIND_U64),
	P(syscw, KIND_U64),
	P(read_bytes, KIND_U64),
	P(write_bytes, KIND_U64),
	P(minor_faults, KIND_U64),
	P(major_faults, KIND_U64),
	P(voluntary_switches, KIND_U64),
	P(involuntary_switches, KIND_U64),
	P(threads, KIND_U64),
	P(open_fds, KIND_U64),
	P(fd_limit, KIND_U64),
	P(uid, KIND_U64),
	P(cgroup, KIND_TEXT),
	P(ns_pid, KIND_U64),
};

#define S(key, kind)                                            \
	{                                                       \
#key, kind, offsetof(struct system_sample, key) \
	}
#define PSI(key, member)                                              \
	{                                                             \
		key, KIND_PSI, offsetof(struct system_sample, member) \
	}

static const struct row system_rows[] = {
	S(memory_total_bytes, KIND_U64),
	S(memory_available_bytes, KIND_U64),
	S(memory_used_bytes, KIND_U64),
	S(swap_total_bytes, KIND_U64),
	S(swap_free_bytes, KIND_U64),
	S(load1, KIND_F64),
	S(load5, KIND_F64),
	S(load15, KIND_F64),
	S(cpu_user_ns, KIND_U64),
	S(cpu_system_ns, KIND_U64),
	S(cpu_idle_ns, KIND_U64),
	S(cpu_iowait_ns, KIND_U64),
	S(cpu_steal_ns, KIND_U64),
	S(cpu_count, KIND_UNSIGNED),
	PSI("psi_cpu_some", psi_cpu.some),
	PSI("psi_cpu_full", psi_cpu.full),
	PSI("psi_memory_some", psi_memory.some),
	PSI("psi_memory_full", psi_memory.full),
	PSI("psi_io_some", psi_io.some),
	PSI("psi_io_full", psi_io.full),
	S(process_count, KIND_U64),
	S(forks_total, KIND_U64),
	S(oom_kills_total, KIND_U64),
	S(uptime_seconds, KIND_F64),
};

/* ---- comparing ---- */

static bool is_u64(json_t *want, uint64_t got)
{
	if (json_is_null(want))
		return !u64_known(got);
	if (json_is_string(want))
		return strcmp(json_string_value(want), "unlimited") == 0 &&
		       got == FD_LIMIT_UNLIMITED;
	return json_is_integer(want) && (uint64_t)json_integer_value(want) == got;
}

static bool is_f64(json_t *want, double got)
{
	if (json_is_null(want))
		return !f64_known(got);
	return json_is_number(want) && json_number_value(want) == got;
}

static bool is_text(json_t *want, const char *got)
{
	if (json_is_null(want))
		return got == NULL;
	return got && json_is_string(want) && strcmp(json_string_value(want), got) == 0;
}

/* Bytes that are no UTF-8 cannot stand in JSON: {"hex": "ff00"}. */
static bool is_comm(json_t *want, const char *got)
{
	const char *hex = json_string_value(json_object_get(want, "hex"));
	char text[2 * COMM_BYTES + 1] = "";

	if (!hex)
		return is_text(want, got);
	for (size_t i = 0; got[i]; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)got[i]);
	return strcmp(hex, text) == 0;
}

static bool is_psi(json_t *want, const struct psi_line *got)
{
	if (json_is_null(want))
		return !f64_known(got->avg10) && !f64_known(got->avg60) &&
		       !f64_known(got->avg300) && !u64_known(got->total_us);
	return is_f64(json_object_get(want, "avg10"), got->avg10) &&
	       is_f64(json_object_get(want, "avg60"), got->avg60) &&
	       is_f64(json_object_get(want, "avg300"), got->avg300) &&
	       is_u64(json_object_get(want, "total_us"), got->total_us);
}

static bool is_equal(json_t *want, enum kind kind, const void *got)
{
	char state[2] = "";

	if (!want)
		return false; /* every value has to be in the case */
	switch (kind) {
	case KIND_U64:
		return is_u64(want, *(const uint64_t *)got);
	case KIND_F64:
		return is_f64(want, *(const double *)got);
	case KIND_INT:
		return json_is_integer(want) && json_integer_value(want) == *(const int *)got;
	case KIND_UNSIGNED:
		return is_u64(want, *(const unsigned *)got);
	case KIND_CHAR:
		state[0] = *(const char *)got;
		return is_text(want, state);
	case KIND_TEXT:
		return is_text(want, *(const char *const *)got);
	case KIND_COMM:
		return is_comm(want, got);
	case KIND_PSI:
		return is_psi(want, got);
	}
	return false;
}

static void compare(json_t *want, const void *got, const struct row *rows, size_t n,
		    const char *where)
{
	for (size_t i = 0; i < n; i++) {
		json_t *value = json_object_get(want, rows[i].key);

		if (is_equal(value, rows[i].kind, (const char *)got + rows[i].offset))
			continue;
		fail_msg("%s: %s is not %s", where, rows[i].key,
			 value ? json_dumps(value, JSON_ENCODE_ANY) : "in case.json");
	}
}

static void compare_snapshot(json_t *about, const struct snapshot *s, const char *name)
{
	json_t *boot_id = json_object_get(about, "boot_id");
	json_t *processes = json_object_get(about, "processes");
	char where[NAME_MAX + 32];

	assert_true(is_text(boot_id, s->boot_id[0] ? s->boot_id : NULL));
	compare(json_object_get(about, "system"), &s->system, system_rows, ARRAY_SIZE(system_rows),
		name);
	assert_int_equal(s->n_processes, json_array_size(processes));
	for (size_t i = 0; i < s->n_processes; i++) {
		snprintf(where, sizeof(where), "%s, pid %d", name, s->processes[i].key.pid);
		compare(json_array_get(processes, i), &s->processes[i], process_rows,
			ARRAY_SIZE(process_rows), where);
	}
}

/* ---- running ---- */

/* The clock of the moment at which the tree was captured. */
static uint64_t case_boot_ns, case_wall_ns;

static uint64_t get_boot_ns(void)
{
	return case_boot_ns;
}

static uint64_t get_wall_ns(void)
{
	return case_wall_ns;
}

static struct collector *open_case(json_t *about, int root_fd, const struct mask *mask)
{
	struct collector_options options = {
		.root_fd = root_fd,
		.mask = mask,
		.clock_ticks = (long)json_integer_value(json_object_get(about, "clock_ticks")),
		.page_bytes = (long)json_integer_value(json_object_get(about, "page_bytes")),
		.now_boot_ns = get_boot_ns,
		.now_wall_ns = get_wall_ns,
	};
	struct collector *c = NULL;
	struct err err = ERR_INIT;

	if (collector_new(&options, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static json_t *load_about(int root_fd)
{
	int fd = openat(root_fd, "case.json", O_RDONLY | O_CLOEXEC);
	json_t *about = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);

	assert_non_null(about);
	close(fd);
	case_boot_ns = (uint64_t)json_integer_value(json_object_get(about, "boot_ns"));
	case_wall_ns = (uint64_t)json_integer_value(json_object_get(about, "wall_ns"));
	return about;
}

/* The state is the name of the case, below the current folder. */
static void test_case(void **state)
{
	const char *name = *state;
	int root_fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *about = load_about(root_fd);
	struct err err = ERR_INIT;
	struct mask *mask = NULL;
	struct collector *c;
	struct snapshot s;

	assert_int_equal(mask_new(NULL, 0, &mask, &err), 0);
	c = open_case(about, root_fd, mask);
	snapshot_init(&s);

	/* Twice: what is remembered from the first time gives the same answers. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(collector_scan(c, &s, &err), 0);
		collector_fill(c, &s, SNAPSHOT_ALL);
		compare_snapshot(about, &s, name);
	}

	snapshot_release(&s);
	collector_free(c);
	mask_free(mask);
	json_decref(about);
	close(root_fd);
}

static int is_case(const struct dirent *entry)
{
	struct stat st;

	return entry->d_name[0] != '.' && stat(entry->d_name, &st) == 0 && S_ISDIR(st.st_mode);
}

int main(void)
{
	struct CMUnitTest tests[64] = { 0 };
	struct dirent **entries;
	const char *folder = getenv("PROCTOR_TESTS");
	int n, r;

	if (!folder || chdir(folder) < 0 || chdir("golden/proc") < 0) {
		perror("PROCTOR_TESTS");
		return 1;
	}
	n = scandir(".", &entries, is_case, alphasort);
	if (n < 6 || (size_t)n > ARRAY_SIZE(tests)) {
		fprintf(stderr, "%d golden cases in tests/golden/proc\n", n);
		return 1;
	}
	for (int i = 0; i < n; i++)
		tests[i] = (struct CMUnitTest){ .name = entries[i]->d_name,
						.test_func = test_case,
						.initial_state = entries[i]->d_name };
	r = _cmocka_run_group_tests("golden", tests, (size_t)n, NULL, NULL);
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	return r;
}
