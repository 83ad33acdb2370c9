#include "cli/users.h"

#include <pwd.h>
#include <stdio.h>

#include "base/num.h"
#include "base/unknown.h"
#include "cli/cli.h"

uint64_t users_parse(const struct argp_state *state, const char *option, const char *text)
{
	const struct passwd *account = getpwnam(text);
	uint64_t uid = U64_UNKNOWN;

	if (account)
		return account->pw_uid;
	if (num_parse_u64(text, &uid) < 0 || uid >= UINT32_MAX)
		cli_usage_error(state, "%s wants a user of this host, not '%s'", option, text);
	return uid;
}

void users_name(uint64_t uid, char *ret, size_t size)
{
	const struct passwd *account = u64_known(uid) ? getpwuid((uid_t)uid) : NULL;

	if (account)
		snprintf(ret, size, "%s", account->pw_name);
	else if (u64_known(uid))
		snprintf(ret, size, "%llu", (unsigned long long)uid);
	else
		snprintf(ret, size, "-");
}
