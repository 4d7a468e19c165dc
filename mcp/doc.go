// Package mcp implements the Model Context Protocol on raw JSON, for clients, servers
// and relays. It passes values byte for byte, so that members that it does not know are
// not lost. It supports revisions 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and
// 2026-07-28 over stdio, streamable HTTP and HTTP+SSE.
//
// # Clients
//
// [Connect] negotiates the protocol with a server over a [Transport], [HTTP] or
// [Stdio], and [Client.Call] makes requests. A [ClientHandler] receives the server's
// notifications, and its requests as [Question].
//
// # Servers
//
// [NewServer] returns a [Server] whose handler answers each [ServerRequest] with the
// JSON of a result. One server serves clients of all revisions: [Server.HTTP] at one
// URL, [Server.SSE] for clients of 2024-11-05, and [Server.Stdio]. The package
// handles sessions, streams and their resumption, batches, cancellation, log levels,
// subscriptions, and the headers of 2026-07-28. A response over HTTP is JSON, or a
// stream if something else is sent before the answer or the answer takes more than
// 2 s.
//
// Ambiguous messages are refused: those in which a member occurs twice, at any level,
// or differs from a member of the protocol in case only.
//
// # Revisions
//
// Before 2026-07-28, clients open a session, and servers can send them requests
// ([ServerRequest.Ask]). From then on there are no sessions, every request declares
// its client's capabilities, and a server that needs input answers with
// input_required, after which the client repeats its request. The package does not
// hide that difference: [ServerRequest.Modern] reports it.
//
// The package does not deal with tools, policy or credentials.
//
// The package is experimental: its API may change in any release.
package mcp
