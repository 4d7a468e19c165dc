// Package launch starts a program inside the namespaces of a network jail. The server
// starts the launcher there; it mounts, hands the proxy's socket to the server, gives up
// its rights and executes the program. It is apart from package netjail because the small
// binary of guests, which starts sooner, contains it too.
package launch

import "github.com/toolroom/toolroom/internal/lockdown"

// Arg is the first argument of a binary that runs as the launcher: its main must call
// [Main].
const Arg = "__netjail"

// Order is what the launcher reads from its socket before it begins.
type Order struct {
	HostNetwork, Guarded bool
	Binds                []lockdown.Bind
}

// Message is what the launcher sends on its socket, as JSON. With Proxy it carries the
// listening socket. The end of the stream means that the program has been executed.
type Message struct {
	Proxy bool   `json:"proxy,omitempty"`
	Error string `json:"error,omitempty"`
	// Missing means that the program does not exist.
	Missing bool `json:"missing,omitempty"`
}
