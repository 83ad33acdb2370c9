/*
 * run_counting - who counts the system calls of a run.
 *
 * The run itself, if it may or has strace for it; a daemon of root, which may where the run may
 * not, and which has started the run if it was submitted; or nobody, and run->calls_err says why.
 */
#ifndef PROCTOR_DAEMON_RUN_COUNTING_H
#define PROCTOR_DAEMON_RUN_COUNTING_H

struct run;

/* After run->members is there, and before the runner, which has to know whether a command waits. */
void run_counting_open(struct run *run);

/* Once, if run->asks_daemon: the first command is there, and waits. */
void run_counting_ask(struct run *run);

/* Into each sample what was counted since the last; where nobody counts they stay unknown. */
void run_counting_fill(struct run *run);

#endif
