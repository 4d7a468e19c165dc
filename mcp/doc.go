// Package mcp implements the Model Context Protocol on raw JSON, for clients, servers
// and relays: values are passed byte for byte, so that nothing is lost that this
// package does not know. It speaks revisions 2024-11-05 to 2026-07-28 over stdio,
// streamable HTTP and HTTP+SSE.
//
// [Connect] negotiates the protocol with a server over a [Transport], and
// [Client.Call] makes requests. The package does not deal with tools, policy or
// credentials.
//
// The package is experimental: its API may change in any release.
package mcp
