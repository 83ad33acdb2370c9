#include "fuzz_text.h"

#include <strings.h>

#include "web/session.h"

/* The first line is a Host header, the second an Origin, the rest a Cookie. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char *rest = text, *host = strsep(&rest, "\n");
	char *origin = rest ? strsep(&rest, "\n") : NULL;
	char secret[SECRET_CHARS + 1] = "";
	bool is_local = host_is_local(host);

	/* A name that is not ours stays so whatever the port. */
	if (is_local && strncasecmp(host, "localhost", 9) != 0 && host[0] != '1' && host[0] != '[')
		abort();
	if (origin && origin_is_own(origin, host) &&
	    strlen(origin) != strlen("http://") + strlen(host))
		abort();
	if (rest && cookie_find(rest, "proctor_9797", secret) &&
	    (strlen(secret) != SECRET_CHARS || !strstr(rest, secret)))
		abort();
	free(text);
	return 0;
}
