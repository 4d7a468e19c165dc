// Package relay tests that Toolroom forwards messages byte for byte, between a client that
// sends raw MCP and a server that sends unusual messages.
package relay
