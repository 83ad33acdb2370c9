#include "rpc/codes.h"

#include <errno.h>
#include <stddef.h>

#include "base/macros.h"

/* A code, the errno it stands for (the first row of a code tells what it becomes on the way
 * back), and what it means. */
static const struct {
	enum rpc_code code;
	int error;
	const char *meaning;
} table[] = {
	{ RPC_PARSE_ERROR, -EBADMSG, "the line is not JSON" },
	{ RPC_INVALID_REQUEST, -EPROTO, "the line is not a request" },
	{ RPC_METHOD_NOT_FOUND, -ENOSYS, "there is no such method" },
	{ RPC_INVALID_PARAMS, -EINVAL, "the params are not what the method takes" },
	{ RPC_INVALID_PARAMS, -ERANGE, "a param is out of range" },
	{ RPC_INTERNAL_ERROR, -EIO, "something failed inside the daemon" },
	{ RPC_NOT_ALLOWED, -EACCES, "this user may not do that" },
	{ RPC_NOT_ALLOWED, -EPERM, "this user may not do that" },
	{ RPC_NOT_FOUND, -ENOENT, "there is no such thing" },
	{ RPC_NOT_FOUND, -ESRCH, "there is no such process" },
	{ RPC_BUSY, -EBUSY, "not now, later" },
	{ RPC_BUSY, -EAGAIN, "not now, later" },
	{ RPC_BUSY, -ENOSPC, "there is no room for it now" },
	{ RPC_BUSY, -EDQUOT, "there is no room for it now" },
	{ RPC_TOO_LARGE, -EMSGSIZE, "the request or its reply is too large" },
	{ RPC_TOO_MANY_CLIENTS, -EUSERS, "there are too many clients" },
	{ RPC_TIMED_OUT, -ETIMEDOUT, "that took too long" },
	{ RPC_EXISTS, -EEXIST, "that is already there" },
	{ RPC_NOT_SUPPORTED, -EOPNOTSUPP, "that cannot be done on this machine" },
	{ RPC_ENDING, -ESHUTDOWN, "the daemon is ending" },
};

enum rpc_code rpc_code_of(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].error == error)
			return table[i].code;
	return RPC_INTERNAL_ERROR;
}

int rpc_errno_of(long long code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].error;
	return -EREMOTEIO;
}

const char *rpc_code_meaning(enum rpc_code code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].meaning;
	return "something failed";
}
