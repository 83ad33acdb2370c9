#include "base/settings.h"

int settings_open(struct settings *ret, struct err *err)
{
	int r;

	ret->mask = NULL;
	config_init(&ret->config);
	r = paths_find(&ret->paths, err);
	if (r == 0)
		r = config_load(ret->paths.config, &ret->config, err);
	if (r == 0)
		r = settings_place(&ret->paths, ret->paths.config, &ret->config, err);
	if (r == 0 && ret->config.mask_secrets)
		r = mask_new(ret->config.mask_patterns.items, ret->config.mask_patterns.n,
			     &ret->mask, err);
	if (r < 0)
		config_release(&ret->config);
	return r;
}

void settings_close(struct settings *s)
{
	s->mask = mask_free(s->mask);
	config_release(&s->config);
}
