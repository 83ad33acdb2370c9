/*
 * macros - the few macros that every folder uses.
 */
#pragma once

#include <stddef.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What qsort() wants of two numbers: negative, 0 or positive. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* CLEANUP(buf_release) struct buf b = BUF_INIT; calls buf_release(&b) at the end of the scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Hands over what a pointer owns and leaves NULL behind: return TAKE_PTR(job); */
#define TAKE_PTR(p)                     \
	({                              \
		__typeof__(p) p_ = (p); \
		(p) = NULL;             \
		p_;                     \
	})

/* Hands over an fd and leaves -1 behind. */
#define TAKE_FD(fd)             \
	({                      \
		int fd_ = (fd); \
		(fd) = -1;      \
		fd_;            \
	})

/* Takes an item that is in a singly linked list out of it: LIST_REMOVE(s->waiters, waiter, next).
 */
#define LIST_REMOVE(first, item, next)             \
	do {                                       \
		__typeof__(first) *at_ = &(first); \
		while (*at_ != (item))             \
			at_ = &(*at_)->next;       \
		*at_ = (item)->next;               \
	} while (0)

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* For CLEANUP() on what malloc() gave: CLEANUP(free_ptr) char *s = NULL; */
void free_ptr(void *pp);

/* For CLEANUP() on an fd; -1 is fine. Keeps errno. */
void close_fd(int *fd);

/*
 * Room for `need` elements in an array that grows: items is a pointer (NULL while empty), cap the
 * size_t beside it. Doubles, so that appending one at a time is linear. Returns 0 or -ENOMEM, and
 * then the array is as it was.
 *
 *     if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
 *             return -ENOMEM;
 */
#define ARRAY_RESERVE(items, cap, need) array_reserve(&(items), &(cap), (need), sizeof(*(items)))
int array_reserve(void *items, size_t *cap, size_t need, size_t size);
