// Package bridge is the stream by which code inside a sandbox calls tools
// outside it: one protocol for every engine and every sandbox driver, over any
// byte stream (pipe, Unix socket, vsock, WebSocket, container attach).
//
// A frame is a 4-byte big-endian length and a CBOR array
//
//	[kind, id, token, body]
//
// with kind and id as unsigned integers, token as bytes and body as a map.
// The guest begins with hello; the host answers with start, which carries the
// program and the token that every later frame of this run must repeat; the
// guest ends the run with done or error. In between it asks (call, chain,
// search, describe, put, get), each question with an id of its own that the
// host's result repeats, and tells (print, progress, log). The host may send
// cancel. On a stream that is kept, the next start begins the next run.
//
// Host side: [Accept] and [Conn.Run]. Guest side: [Join] is the reference
// guest; docs/bridge.md is enough to write one in another language.
package bridge
