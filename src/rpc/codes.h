/*
 * codes - JSON-RPC error codes, and the negative errno that each stands for.
 *
 * Inside proctor errors are a negative errno with a sentence (base/err.h). On
 * the socket they are a code with a message. This table is the only place that
 * knows both; docs/rpc.md explains the codes to other programs.
 */
#ifndef PROCTOR_RPC_CODES_H
#define PROCTOR_RPC_CODES_H

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	RPC_NOT_ALLOWED = -32000,
	RPC_NOT_FOUND = -32001,
	RPC_BUSY = -32002,
	RPC_TOO_LARGE = -32003,
	RPC_TOO_MANY_CLIENTS = -32004,
	RPC_TIMED_OUT = -32005,
	RPC_EXISTS = -32006,
	RPC_NOT_SUPPORTED = -32007,
	RPC_ENDING = -32008,
};

/* Of a negative errno; RPC_INTERNAL_ERROR for one that has no code of its own. */
enum rpc_code rpc_code_of(int error);

/* The negative errno that a code from the socket stands for; -EREMOTEIO for an unknown one. */
int rpc_errno_of(long long code);

/* What a code means, in a few words: the message where there is no sentence. */
const char *rpc_code_meaning(enum rpc_code code);

#endif
