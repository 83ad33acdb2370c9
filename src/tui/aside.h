/*
 * aside - keeps what is said on stderr out of a picture that is on the same terminal.
 *
 * While it is on, lines of the log, of a library or of the C library wait in a pipe, to be read and
 * shown where there is room for them; what nobody has read is written to stderr at its end. A
 * stderr that is no terminal is left alone. One at a time.
 */
#ifndef PROCTOR_TUI_ASIDE_H
#define PROCTOR_TUI_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Where it cannot be done (no descriptors left) stderr stays as it is. */
void aside_begin(void);

/* The last line that was said since the last call, without "proctor: "; false: nothing was. */
bool aside_read(char *ret, size_t size);

/* stderr is itself again. May be called by a handler of signals, and where nothing was begun. */
void aside_end(void);

#endif
