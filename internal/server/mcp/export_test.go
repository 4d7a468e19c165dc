package mcpserver

// KeepAlive is keepAlive, for tests.
var KeepAlive = (&Server{}).keepAlive
