#include "base/settings.h"

int settings_open_loosely(struct settings *ret, struct buf *slips, struct err *err)
{
	int r;

	ret->mask = NULL;
	config_init(&ret->config);
	r = paths_find(&ret->paths, err);
	if (r == 0)
		r = config_load_loosely(ret->paths.config, &ret->config, slips, err);
	if (r == 0)
		r = settings_place(&ret->paths, ret->paths.config, &ret->config, err);
	if (r == 0 && ret->config.mask_secrets)
		r = mask_new(ret->config.mask_patterns.items, ret->config.mask_patterns.n,
			     &ret->mask, err);
	if (r < 0)
		config_release(&ret->config);
	return r;
}

int settings_open(struct settings *ret, struct err *err)
{
	return settings_open_loosely(ret, NULL, err);
}

void settings_close(struct settings *s)
{
	s->mask = mask_free(s->mask);
	config_release(&s->config);
}
