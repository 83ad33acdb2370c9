#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/map.h"
#include "base/num.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "query/query.h"
#include "sources/sources.h"

#define MAX_DEPTH 1000 /* of a tree: parents that change while they are read could be a circle */

struct stack_args {
	const char *word;
	bool json, kernel;
};

static const struct argp_option stack_options[] = {
	CLI_OPTION("json", stack_args, json, NULL, "Print an array, one object a process"),
	CLI_OPTION("kernel", stack_args, kernel, NULL,
		   "Print the functions of the kernel that each waits in, too (root)"),
	CLI_WORD(stack_args, word, "which job or process? proctor stack JOB|PID"),
	{ 0 },
};

static const struct argp stack_argp = {
	.options = stack_options,
	.parser = cli_parse_option,
	.args_doc = "JOB|PID",
	.doc = "Shows what each process of a running job does now, or a process and all that it has "
	       "started: whether it runs, or for which lock, file, pipe, socket, thread or child it "
	       "waits. The first line names the process that explains best why the rest is not done. "
	       "Nothing is stopped or slowed.",
};

/* Marks a process and its descendants: each follows its parents, up to one that is known. */
static void mark_tree(const struct snapshot *snap, struct map *by_pid, pid_t root, bool *is_in)
{
	for (size_t i = 0; i < snap->n_processes; i++)
		if (map_put(by_pid, (uint64_t)snap->processes[i].key.pid, i) < 0)
			return;
	for (size_t i = 0; i < snap->n_processes; i++) {
		uint64_t at = i;

		for (size_t depth = 0; depth < MAX_DEPTH; depth++) {
			const struct proc_sample *p = &snap->processes[at];

			is_in[i] = p->key.pid == root;
			if (is_in[i] || !map_get(by_pid, (uint64_t)p->ppid, &at))
				break;
		}
	}
}

/* Returns how many; those of the running job, or else of the process with that number. */
static size_t choose(const struct snapshot *snap, const char *word, bool may_be_pid,
		     struct proc_key *keys)
{
	CLEANUP(map_release) struct map by_pid = { 0 };
	bool *is_in = arena_alloc((struct arena *)&snap->arena, snap->n_processes + 1);
	size_t n = 0;
	uint64_t pid;

	if (!is_in)
		return 0;
	for (size_t i = 0; i < snap->n_processes; i++) {
		const char *job_id = snap->processes[i].job_id;

		is_in[i] = job_id && strcmp(job_id, word) == 0;
		n += is_in[i];
	}
	if (n == 0 && may_be_pid && num_parse_u64(word, &pid) == 0 && pid <= INT32_MAX)
		mark_tree(snap, &by_pid, (pid_t)pid, is_in);
	n = 0;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (is_in[i] && snap->processes[i].key.pid != getpid())
			keys[n++] = snap->processes[i].key;
	return n;
}

static void print_json(int root_fd, const struct wait_state *states, size_t n, struct buf *out)
{
	const struct wait_state *worst = wait_state_pick(states, n);
	struct json j;

	json_init(&j, out);
	json_begin_array(&j);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_release) struct buf kernel = BUF_INIT;

		json_begin_object(&j);
		wait_state_write_fields(&j, &states[i]);
		sources_read_kernel_stack(root_fd, &states[i], &kernel);
		json_key_string(&j, "kernel_stack", kernel.len > 0 ? kernel.data : NULL);
		json_key_bool(&j, "explains", &states[i] == worst);
		json_end_object(&j);
	}
	json_end_array(&j);
	buf_add_char(out, '\n');
}

static void print_text(int root_fd, const struct wait_state *states, size_t n, bool kernel,
		       struct buf *out)
{
	static const struct table_column columns[] = {
		{ "    PID", COLUMN_RIGHT },
		{ "THREADS", COLUMN_RIGHT },
		{ "NAME", COLUMN_LEFT },
		{ "DOES", COLUMN_LEFT },
	};
	CLEANUP(table_release) struct table t = TABLE_INIT(columns);
	const struct wait_state *worst = wait_state_pick(states, n);

	wait_state_add_process(out, worst);
	buf_add_str(out, " is ");
	wait_state_add(out, worst);
	buf_add_char(out, '\n');
	for (size_t i = 0; i < n; i++) {
		struct buf *doing;

		buf_printf(table_cell(&t), "%d", (int)states[i].key.pid);
		buf_printf(table_cell(&t), "%zu", states[i].n_threads);
		cli_add_text(table_cell(&t), states[i].comm, sizeof(states[i].comm));
		doing = table_cell(&t);
		wait_state_add(doing, &states[i]);
		if (kernel) {
			CLEANUP(buf_release) struct buf functions = BUF_INIT;

			sources_read_kernel_stack(root_fd, &states[i], &functions);
			if (functions.len > 0)
				buf_printf(doing, "; %s", functions.data);
		}
	}
	table_print(&t, out);
}

int cli_read_waits(const char *word, bool may_be_pid, struct look *look, struct wait_state **ret,
		   size_t *ret_n, struct err *err)
{
	CLEANUP(settings_close) struct settings ctx;
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(free_ptr) struct proc_key *keys = NULL;
	struct err trouble = ERR_INIT;
	struct look_options options;
	int r;

	snapshot_init(&snap);
	r = settings_open(&ctx, err);
	if (r < 0)
		return r;
	options = (struct look_options){ .mask = ctx.mask };
	r = look_open(look, &options, err);
	cli_open_store(&ctx.paths, STORE_READ, &store, &trouble);
	if (r == 0)
		r = look_take(look, store, SNAPSHOT_JOBS, &snap, &trouble, err);
	if (r < 0)
		return r;
	keys = calloc(snap.n_processes + 1, sizeof(*keys));
	*ret = calloc(snap.n_processes + 1, sizeof(**ret));
	if (!keys || !*ret)
		return err_set(err, -ENOMEM, "out of memory");
	*ret_n = sources_read_waits(look->root_fd, keys, choose(&snap, word, may_be_pid, keys),
				    ctx.mask, *ret, NULL);
	return *ret_n > 0 ? 0
			  : err_set(err, -ESRCH,
				    "'%s' is neither a running job nor a process: \"proctor jobs\" "
				    "lists jobs",
				    word);
}

int cli_stack(int argc, char **argv)
{
	CLEANUP(look_close) struct look look = { .root_fd = -1 };
	CLEANUP(free_ptr) struct wait_state *states = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct stack_args args = { 0 };
	struct err err = ERR_INIT;
	size_t n;

	cli_parse(&stack_argp, argc, argv, 0, &args);
	if (cli_read_waits(args.word, true, &look, &states, &n, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (args.json)
		print_json(look.root_fd, states, n, &out);
	else
		print_text(look.root_fd, states, n, args.kernel, &out);
	return cli_print(&out);
}
