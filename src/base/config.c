#include "base/config.h"

#include <errno.h>
#include <stdint.h>

#include "base/mask.h"
#include "base/yaml.h"

/* The file as it is written; struct config is what came of it. */
struct config_file {
	double interval_seconds;
	bool mask_secrets;
	struct yaml_strings mask_patterns;
};

static const struct config_file defaults = {
	.interval_seconds = 1,
	.mask_secrets = true,
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
};

static const struct yaml_schema schema = {
	.what = "configuration",
	.fields = fields,
	.n_fields = ARRAY_SIZE(fields),
	.size = sizeof(struct config_file),
	.line_offset = SIZE_MAX,
	.defaults = &defaults,
};

void config_init(struct config *c)
{
	*c = (struct config){
		.interval_seconds = defaults.interval_seconds,
		.mask_secrets = defaults.mask_secrets,
		.arena = ARENA_INIT,
	};
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
	if (r < 0) {
		config_release(c);
		return r;
	}
	c->interval_seconds = file.interval_seconds;
	c->mask_secrets = file.mask_secrets;
	c->mask_patterns = file.mask_patterns.items;
	c->n_mask_patterns = file.mask_patterns.n;
	c->was_read = true;
	return 0;
}
