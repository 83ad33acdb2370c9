#include "fuzz_text.h"

#include "base/unknown.h"
#include "store/fold.h"

static const char *names[] = { "read", "futex", "syscall_4711" };

static bool is_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i] == name)
			return true;
	return false;
}

/* Every use must be one of the strings, and every tick's lie behind those of the tick before. */
static void tell_all(const struct fold_calls *calls)
{
	const struct syscall_use *end = NULL;

	for (unsigned tick = 0; tick < CODEC_ROWS; tick++) {
		struct proc_sample p = { 0 };

		fold_calls_tell(calls, tick, &p);
		if (!p.syscalls)
			continue;
		if (end && p.syscalls < end)
			abort();
		end = p.syscalls + p.n_syscalls;
		for (size_t i = 0; i < p.n_syscalls; i++)
			if (!is_name(p.syscalls[i].name))
				abort();
	}
}

/* The first byte says how many ticks the fold has. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fold_strings strings = { names, ARRAY_SIZE(names), 0 };
	struct arena arena = ARENA_INIT;
	struct fold_calls *calls = NULL;

	if (size > 0 && fold_calls_read(data + 1, size - 1, data[0] % (CODEC_ROWS + 1), &strings,
					&arena, &calls) == 0)
		tell_all(calls);
	arena_release(&arena);
	return 0;
}
