#include "model/syscall_text.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "base/unknown.h"

#define NAME_MAX_BYTES 64
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789_"

static void write_number(struct buf *out, uint64_t v)
{
	if (u64_known(v))
		buf_printf(out, " %llu", (unsigned long long)v);
	else
		buf_add_str(out, " -");
}

void syscall_text_write(struct buf *out, const struct syscall_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%s%s", i > 0 ? ";" : "", uses[i].name);
		write_number(out, uses[i].count);
		write_number(out, uses[i].errors);
		write_number(out, uses[i].cpu_ns);
		write_number(out, uses[i].wait_ns);
	}
}

static int read_number(const char **at, uint64_t *ret)
{
	if (*(*at)++ != ' ')
		return -EBADMSG;
	if (**at != '-')
		return num_scan_u64(at, ret) < 0 ? -EBADMSG : 0;
	(*at)++;
	*ret = U64_UNKNOWN;
	return 0;
}

static int read_use(const char **at, struct arena *arena, struct syscall_use *ret)
{
	uint64_t *const numbers[] = { &ret->count, &ret->errors, &ret->cpu_ns, &ret->wait_ns };
	size_t len = strspn(*at, NAME_CHARS);
	int r = len == 0 || len > NAME_MAX_BYTES ? -EBADMSG : 0;

	ret->name = r == 0 ? arena_strndup(arena, *at, len) : NULL;
	if (r == 0 && !ret->name)
		return -ENOMEM;
	*at += len;
	for (size_t i = 0; r == 0 && i < 4; i++)
		r = read_number(at, numbers[i]);
	return r;
}

static size_t count_uses(const char *text)
{
	size_t n = *text != '\0';

	for (; *text; text++)
		n += *text == ';';
	return n;
}

int syscall_text_read(const char *text, struct arena *arena, struct syscall_use **ret,
		      size_t *ret_n)
{
	size_t n = count_uses(text);
	struct syscall_use *uses = arena_alloc(arena, (n + 1) * sizeof(*uses));

	if (!uses)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int r = read_use(&text, arena, &uses[i]);

		if (r < 0)
			return r;
		if (*text != (i + 1 < n ? ';' : '\0'))
			return -EBADMSG;
		text += i + 1 < n;
	}
	*ret = uses;
	*ret_n = n;
	return 0;
}
