#include "daemon/phase_box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/phase_params.h"
#include "sources/sources.h"

/* A marker has some 1,600 bytes at most: 256 characters, each escaped. */
#define CHUNK_BYTES 65536
#define MAX_MARKS 512 /* of a chunk; the rest is the next one's */

void phase_box_open(struct phase_box *box)
{
	char path[64];

	box->fd = memfd_create("proctor-phases", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), box->fd);
	if (box->fd < 0 || setenv(PHASE_BOX_VARIABLE, path, 1) < 0)
		unsetenv(PHASE_BOX_VARIABLE); /* of a job that starts this one */
}

void phase_box_close(struct phase_box *box)
{
	close_fd(&box->fd);
}

/* Marks of a chunk, with the values that their names are of. */
struct batch {
	struct phase_mark marks[MAX_MARKS];
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

static void take_line(struct batch *batch, const char *line, size_t n, int64_t attempt_id,
		      int root_fd)
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
	batch->marks[batch->n++] = (struct phase_mark){
		.attempt_id = attempt_id,
		.is_exit = !params.enter,
		.phase = { .name = params.enter ? params.enter : params.exit,
			   .pid = (pid_t)params.pid,
			   .rank = sources_read_rank(root_fd, (pid_t)params.pid),
			   .entered_wall_ns = phase_params_wall_ns(&params),
			   .left_wall_ns = phase_params_wall_ns(&params) },
	};
}

/* Only whole lines; what is no line at all is passed over. */
static void take_lines(struct batch *batch, const char *text, size_t n, int64_t attempt_id,
		       int root_fd)
{
	const char *end;

	while (batch->n < MAX_MARKS &&
	       (end = memchr(text + batch->n_bytes, '\n', n - batch->n_bytes))) {
		const char *line = text + batch->n_bytes;

		take_line(batch, line, (size_t)(end - line), attempt_id, root_fd);
		batch->n_bytes = (size_t)(end - text) + 1;
	}
	if (batch->n_bytes == 0 && n == CHUNK_BYTES) {
		batch->n_lost++;
		batch->n_bytes = n;
	}
}

static int store_batch(struct store *store, struct batch *batch, int64_t attempt_id,
		       struct err *err)
{
	int r = batch->n > 0 ? store_mark_phases(store, batch->marks, batch->n, err) : 0;

	for (size_t i = 0; r == 0 && i < batch->n; i++)
		batch->n_lost += batch->marks[i].result == -ENOSPC;
	if (r == 0 && batch->n_lost > 0)
		r = store_add_lost_marks(store, attempt_id, batch->n_lost, err);
	return r;
}

/* 1: there may be more. */
static int empty_some(struct phase_box *box, struct store *store, int64_t attempt_id, int root_fd,
		      struct err *err)
{
	CLEANUP(batch_cleanup) struct batch *batch = calloc(1, sizeof(*batch));
	CLEANUP(free_ptr) char *text = malloc(CHUNK_BYTES);
	ssize_t n;
	int r;

	if (!batch || !text)
		return err_set(err, -ENOMEM, "no memory left for phases");
	n = pread(box->fd, text, CHUNK_BYTES, box->at);
	if (n <= 0)
		return 0;
	take_lines(batch, text, (size_t)n, attempt_id, root_fd);
	if (batch->n_bytes == 0)
		return 0;
	r = store_batch(store, batch, attempt_id, err);
	if (r < 0)
		return r;
	box->at += (off_t)batch->n_bytes;
	/* Its memory is given back; without that it is only larger. */
	(void)fallocate(box->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, box->at);
	return 1;
}

int phase_box_empty(struct phase_box *box, struct store *store, int64_t attempt_id, int root_fd,
		    struct err *err)
{
	int r = 1;

	while (box->fd >= 0 && r > 0)
		r = empty_some(box, store, attempt_id, root_fd, err);
	return r < 0 ? r : 0;
}
