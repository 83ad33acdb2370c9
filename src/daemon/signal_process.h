/*
 * signal_process - signals a process, and never one that has its pid by now.
 */
#ifndef PROCTOR_DAEMON_SIGNAL_PROCESS_H
#define PROCTOR_DAEMON_SIGNAL_PROCESS_H

#include "model/snapshot.h"

/* A pidfd, which the caller closes. -ESRCH: it is gone, and its pid may be another's. -EMFILE… */
int open_process(const struct proc_key *key);

/* With a value, as sigqueue() has it. -ESRCH: it is gone. -EPERM… */
int signal_process(const struct proc_key *key, int signal, int value);

#endif
