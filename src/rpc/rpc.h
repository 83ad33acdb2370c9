/*
 * rpc - newline-delimited JSON-RPC 2.0 over a Unix socket: the server for the
 * daemon, a client for everything that talks to it, and JSON as it comes in.
 */
#ifndef PROCTOR_RPC_RPC_H
#define PROCTOR_RPC_RPC_H

#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/value.h"

#endif
