package mcpserver

// KeepAlive is keepAlive, for tests.
var KeepAlive = keepAlive
