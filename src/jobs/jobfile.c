#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "jobs/jobs.h"

#define RETRIES_MAX 100
#define RANKS_MAX 1024
#define SHEET_NAME_MAX 128
#define EXEC_STRING_MAX 131071 /* what the kernel takes for one argument or variable */

/* The file as it is written. A line is 0 where the key was not given. */
struct sheet_file {
	struct yaml_strings run;
	const char *name;
	const char *workdir;
	struct yaml_pairs env;
	int retries;
	double timeout_seconds;
	int on_failure;
	int ranks;
	int run_line, name_line, workdir_line, ranks_line;
};

struct limits_file {
	const char *memory;
	int pids;
	double cpus;
	int memory_line;
};

struct job_file {
	const char *job_id;
	int job_id_line;
	struct limits_file limits;
	struct yaml_items sheets;
	int sheets_line;
};

enum { ON_FAILURE_STOP, ON_FAILURE_CONTINUE };
static const char *const on_failure_choices[] = { "stop", "continue", NULL };

static const struct sheet_file sheet_defaults = {
	.timeout_seconds = F64_UNKNOWN,
	.on_failure = ON_FAILURE_STOP,
	.ranks = 1,
};

static const struct yaml_field sheet_fields[] = {
	{ .key = "run",
	  .kind = YAML_STRING_OR_STRINGS,
	  .offset = offsetof(struct sheet_file, run),
	  .line_offset = offsetof(struct sheet_file, run_line),
	  .is_required = true },
	{ .key = "name",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct sheet_file, name),
	  .line_offset = offsetof(struct sheet_file, name_line) },
	{ .key = "workdir",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct sheet_file, workdir),
	  .line_offset = offsetof(struct sheet_file, workdir_line) },
	{ .key = "env", .kind = YAML_STRING_MAP, .offset = offsetof(struct sheet_file, env) },
	{ .key = "retries",
	  .kind = YAML_INT,
	  .offset = offsetof(struct sheet_file, retries),
	  .min = 0,
	  .max = RETRIES_MAX },
	{ .key = "timeout",
	  .kind = YAML_DURATION,
	  .offset = offsetof(struct sheet_file, timeout_seconds),
	  .min = 0,
	  .max = TIMEOUT_MAX_SECONDS },
	{ .key = "on_failure",
	  .kind = YAML_CHOICE,
	  .offset = offsetof(struct sheet_file, on_failure),
	  .choices = on_failure_choices },
	{ .key = "ranks",
	  .kind = YAML_INT,
	  .offset = offsetof(struct sheet_file, ranks),
	  .line_offset = offsetof(struct sheet_file, ranks_line),
	  .min = 1,
	  .max = RANKS_MAX },
};

static const struct yaml_schema sheet_schema = {
	.what = "sheet",
	.fields = sheet_fields,
	.n_fields = ARRAY_SIZE(sheet_fields),
	.size = sizeof(struct sheet_file),
	.line_offset = SIZE_MAX,
	.defaults = &sheet_defaults,
};

static const struct yaml_field limits_fields[] = {
	{ .key = "memory",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct limits_file, memory),
	  .line_offset = offsetof(struct limits_file, memory_line) },
	{ .key = "pids",
	  .kind = YAML_INT,
	  .offset = offsetof(struct limits_file, pids),
	  .min = 1,
	  .max = JOB_PROCESSES_MAX },
	{ .key = "cpus",
	  .kind = YAML_NUMBER,
	  .offset = offsetof(struct limits_file, cpus),
	  .min = JOB_CPUS_MIN,
	  .max = JOB_CPUS_MAX },
};

static const struct limits_file limits_defaults = { .cpus = F64_UNKNOWN };

static const struct yaml_schema limits_schema = {
	.what = "limits",
	.fields = limits_fields,
	.n_fields = ARRAY_SIZE(limits_fields),
	.size = sizeof(struct limits_file),
	.line_offset = SIZE_MAX,
	.defaults = &limits_defaults,
};

static const struct job_file job_defaults = { .limits.cpus = F64_UNKNOWN };

static const struct yaml_field job_fields[] = {
	{ .key = "job_id",
	  .kind = YAML_STRING,
	  .offset = offsetof(struct job_file, job_id),
	  .line_offset = offsetof(struct job_file, job_id_line) },
	{ .key = "limits",
	  .kind = YAML_MAPPING,
	  .offset = offsetof(struct job_file, limits),
	  .item = &limits_schema },
	{ .key = "sheets",
	  .kind = YAML_MAPPINGS,
	  .offset = offsetof(struct job_file, sheets),
	  .line_offset = offsetof(struct job_file, sheets_line),
	  .is_required = true,
	  .item = &sheet_schema },
};

static const struct yaml_schema job_schema = {
	.what = "job file",
	.fields = job_fields,
	.n_fields = ARRAY_SIZE(job_fields),
	.size = sizeof(struct job_file),
	.line_offset = SIZE_MAX,
	.defaults = &job_defaults,
};

static int check_job(const struct job_file *file, const char *name, struct err *err)
{
	char quoted[UTF8_QUOTED_BYTES];

	if (file->job_id && !job_id_is_valid(file->job_id))
		return err_set(err, -EINVAL,
			       "%s:%d: %s is not a job_id; it must be 1 to %d letters, digits and "
			       "._-:/@+, beginning with neither - nor .",
			       name, file->job_id_line, utf8_quote(file->job_id, quoted),
			       JOB_ID_MAX);
	if (file->sheets.n == 0)
		return err_set(err, -EINVAL, "%s:%d: 'sheets' is empty; add a sheet: '- run: …'",
			       name, file->sheets_line);
	return 0;
}

/* is_here: the job runs here and as this user, so that its folders can be looked at. */
static int check_sheet(const struct sheet_file *sheet, const char *name, bool is_here,
		       struct err *err)
{
	char quoted[UTF8_QUOTED_BYTES];
	struct stat st;

	if (sheet->run.n == 0)
		return err_set(err, -EINVAL,
			       "%s:%d: 'run' is an empty list; name the program first", name,
			       sheet->run_line);
	if (sheet->run.items[0][0] == '\0')
		return err_set(err, -EINVAL,
			       "%s:%d: 'run' begins with an empty text; name the program first",
			       name, sheet->run.lines[0]);
	for (size_t i = 0; i < sheet->run.n; i++)
		if (strlen(sheet->run.items[i]) > EXEC_STRING_MAX)
			return err_set(err, -EINVAL,
				       "%s:%d: an argument is longer than %d bytes; put the script "
				       "into a file",
				       name, sheet->run.lines[i], EXEC_STRING_MAX);
	/* The name stands in tables and progress bars: one short line. */
	for (const char *p = sheet->name; p && *p; p++)
		if (ascii_is_control(*p) || strlen(sheet->name) > SHEET_NAME_MAX)
			return err_set(
				err, -EINVAL,
				"%s:%d: not a name for a sheet; write one line of at most %d "
				"bytes",
				name, sheet->name_line, SHEET_NAME_MAX);
	for (size_t i = 0; i < sheet->env.n; i++) {
		const struct yaml_pair *pair = &sheet->env.items[i];

		if (pair->name[0] == '\0' || strchr(pair->name, '='))
			return err_set(err, -EINVAL,
				       "%s:%d: %s is not a variable's name; write NAME: value, "
				       "with no '=' in the name",
				       name, pair->line, utf8_quote(pair->name, quoted));
		if (strlen(pair->name) + 1 + strlen(pair->value) > EXEC_STRING_MAX)
			return err_set(err, -EINVAL,
				       "%s:%d: a variable is longer than %d bytes; put its value "
				       "into a file",
				       name, pair->line, EXEC_STRING_MAX);
	}
	if (!sheet->workdir || !is_here)
		return 0;
	utf8_quote(sheet->workdir, quoted);
	if (stat(sheet->workdir, &st) < 0)
		return err_set(err, -EINVAL, "%s:%d: the workdir %s: %s; make the folder first",
			       name, sheet->workdir_line, quoted, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -EINVAL,
			       "%s:%d: the workdir %s is not a folder; name one that is", name,
			       sheet->workdir_line, quoted);
	if (access(sheet->workdir, X_OK) < 0)
		return err_set(err, -EINVAL,
			       "%s:%d: the workdir %s: %s; name one that you may enter", name,
			       sheet->workdir_line, quoted, strerror(errno));
	return 0;
}

static int make_sheet(const struct sheet_file *file, int num, struct arena *arena,
		      struct sheet_spec *ret)
{
	struct env_entry *env = arena_alloc(arena, (file->env.n + 1) * sizeof(*env));
	const char *shell[] = { "/bin/sh", "-c", NULL, NULL };

	/* A list is the argv as it stands; a text is for the shell. */
	shell[2] = file->run.items[0];
	for (size_t i = 0; env && i < file->env.n; i++)
		env[i] = (struct env_entry){ file->env.items[i].name, file->env.items[i].value };
	*ret = (struct sheet_spec){
		.num = num,
		.name = file->name,
		.argv = file->run.is_list ? file->run.items
					  : arena_memdup(arena, shell, sizeof(shell)),
		.workdir = file->workdir,
		.env = env,
		.n_env = file->env.n,
		.retries = file->retries,
		.timeout_seconds = file->timeout_seconds,
		.stop_on_failure = file->on_failure == ON_FAILURE_STOP,
		.ranks = file->ranks,
		.is_ranked = file->ranks_line != 0,
	};
	return ret->argv && ret->env ? 0 : -ENOMEM;
}

static int make_limits(const struct limits_file *file, const char *name, struct job_limits *ret,
		       struct err *err)
{
	char quoted[UTF8_QUOTED_BYTES];

	*ret = (struct job_limits)JOB_LIMITS_NONE;
	ret->cpus = file->cpus;
	if (file->pids > 0)
		ret->max_processes = (uint64_t)file->pids;
	if (file->memory && (num_parse_size(file->memory, &ret->memory_bytes) < 0 ||
			     ret->memory_bytes < JOB_MEMORY_MIN_BYTES))
		return err_set(err, -EINVAL,
			       "%s:%d: %s is not a memory limit; write at least 4M, such as 512M "
			       "or 8G",
			       name, file->memory_line, utf8_quote(file->memory, quoted));
	return 0;
}

static int make_spec(const struct job_file *file, const char *name, bool is_here,
		     struct job_spec *spec, struct err *err)
{
	const struct sheet_file *sheets = file->sheets.items;
	struct sheet_spec *specs;
	int r;

	r = check_job(file, name, err);
	if (r == 0)
		r = make_limits(&file->limits, name, &spec->limits, err);
	if (r < 0)
		return r;
	specs = arena_alloc(&spec->arena, file->sheets.n * sizeof(*specs));
	if (!specs)
		return err_set(err, -ENOMEM, "out of memory while reading %s", name);
	for (size_t i = 0; i < file->sheets.n; i++) {
		r = check_sheet(&sheets[i], name, is_here, err);
		if (r < 0)
			return r;
		r = make_sheet(&sheets[i], (int)i + 1, &spec->arena, &specs[i]);
		if (r < 0)
			return err_set(err, r, "out of memory while reading %s", name);
	}
	spec->job_id = file->job_id;
	spec->sheets = specs;
	spec->n_sheets = file->sheets.n;
	return 0;
}

int job_file_parse(const char *text, size_t len, const char *name, bool is_here,
		   struct job_spec *ret, struct err *err)
{
	struct job_file file;
	int r;

	job_spec_init(ret);
	r = text ? yaml_parse(text, len, name, &job_schema, &ret->arena, &file, err)
		 : yaml_load(name, &job_schema, &ret->arena, &file, NULL, err);
	if (r == 0)
		r = make_spec(&file, name, is_here, ret, err);
	if (r < 0)
		job_spec_release(ret);
	return r;
}

int job_file_load(const char *path, struct job_spec *ret, struct err *err)
{
	return job_file_parse(NULL, 0, path, true, ret, err);
}

/* ---- what makes two jobs the same ---- */

#define MAX_WORDS 4096

uint64_t job_spec_hash(const struct job_spec *spec, const struct mask *mask)
{
	uint64_t h = HASH_INIT;

	for (size_t i = 0; i < spec->n_sheets; i++) {
		/* Only a command that is too long to be shown whole is told apart by its raw bytes.
		 */
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		bool is_cut;
		size_t n = 0;

		mask_argv(mask, spec->sheets[i].argv, &text);
		h = hash_bytes(h, text.data, text.len + 1);
		is_cut = text.len > COMMAND_MAX_BYTES - UTF8_MAX_BYTES;
		for (; spec->sheets[i].argv[n]; n++)
			if (is_cut)
				h = hash_bytes(h, spec->sheets[i].argv[n],
					       strlen(spec->sheets[i].argv[n]) + 1);
		h = hash_bytes(h, &n, sizeof(n)); /* "a b" is not "a" "b" */
		h = hash_bytes(h, &spec->sheets[i].ranks, sizeof(spec->sheets[i].ranks));
	}
	return h;
}

/* ---- input ---- */

static void add_file(struct job_input *input, int folder_fd, const char *word)
{
	const char *equals = strchr(word, '=');
	const char *path = word[0] == '-' && equals ? equals + 1 : word;
	struct stat st;

	if (!path[0] || fstatat(folder_fd, path, &st, 0) < 0 || !S_ISREG(st.st_mode))
		return;
	if (!u64_known(input->bytes))
		*input = (struct job_input){ 0, HASH_INIT };
	input->bytes = u64_add(input->bytes, (uint64_t)st.st_size);
	input->hash = hash_bytes(input->hash, path, strlen(path) + 1);
	input->hash = hash_bytes(input->hash, &st.st_size, sizeof(st.st_size));
	input->hash = hash_bytes(input->hash, &st.st_mtim.tv_sec, sizeof(st.st_mtim.tv_sec));
	input->hash = hash_bytes(input->hash, &st.st_mtim.tv_nsec, sizeof(st.st_mtim.tv_nsec));
}

struct job_input job_spec_measure_input(const struct job_spec *spec)
{
	struct job_input input = { U64_UNKNOWN, 0 };

	for (size_t i = 0; i < spec->n_sheets; i++) {
		const struct sheet_spec *sheet = &spec->sheets[i];
		CLEANUP(close_fd) int folder_fd = -1;

		if (sheet->workdir) {
			folder_fd = open(sheet->workdir, O_PATH | O_DIRECTORY | O_CLOEXEC);
			if (folder_fd < 0)
				continue;
		}
		for (size_t k = 1; sheet->argv[0] && sheet->argv[k] && k < MAX_WORDS; k++)
			add_file(&input, folder_fd < 0 ? AT_FDCWD : folder_fd, sheet->argv[k]);
	}
	return input;
}
