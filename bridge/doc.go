// Package bridge implements the protocol by which programs in a sandbox call
// tools outside it. Every engine and every sandbox driver speaks it, over any
// byte stream (pipe, Unix socket, vsock, WebSocket, container attach).
//
// A frame is a 4-byte big-endian length and a CBOR array
//
//	[kind, id, token, body]
//
// with kind and id as unsigned integers, token as bytes and body as a map.
// The guest begins with hello. The server answers with start, which carries the
// program and the token that every later frame of this run must repeat. The
// guest ends the run with done or error. In between the guest sends requests
// (call, chain, search, describe, put, get), each with its own id, which the
// server's result repeats, and notifications (print, progress, log). The server
// may send cancel. If the stream stays open, the next start begins the next run.
//
// The server uses [Accept] and [Conn.Run]. [Join] is the reference guest;
// docs/bridge.md is enough to write one in another language.
package bridge
