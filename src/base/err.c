#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	err->fact_len = 0;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

void err_advise(struct err *err, const char *advice)
{
	if (!err)
		return;
	err->fact_len = strlen(err->text);
	snprintf(err->text + err->fact_len, sizeof(err->text) - err->fact_len, ": %s", advice);
}

size_t err_fact_len(const struct err *err)
{
	return err->fact_len ? err->fact_len : strlen(err->text);
}
