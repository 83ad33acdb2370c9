/*
 * nvml_stand_in - a library with the functions of NVIDIA's that do what a test tells them to:
 * no real GPU falls off the bus when it is asked to. In other programs STAND_IN_PID_FILE names
 * a file with the pid, or one for each GPU, STAND_IN_FAIL_FILE is fail_path, STAND_IN_CRASH_FILE
 * crash_path, STAND_IN_HANG_FILE hang_path, STAND_IN_LOST_FILE lost_path, STAND_IN_INIT_RESULT
 * init_result, STAND_IN_MISSING n_missing, STAND_IN_NAME what a GPU is called, and while
 * STAND_IN_IDLE_FILE is there all are idle, or those for which it has a 1 and no 0.
 */
#ifndef PROCTOR_TESTS_NVML_STAND_IN_H
#define PROCTOR_TESTS_NVML_STAND_IN_H

#define STAND_IN_GPUS 3

struct nvml_stand_in {
	int init_result;
	int handle_result[STAND_IN_GPUS], use_result[STAND_IN_GPUS];
	int list_result, shares_result;
	unsigned pid;	/* the one that holds 1 MiB of each GPU */
	unsigned share; /* its percentage; told of nobody while it is 0 */
	int use_more;	/* points of use by which all GPUs differ from 10, 11 and 12 % */
	unsigned long long asked_since_us; /* the last time that shares were asked from, */
	unsigned long long newest_us; /* and the last of which there are some; 0: the end of time */
	unsigned n_sessions;
	unsigned n_share_asks;	/* of the first GPU */
	unsigned n_missing;	/* that are not even counted any more, of the first ones */
	unsigned xid;		/* told once, of the last GPU; 0: none */
	const char *error_text; /* what it says of every failure; NULL: what is usual */
	const char *fail_path;	/* no GPU answers while this file is there */
	const char *lost_path;	/* the second GPU is lost while this file is there */
	const char *crash_path; /* asked for its use, a GPU takes its process with it while this is
				   there */
	const char *hang_path;	/* asked for its use, a GPU hangs while this file is there, */
	int *hanging_pid;	/* and here is who asked, for others to see; NULL: nowhere */
};

/* The library's own; found by its name, as its functions are. */
struct nvml_stand_in *nvml_stand_in(void);

#endif
