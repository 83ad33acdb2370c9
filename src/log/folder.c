#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "log/log.h"

static int folder_open(void *ctx, const char *name)
{
	const struct log_folder *f = ctx;

	return f->real.open(f->real.ctx, name);
}

static void folder_close(void *ctx, int file)
{
	const struct log_folder *f = ctx;

	f->real.close(f->real.ctx, file);
}

static ssize_t folder_pread(void *ctx, int file, void *ret, size_t n, uint64_t at)
{
	const struct log_folder *f = ctx;

	return f->real.pread(f->real.ctx, file, ret, n, at);
}

static int folder_is_locked(void *ctx, int file)
{
	const struct log_folder *f = ctx;

	return f->real.is_locked(f->real.ctx, file);
}

static int folder_remove(void *ctx, const char *name)
{
	const struct log_folder *f = ctx;

	return f->real.remove(f->real.ctx, name);
}

static int list_current(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	const struct log_folder *f = ctx;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->current->n; i++)
		r = fn(fn_ctx, f->names[f->current->first + i]);
	return r;
}

void log_folder_init(struct log_folder *f, int folder_fd)
{
	*f = (struct log_folder){ .real = log_fs_real(folder_fd) };
	f->fs = (struct log_fs){
		.ctx = f,
		.open = folder_open,
		.close = folder_close,
		.pread = folder_pread,
		.remove = folder_remove,
		.list = list_current,
		.is_locked = folder_is_locked,
	};
}

void log_folder_release(struct log_folder *f)
{
	free(f->names);
	free(f->logs);
	*f = (struct log_folder){ 0 };
}

static int add_name(void *ctx, const char *name)
{
	struct log_folder *f = ctx;
	size_t n = strlen(name);

	if (n >= LOG_NAME_BYTES || n < LOG_ID_TEXT_BYTES || name[LOG_ID_TEXT_BYTES - 1] != '.')
		return 0;
	if (ARRAY_RESERVE(f->names, f->cap_names, f->n_names + 1) < 0)
		return -ENOMEM;
	memcpy(f->names[f->n_names++], name, n + 1);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

int log_folder_list(struct log_folder *f)
{
	int r;

	f->n_names = f->n = 0;
	r = f->real.list(f->real.ctx, add_name, f);
	if (f->n_names > 0)
		qsort(f->names, f->n_names, sizeof(*f->names), compare_names);
	for (size_t i = 0; r == 0 && i < f->n_names; i++) {
		char text[LOG_ID_TEXT_BYTES];
		struct log_listed *log;

		if (i > 0 && memcmp(f->names[i - 1], f->names[i], LOG_ID_TEXT_BYTES - 1) == 0) {
			f->logs[f->n - 1].n++;
			continue;
		}
		if (ARRAY_RESERVE(f->logs, f->cap, f->n + 1) < 0)
			return -ENOMEM;
		log = &f->logs[f->n++];
		*log = (struct log_listed){ .first = i, .n = 1 };
		snprintf(text, sizeof(text), "%.*s", LOG_ID_TEXT_BYTES - 1, f->names[i]);
		if (log_id_parse(text, &log->id) < 0)
			memset(&log->id, 0, sizeof(log->id));
	}
	return r;
}
