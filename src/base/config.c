#include "base/config.h"

#include <errno.h>
#include <stdint.h>

#include "base/mask.h"
#include "base/utf8.h"
#include "base/yaml.h"

#define MIB (UINT64_C(1024) * 1024)
#define MAX_BYTES (MIB * MIB * 1024) /* 1 PiB: more is a slip of the finger */
#define MAX_DAYS 3650

/* The file as it is written; struct config is what came of it. */
struct config_file {
	double interval_seconds;
	bool mask_secrets;
	struct yaml_strings mask_patterns;
	const char *jsonl_path;
	int jsonl_path_line;
	uint64_t jsonl_max_bytes;
	struct config_retention retention;
};

static const struct config_file defaults = {
	.interval_seconds = 1,
	.mask_secrets = true,
	.jsonl_path = "proctor.jsonl",
	.jsonl_max_bytes = 50 * MIB,
	.retention = {
		.full_resolution_hours = 24,
		.downsampled_days = 7,
		.events_days = 30,
		.max_bytes = 1024 * MIB,
	},
};

static const struct yaml_field retention_fields[] = {
	{ .key = "full_resolution_hours",
	  .kind = YAML_INT,
	  .offset = offsetof(struct config_retention, full_resolution_hours),
	  .min = 1,
	  .max = MAX_DAYS * 24 },
	{ .key = "downsampled_days",
	  .kind = YAML_INT,
	  .offset = offsetof(struct config_retention, downsampled_days),
	  .min = 1,
	  .max = MAX_DAYS },
	{ .key = "events_days",
	  .kind = YAML_INT,
	  .offset = offsetof(struct config_retention, events_days),
	  .min = 1,
	  .max = MAX_DAYS },
	{ .key = "max_bytes",
	  .kind = YAML_U64,
	  .offset = offsetof(struct config_retention, max_bytes),
	  .min = 16 * MIB,
	  .max = MAX_BYTES,
	  .zero_means = "no limit" },
};

static const struct yaml_schema retention_schema = {
	.what = "retention mapping",
	.fields = retention_fields,
	.n_fields = ARRAY_SIZE(retention_fields),
	.size = sizeof(struct config_retention),
	.line_offset = SIZE_MAX,
	.defaults = &defaults.retention,
};

static const struct yaml_field fields[] = {
	{ .key = "interval_seconds",
	  .kind = YAML_NUMBER,
	  .offset = offsetof(struct config_file, interval_seconds),
	  .min = 0.1,
	  .max = 300 },
	{ .key = "mask_secrets",
	  .kind = YAML_BOOL,
	  .offset = offsetof(struct config_file, mask_secrets) },
	{ .key = "mask_patterns",
	  .kind = YAML_STRINGS,
	  .offset = offsetof(struct config_file, mask_patterns) },
	{ .key = "jsonl_path",
	  .kind = YAML_STRING_OR_NONE,
	  .offset = offsetof(struct config_file, jsonl_path),
	  .line_offset = offsetof(struct config_file, jsonl_path_line) },
	{ .key = "jsonl_max_bytes",
	  .kind = YAML_U64,
	  .offset = offsetof(struct config_file, jsonl_max_bytes),
	  .min = MIB,
	  .max = MAX_BYTES },
	{ .key = "retention",
	  .kind = YAML_MAPPING,
	  .offset = offsetof(struct config_file, retention),
	  .item = &retention_schema },
};

static const struct yaml_schema schema = {
	.what = "configuration",
	.fields = fields,
	.n_fields = ARRAY_SIZE(fields),
	.size = sizeof(struct config_file),
	.line_offset = SIZE_MAX,
	.defaults = &defaults,
};

/* Its texts are borrowed: from the arena of c, or from the defaults. */
static void take_file(struct config *c, const struct config_file *file)
{
	c->interval_seconds = file->interval_seconds;
	c->mask_secrets = file->mask_secrets;
	c->mask_patterns = file->mask_patterns.items;
	c->n_mask_patterns = file->mask_patterns.n;
	c->jsonl_path = file->jsonl_path;
	c->jsonl_max_bytes = file->jsonl_max_bytes;
	c->retention = file->retention;
}

void config_init(struct config *c)
{
	*c = (struct config){ .arena = ARENA_INIT };
	take_file(c, &defaults);
}

void config_release(struct config *c)
{
	arena_release(&c->arena);
	config_init(c);
}

/* One by one, so that the message can name the line. */
static int check_patterns(const char *path, const struct yaml_strings *patterns, struct err *err)
{
	struct mask *mask = NULL;
	struct err why = ERR_INIT;
	int r;

	for (size_t i = 0; i < patterns->n; i++) {
		r = mask_new(&patterns->items[i], 1, &mask, &why);
		if (r < 0)
			return err_set(err, r, "%s:%d: %s", path, patterns->lines[i], why.text);
		mask = mask_free(mask);
	}
	r = mask_new(patterns->items, patterns->n, &mask, &why);
	if (r < 0)
		return err_set(err, r, "%s:%d: %s", path, patterns->lines[0], why.text);
	mask_free(mask);
	return 0;
}

/* "~ada/x" would be a file below a folder of that name, which nobody means. */
static int check_jsonl_path(const char *path, const struct config_file *file, struct err *err)
{
	const char *given = file->jsonl_path;
	char shown[UTF8_QUOTED_BYTES];

	if (!given || given[0] != '~' || given[1] == '/')
		return 0;
	return err_set(err, -EINVAL,
		       "%s:%d: 'jsonl_path' is %s; only '~/' stands for a home: write the path out",
		       path, file->jsonl_path_line, utf8_quote(given, shown));
}

int config_load(const char *path, struct config *c, struct err *err)
{
	struct config_file file = defaults;
	int r;

	config_release(c);
	r = yaml_load(path, &schema, &c->arena, &file, err);
	if (r == -ENOENT) {
		err_set(err, 0, "%s", "");
		return 0;
	}
	if (r == 0)
		r = check_patterns(path, &file.mask_patterns, err);
	if (r == 0)
		r = check_jsonl_path(path, &file, err);
	if (r < 0) {
		config_release(c);
		return r;
	}
	take_file(c, &file);
	c->was_read = true;
	return 0;
}
