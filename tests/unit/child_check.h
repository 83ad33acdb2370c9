/*
 * child_check - checks in a forked child, where cmocka's asserts would jump into the parent's
 * frames.
 */
#ifndef PROCTOR_TESTS_CHILD_CHECK_H
#define PROCTOR_TESTS_CHILD_CHECK_H

#include <stdio.h>
#include <unistd.h>

/* Else the child ends with status 1, and says where. */
#define CHILD_CHECK(condition)                                                                  \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                               \
		}                                                                               \
	} while (0)

#endif
