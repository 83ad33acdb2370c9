/*
 * command - a command as it is named where there is little room.
 */
#ifndef PROCTOR_TUI_COMMAND_H
#define PROCTOR_TUI_COMMAND_H

#include <stddef.h>

#define COMMAND_BYTES 1024

/*
 * Without the folder of the program, and behind an interpreter without that of its script: where
 * they lie takes the room in which one tells them apart. Other words stay as they are. Cut to size,
 * between characters.
 */
void command_shorten(const char *command, char *ret, size_t size);

#endif
