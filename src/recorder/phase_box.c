#include "recorder/phase_box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/job.h"
#include "sources/sources.h"

/* ---- what a marker has ---- */

#define MAX_UNIX_SECONDS 9e9 /* in the 23rd century, and as nanoseconds below 2^63 */

const struct rpc_field phase_fields[N_PHASE_FIELDS] = {
	{ "enter", RPC_STRING, offsetof(struct phase_params, enter), .is_required = false },
	{ "exit", RPC_STRING, offsetof(struct phase_params, exit), .is_required = false },
	{ "pid", RPC_U64, offsetof(struct phase_params, pid), .min = 1, .max = INT_MAX },
	{ "at", RPC_F64, offsetof(struct phase_params, at), .min = 0, .max = MAX_UNIX_SECONDS },
	{ "lost", RPC_U64, offsetof(struct phase_params, lost), .min = 0, .max = INT_MAX },
};

void phase_params_init(struct phase_params *params)
{
	*params = (struct phase_params){ .pid = U64_UNKNOWN, .at = F64_UNKNOWN };
}

int phase_params_check(const struct phase_params *params, struct err *err)
{
	const char *name = params->enter ? params->enter : params->exit;
	char quoted[UTF8_QUOTED_BYTES];

	if (!name && params->lost > 0)
		return 0;
	if (!params->enter == !params->exit)
		return err_set(err, -EINVAL, "either 'enter' or 'exit' names a phase");
	if (phase_name_is_valid(name))
		return 0;
	utf8_quote(name, quoted);
	return err_set(
		err, -EINVAL,
		"%s cannot be the name of a phase: up to %d characters, and none that controls "
		"a terminal",
		quoted, PHASE_NAME_MAX);
}

/* A marker may have waited where it was made. */
uint64_t phase_params_wall_ns(const struct phase_params *params)
{
	uint64_t now_ns = clock_wall_ns();

	if (isnan(params->at) || params->at * 1e9 >= (double)now_ns)
		return now_ns;
	return (uint64_t)(params->at * 1e9);
}

/* ---- the box ---- */

/* A marker has some 1,600 bytes at most: 256 characters, each escaped. */
#define CHUNK_BYTES 65536
#define MAX_MARKS 512 /* of a chunk; the rest is the next one's */

void phase_box_open(struct phase_box *box)
{
	char path[64], self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self)); /* our number there */

	box->fd = memfd_create("proctor-phases", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%.*s/fd/%d", (int)n, self, box->fd);
	if (n <= 0 || box->fd < 0 || setenv(PHASE_BOX_VARIABLE, path, 1) < 0)
		unsetenv(PHASE_BOX_VARIABLE); /* of a job that starts this one */
}

void phase_box_close(struct phase_box *box)
{
	close_fd(&box->fd);
}

/* Marks of a chunk, with the values that their names are of. */
struct batch {
	struct phase_change marks[MAX_MARKS];
	struct rpc_value *values[MAX_MARKS];
	size_t n;
	uint64_t n_lost; /* that are none, or that their sender had no room for */
	size_t n_bytes;	 /* that were looked at */
};

static void batch_cleanup(struct batch **batch)
{
	for (size_t i = 0; *batch && i < (*batch)->n; i++)
		rpc_value_free((*batch)->values[i]);
	free(*batch);
}

static int read_line(const char *line, size_t n, struct rpc_value **ret_value,
		     struct phase_params *ret)
{
	static const struct rpc_value_limits limits = { .max_depth = 4, .max_values = 16 };
	int r = rpc_value_parse(line, n, &limits, ret_value, NULL);

	phase_params_init(ret);
	if (r == 0)
		r = rpc_fields_read(rpc_value_get(*ret_value, "params"), phase_fields,
				    N_PHASE_FIELDS, ret, NULL);
	return r < 0 ? r : phase_params_check(ret, NULL);
}

static void take_line(struct batch *batch, const char *line, size_t n, int root_fd)
{
	struct rpc_value *value = NULL;
	struct phase_params params;
	int r = read_line(line, n, &value, &params);
	bool is_named = r == 0 && (params.enter || params.exit);
	bool is_mark = is_named && u64_known(params.pid);

	batch->n_lost += r == 0 ? params.lost : 0;
	batch->n_lost += r < 0 || is_named != is_mark;
	if (!is_mark) {
		rpc_value_free(value);
		return;
	}
	batch->values[batch->n] = value;
	batch->marks[batch->n++] = (struct phase_change){
		.is_exit = !params.enter,
		.phase = { .name = params.enter ? params.enter : params.exit,
			   .pid = (pid_t)params.pid,
			   .rank = sources_read_rank(root_fd, (pid_t)params.pid),
			   .entered_wall_ns = phase_params_wall_ns(&params),
			   .left_wall_ns = phase_params_wall_ns(&params) },
	};
}

/* Only whole lines; what is no line at all is passed over. */
static void take_lines(struct batch *batch, const char *text, size_t n, int root_fd)
{
	const char *end;

	while (batch->n < MAX_MARKS &&
	       (end = memchr(text + batch->n_bytes, '\n', n - batch->n_bytes))) {
		const char *line = text + batch->n_bytes;

		take_line(batch, line, (size_t)(end - line), root_fd);
		batch->n_bytes = (size_t)(end - text) + 1;
	}
	if (batch->n_bytes == 0 && n == CHUNK_BYTES) {
		batch->n_lost++;
		batch->n_bytes = n;
	}
}

/* False: there is no more, or no memory now. */
static bool read_some(struct phase_box *box, int root_fd, phase_box_fn *fn, void *ctx)
{
	bool has_more = lseek(box->fd, 0, SEEK_END) > box->at;
	CLEANUP(batch_cleanup) struct batch *batch = has_more ? calloc(1, sizeof(*batch)) : NULL;
	CLEANUP(free_ptr) char *text = has_more ? malloc(CHUNK_BYTES) : NULL;
	ssize_t n;

	if (!batch || !text)
		return false;
	n = pread(box->fd, text, CHUNK_BYTES, box->at);
	if (n <= 0)
		return false;
	take_lines(batch, text, (size_t)n, root_fd);
	if (batch->n_bytes == 0)
		return false;
	if (batch->n > 0 || batch->n_lost > 0)
		fn(ctx, batch->marks, batch->n, batch->n_lost);
	box->at += (off_t)batch->n_bytes;
	/* Its memory is given back; without that it is only larger. */
	(void)fallocate(box->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, box->at);
	return true;
}

void phase_box_read(struct phase_box *box, int root_fd, phase_box_fn *fn, void *ctx)
{
	while (box->fd >= 0 && read_some(box, root_fd, fn, ctx))
		;
}
