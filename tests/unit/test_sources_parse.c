#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "sources/proc_text.h"

/* The fields of stat behind the name, as a kernel of today writes them. */
#define STAT_TAIL                                                                                  \
	" S 1 17 17 0 -1 4194304 1379 20 7 3 210 66 12 9 20 0 5 0 238948 16048128 2556 "           \
	"18446744073709551615 4321 5432 140730000 0 0 0 0 0 2 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 " \
	"0\n"

static void test_stat_fields(void **state)
{
	struct pid_stat st;

	(void)state;
	assert_int_equal(pid_stat_parse("17 (cat)" STAT_TAIL, &st), 0);
	assert_int_equal(st.pid, 17);
	assert_int_equal(st.ppid, 1);
	assert_int_equal(st.state, 'S');
	assert_string_equal(st.comm, "cat");
	assert_int_equal(st.minor_faults, 1379);
	assert_int_equal(st.major_faults, 7);
	assert_int_equal(st.user_ticks, 210);
	assert_int_equal(st.system_ticks, 66);
	assert_int_equal(st.child_user_ticks, 12);
	assert_int_equal(st.child_system_ticks, 9);
	assert_int_equal(st.threads, 5);
	assert_int_equal(st.start_ticks, 238948);
}

static void test_stat_name_ends_at_the_last_parenthesis(void **state)
{
	static const char *const names[] = {
		"a b", ") S 1 1 1", "((", "))", "\n", "", "\\n", "\xff"
	};
	struct pid_stat st;
	char text[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text, sizeof(text), "17 (%s)%s", names[i], STAT_TAIL);
		assert_int_equal(pid_stat_parse(text, &st), 0);
		assert_string_equal(st.comm, names[i]);
		assert_int_equal(st.start_ticks, 238948);
	}
}

/* Every cut either fails or leaves all values as they are: none is ever shorter. */
static void test_stat_cut_anywhere(void **state)
{
	static const char whole[] = "17 (cat)" STAT_TAIL;
	struct pid_stat all, st;
	char text[sizeof(whole)];

	(void)state;
	assert_int_equal(pid_stat_parse(whole, &all), 0);
	for (size_t n = 0; n < sizeof(whole) - 1; n++) {
		memcpy(text, whole, n);
		text[n] = '\0';
		if (pid_stat_parse(text, &st) < 0)
			continue;
		assert_int_equal(st.start_ticks, all.start_ticks);
		assert_int_equal(st.user_ticks, all.user_ticks);
		assert_int_equal(st.threads, all.threads);
	}
}

static void test_stat_refuses(void **state)
{
	static const char *const texts[] = {
		"",
		"17",
		"17 (cat",
		"17 (cat)",
		"x (cat)" STAT_TAIL,
		"-17 (cat)" STAT_TAIL,
		"99999999999 (cat)" STAT_TAIL,
		"17 [cat]" STAT_TAIL,
		"17 (cat) SS 1 17 17 0 -1 4194304 1379 20 7 3 210 66 12 9 20 0 5 0 238948 1\n",
		"17 (cat) S -1 17 17 0 -1 4194304 1379 20 7 3 210 66 12 9 20 0 5 0 238948 1\n",
		"17 (cat) S 1 17 17 0 -1 4194304 1379 20 7 3 210 66 12 9 20 0 5 0 -5 1\n",
		"17 (cat) S 1 17 17 0 -1 4194304 1379 20 x 3 210 66 12 9 20 0 5 0 238948 1\n",
	};
	struct pid_stat st = { .pid = 4711 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(pid_stat_parse(texts[i], &st), -EINVAL);
	assert_int_equal(st.pid, 4711);
}

static void test_stat_long_name_is_cut(void **state)
{
	struct pid_stat st;
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text), "17 (%0200d)%s", 0, STAT_TAIL);
	assert_int_equal(pid_stat_parse(text, &st), 0);
	assert_int_equal(strlen(st.comm), COMM_BYTES - 1);
}

static void test_stat_image_changes_with_the_program(void **state)
{
	struct pid_stat a, b, c;
	char text[512];

	(void)state;
	assert_int_equal(pid_stat_parse("17 (cat)" STAT_TAIL, &a), 0);
	assert_int_equal(pid_stat_parse("17 (dog)" STAT_TAIL, &b), 0);
	assert_true(a.image != b.image);
	snprintf(text, sizeof(text), "17 (cat)%s", STAT_TAIL);
	memcpy(strstr(text, "140730000"), "140730999", 9); /* startstack */
	assert_int_equal(pid_stat_parse(text, &c), 0);
	assert_true(a.image != c.image);
}

static void test_statm(void **state)
{
	struct pid_statm m = { 1, 2, 3 };

	(void)state;
	assert_int_equal(pid_statm_parse("", &m), -EINVAL);
	assert_int_equal(pid_statm_parse("87493 12484", &m), -EINVAL);
	assert_int_equal(pid_statm_parse("87493 12484 13", &m), -EINVAL); /* cut off */
	assert_int_equal(m.resident, 2);
	assert_int_equal(pid_statm_parse("87493 12484 1337 691 0 19820 0\n", &m), 0);
	assert_int_equal(m.size, 87493);
	assert_int_equal(m.resident, 12484);
	assert_int_equal(m.shared, 1337);
}

static void test_schedstat(void **state)
{
	struct pid_schedstat s;

	(void)state;
	assert_int_equal(pid_schedstat_parse("0 0 0\n", &s), -ENODATA);
	assert_int_equal(pid_schedstat_parse("5 6\n", &s), -EINVAL);
	assert_int_equal(pid_schedstat_parse("2650412 826740 33\n", &s), 0);
	assert_int_equal(s.run_ns, 2650412);
	assert_int_equal(s.wait_ns, 826740);
	assert_int_equal(s.slices, 33);
}

static void test_status_by_name_in_any_order(void **state)
{
	struct pid_status st;

	(void)state;
	pid_status_parse("nonvoluntary_ctxt_switches:\t4\n"
			 "voluntary_ctxt_switches:\t3\n"
			 "VmSwap:\t       8 kB\n"
			 "RssShmem:\t       1 kB\n"
			 "RssFile:\t    1668 kB\n"
			 "RssAnon:\t     112 kB\n"
			 "VmHWM:\t    1780 kB\n"
			 "VmHWMx:\t 1 kB\n"
			 "NSpid:\t23072\t17\t1\n"
			 "Uid:\t0\t1000\t0\t0\n",
			 &st);
	assert_int_equal(st.uid, 1000);
	assert_int_equal(st.ns_pid, 1);
	assert_int_equal(st.hwm_bytes, 1780 * 1024);
	assert_int_equal(st.rss_anon_bytes, 112 * 1024);
	assert_int_equal(st.rss_file_bytes, 1668 * 1024);
	assert_int_equal(st.rss_shmem_bytes, 1024);
	assert_int_equal(st.swap_bytes, 8 * 1024);
	assert_int_equal(st.voluntary_switches, 3);
	assert_int_equal(st.involuntary_switches, 4);
}

static void test_status_missing_is_unknown(void **state)
{
	struct pid_status st;

	(void)state;
	pid_status_parse("Name:\tx\nUid:\t5\nVmHWM:\t 12 MB\nRssAnon:\t-1 kB\nVmSwap:\t 12", &st);
	assert_false(u64_known(st.uid));
	assert_false(u64_known(st.ns_pid));
	assert_false(u64_known(st.hwm_bytes));
	assert_false(u64_known(st.rss_anon_bytes));
	assert_false(u64_known(st.swap_bytes));
	assert_false(u64_known(st.voluntary_switches));
}

static void test_status_ignored_signals(void **state)
{
	static const struct {
		const char *text;
		bool ignores_sigchld;
	} rows[] = {
		{ "SigIgn:\t0000000000010000\n", true },   { "SigIgn:\t10000\n", true },
		{ "SigIgn:\t00000000fffEffff\n", false },  { "SigIgn:\tfffffffffffbfeff\n", true },
		{ "SigIgn:\t00000000000100000\n", false }, { "SigIgn:\t1000g\n", false },
		{ "SigIgn:\t0000000000010000", false },	   { "SigIgn:\t\n", false },
		{ "SigCgt:\t0000000000010000\n", false },  { "", false },
	};
	struct pid_status st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_status_parse(rows[i].text, &st);
		assert_int_equal(st.ignores_sigchld, rows[i].ignores_sigchld);
	}
}

static void test_io(void **state)
{
	struct io_counts io;

	(void)state;
	pid_io_parse("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n"
		     "cancelled_write_bytes: 7\n",
		     &io);
	assert_int_equal(io.rchar, 1);
	assert_int_equal(io.wchar, 2);
	assert_int_equal(io.syscr, 3);
	assert_int_equal(io.syscw, 4);
	assert_int_equal(io.read_bytes, 5);
	assert_int_equal(io.write_bytes, 6);
	pid_io_parse("", &io);
	assert_false(u64_known(io.rchar));
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_equal(pid_limit_parse("Limit   Soft Limit   Hard Limit   Units\n"
					 "Max open files            1024                 "
					 "1048576              files     \n",
					 LIMIT_OPEN_FILES),
			 1024);
	assert_true(pid_limit_parse("Max open files  unlimited  unlimited  files\n",
				    LIMIT_OPEN_FILES) == FD_LIMIT_UNLIMITED);
	assert_true(pid_limit_parse("Max open files  18446744073709551615  1  files\n",
				    LIMIT_OPEN_FILES) == FD_LIMIT_UNLIMITED);
	assert_false(u64_known(pid_limit_parse("Max open files  10", LIMIT_OPEN_FILES)));
	assert_false(u64_known(pid_limit_parse("Max open filesystems 10 \n", LIMIT_OPEN_FILES)));
	assert_false(u64_known(pid_limit_parse("", LIMIT_OPEN_FILES)));
	assert_int_equal(pid_limit_parse("Max processes   150  150  processes\n"
					 "Max open files  10  20  files\n",
					 LIMIT_PROCESSES),
			 150);
	assert_false(
		u64_known(pid_limit_parse("Max open files  10  20  files\n", LIMIT_PROCESSES)));
}

static void check_cgroup(const char *text, const char *want)
{
	size_t n = 0;
	const char *path = pid_cgroup_parse(text, &n);

	if (!want) {
		assert_null(path);
		return;
	}
	assert_non_null(path);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(path, want, n);
}

static void test_cgroup(void **state)
{
	(void)state;
	check_cgroup("0::/user.slice/a:b.scope\n", "/user.slice/a:b.scope");
	check_cgroup("0::/\n", "/");
	check_cgroup("4:memory:/docker/abc\n1:cpu:/x\n0::/\n", "/docker/abc");
	check_cgroup("4:memory:/docker/abc\n0::/v2\n", "/v2");
	check_cgroup("4:cpu,memory,pids:/m\n3:memoryx:/n\n", "/m");
	check_cgroup("1:name=systemd:/init.scope\n", NULL);
	check_cgroup("0::/cut.off", NULL);
	check_cgroup("0::\n::\n:\n\n", NULL);
	check_cgroup("", NULL);
}

static void check_memory_cgroup(const char *text, const char *want, bool want_v1)
{
	bool is_v1 = !want_v1;
	size_t n = 0;
	const char *path = pid_memory_cgroup_parse(text, &n, &is_v1);

	if (!want) {
		assert_null(path);
		return;
	}
	assert_non_null(path);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(path, want, n);
	assert_int_equal(is_v1, want_v1);
}

static void test_memory_cgroup(void **state)
{
	(void)state;
	check_memory_cgroup("0::/user.slice/a:b.scope\n", "/user.slice/a:b.scope", false);
	check_memory_cgroup("4:memory:/m\n0::/v2\n", "/m", true); /* v2 has no memory there */
	check_memory_cgroup("4:memory:/\n0::/v2\n", "/", true);
	check_memory_cgroup("1:name=systemd:/init.scope\n", NULL, false);
	check_memory_cgroup("4:memory:/cut.off", NULL, false);
	check_memory_cgroup("", NULL, false);
}

static void test_oom_kills(void **state)
{
	(void)state;
	assert_int_equal(oom_kills_parse("low 0\nhigh 0\nmax 9\noom 5\noom_kill 2\n"
					 "oom_group_kill 1\n"),
			 2);
	assert_int_equal(oom_kills_parse("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
	assert_false(u64_known(oom_kills_parse("oom_kill_disable 0\nunder_oom 0\n")));
	assert_false(u64_known(oom_kills_parse("oom_kill 1")));
	assert_false(u64_known(oom_kills_parse("oom_kill -1\n")));
	assert_false(u64_known(oom_kills_parse("")));
}

static void test_meminfo(void **state)
{
	struct system_sample s;

	(void)state;
	meminfo_parse("MemTotal:       100 kB\nMemFree: 1 kB\nMemAvailable:   40 kB\n"
		      "SwapTotal:      10 kB\nSwapFree:        5 kB\n",
		      &s);
	assert_int_equal(s.memory_total_bytes, 102400);
	assert_int_equal(s.memory_available_bytes, 40960);
	assert_int_equal(s.memory_used_bytes, 61440);
	assert_int_equal(s.swap_total_bytes, 10240);
	assert_int_equal(s.swap_free_bytes, 5120);
	meminfo_parse("MemTotal: 100 kB\n", &s);
	assert_false(u64_known(s.memory_used_bytes)); /* not 100 kB, and not 0 */
}

static void test_loadavg_and_uptime(void **state)
{
	struct system_sample s;

	(void)state;
	loadavg_parse("0.25 1.50 12.75 3/123 4567\n", &s);
	assert_true(s.load1 == 0.25 && s.load5 == 1.5 && s.load15 == 12.75);
	loadavg_parse("0.25 1.50 12.7", &s);
	assert_false(f64_known(s.load1) || f64_known(s.load5) || f64_known(s.load15));
	loadavg_parse("-1 nan 0x10 1\n", &s);
	assert_false(f64_known(s.load1));
	uptime_parse("2099.65 4027.42\n", &s);
	assert_true(s.uptime_seconds == 2099.65);
	uptime_parse("2099.6", &s);
	assert_false(f64_known(s.uptime_seconds));
}

static void test_procstat(void **state)
{
	struct system_sample s;

	(void)state;
	procstat_parse("cpu  10 1 20 300 40 2 3 5 0 0\ncpu0 1 2\ncpu1 1 2\ncpufreq 7\n"
		       "intr 1 2 3\nprocesses 29460\nprocs_running 2\n",
		       100, &s);
	assert_int_equal(s.cpu_user_ns, 110000000);
	assert_int_equal(s.cpu_system_ns, 250000000);
	assert_int_equal(s.cpu_idle_ns, 3000000000);
	assert_int_equal(s.cpu_iowait_ns, 400000000);
	assert_int_equal(s.cpu_steal_ns, 50000000);
	assert_int_equal(s.cpu_count, 2);
	assert_int_equal(s.forks_total, 29460);
	procstat_parse("cpu  10 1 20 300 40\n", 100, &s);
	assert_int_equal(s.cpu_user_ns, 110000000);
	assert_false(u64_known(s.cpu_system_ns) || u64_known(s.cpu_steal_ns));
	assert_false(u64_known(s.forks_total));
	assert_int_equal(s.cpu_count, 0);
}

static void test_vmstat(void **state)
{
	struct system_sample s;

	(void)state;
	vmstat_parse("nr_free_pages 5\noom_kill_x 4\noom_kill 3\npswpin 2\npswpout 7\n", 4096, &s);
	assert_int_equal(s.oom_kills_total, 3);
	assert_int_equal(s.swap_in_bytes, 8192);
	assert_int_equal(s.swap_out_bytes, 28672);
	vmstat_parse("nr_free_pages 5\npswpin 18446744073709551614\n", 4096, &s);
	assert_false(u64_known(s.oom_kills_total));
	assert_false(u64_known(s.swap_in_bytes) || u64_known(s.swap_out_bytes));
}

static void test_psi(void **state)
{
	struct psi psi;

	(void)state;
	psi_parse("some avg10=1.53 avg60=0.85 avg300=0.25 total=3916432\n", &psi);
	assert_true(psi.some.avg10 == 1.53 && psi.some.avg60 == 0.85 && psi.some.avg300 == 0.25);
	assert_int_equal(psi.some.total_us, 3916432);
	assert_false(f64_known(psi.full.avg10) || u64_known(psi.full.total_us));
	psi_parse("some avg10=1.53 avg60=0.85 total=3916432\nfull avg10=0.00 avg60=0.00 "
		  "avg300=0.00 total=",
		  &psi);
	assert_false(f64_known(psi.some.avg10) || u64_known(psi.some.total_us));
	assert_false(u64_known(psi.full.total_us));
}

static void test_boot_id(void **state)
{
	char id[BOOT_ID_BYTES];

	(void)state;
	boot_id_parse("db53dd83-655b-497a-b25b-9074c757780d\n", id);
	assert_string_equal(id, "db53dd83-655b-497a-b25b-9074c757780d");
	boot_id_parse("db53dd83-655b-497a-b25b-9074c757780\n", id);
	assert_string_equal(id, "");
	boot_id_parse("db53dd83-655b-497a-b25b-9074c757780d0\n", id);
	assert_string_equal(id, "");
}

static void test_ticks(void **state)
{
	(void)state;
	assert_int_equal(ticks_to_ns(3, 100), 30000000);
	assert_int_equal(ticks_to_ns(1025, 1024), 1000976562);
	assert_false(u64_known(ticks_to_ns(U64_UNKNOWN, 100)));
	assert_false(u64_known(ticks_to_ns(U64_UNKNOWN - 1, 100)));
}

static void test_cpu_numbers_may_have_holes(void **state)
{
	(void)state;
	assert_int_equal(cpu_ids_parse("0\n"), 1);
	assert_int_equal(cpu_ids_parse("0-1\n"), 2);
	assert_int_equal(cpu_ids_parse("0-3,8-11\n"), 12);
	assert_int_equal(cpu_ids_parse("0,2,130"), 131);
	assert_int_equal(cpu_ids_parse(""), -EBADMSG);
	assert_int_equal(cpu_ids_parse("0-\n"), -EBADMSG);
	assert_int_equal(cpu_ids_parse("0-99999999999999999999\n"), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_fields),
		cmocka_unit_test(test_stat_name_ends_at_the_last_parenthesis),
		cmocka_unit_test(test_stat_cut_anywhere),
		cmocka_unit_test(test_stat_refuses),
		cmocka_unit_test(test_stat_long_name_is_cut),
		cmocka_unit_test(test_stat_image_changes_with_the_program),
		cmocka_unit_test(test_statm),
		cmocka_unit_test(test_schedstat),
		cmocka_unit_test(test_status_by_name_in_any_order),
		cmocka_unit_test(test_status_missing_is_unknown),
		cmocka_unit_test(test_status_ignored_signals),
		cmocka_unit_test(test_io),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_memory_cgroup),
		cmocka_unit_test(test_oom_kills),
		cmocka_unit_test(test_meminfo),
		cmocka_unit_test(test_loadavg_and_uptime),
		cmocka_unit_test(test_procstat),
		cmocka_unit_test(test_vmstat),
		cmocka_unit_test(test_psi),
		cmocka_unit_test(test_boot_id),
		cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_cpu_numbers_may_have_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
