/*
 * rpc - newline-delimited JSON-RPC 2.0 over a Unix socket: the server for the
 * daemon, a client for everything that talks to it, and JSON as it comes in.
 */
#pragma once

#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/value.h"
