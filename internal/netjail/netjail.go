// Package netjail starts programs of the operator without access to the machine's network,
// but with its files and the usual rights, less what the policy's rules forbid. On Linux
// such a program runs in its own network namespace. The only way out is an HTTP proxy
// inside, which the server serves through an egress guard:
//
//	server ── clone into a namespace ──▶ launcher (this binary)
//	   ▲                                   │ makes the proxy's socket inside,
//	   └── accepts on that socket ◀────────┘ hands it over, executes the program
//
// The environment variables HTTP_PROXY and HTTPS_PROXY tell the program about the proxy. A
// program that uses no proxy reaches nothing, not even a name server.
package netjail

import (
	"log/slog"
	"time"

	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// Arg is the first argument of a binary that runs as the launcher: its main must call
// [Main].
const Arg = "__netjail"

// Jail configures the network of a program.
type Jail struct {
	// Helper is the binary that runs as the launcher. Without it nothing can be started.
	Helper string
	// Guard decides about every connection of the program; nil allows none.
	Guard *egress.Guard
	// HostNetwork leaves the program the machine's network. Guard is not used then.
	HostNetwork bool
	// Binds are mounted over what the program sees, in order, in its own mount namespace;
	// see package restrict.
	Binds []lockdown.Bind
	// Log receives refused connections; nil discards them.
	Log *slog.Logger
}

// startTimeout bounds the time until the program has been executed.
const startTimeout = 15 * time.Second

// order is what the launcher reads from its socket before it begins.
type order struct {
	HostNetwork, Guarded bool
	Binds                []lockdown.Bind
}

// handed is a message of the launcher on its socket, as JSON. With Proxy it carries the
// listening socket. The end of the stream means that the program has been executed.
type handed struct {
	Proxy bool   `json:"proxy,omitempty"`
	Error string `json:"error,omitempty"`
	// Missing means that the program does not exist.
	Missing bool `json:"missing,omitempty"`
}
