// Package fence starts programs of the operator, with the files and rights that
// they have anyway, but without the network of the machine. A fenced program has
// a network namespace of its own on Linux; the one thing in it that leads outside
// is an HTTP proxy, which the server itself serves through an egress guard:
//
//	server ── clone into a namespace ──▶ launcher (this binary)
//	   ▲                                   │ makes the proxy's socket inside,
//	   └── accepts on that socket ◀────────┘ hands it over, executes the program
//
// The program is told of the proxy by HTTP_PROXY and HTTPS_PROXY. One that does
// not ask for proxies reaches nothing, not even a name server.
package fence

import (
	"log/slog"
	"time"

	"github.com/toolroom/toolroom/internal/egress"
)

// Arg is the first argument of a binary that is executed to be the launcher: its
// main must hand over to [Main].
const Arg = "__fence"

// Fence says what of the network a program gets.
type Fence struct {
	// Helper is the binary that becomes the launcher; empty starts nothing.
	Helper string
	// Guard judges every connection of the program; nil leaves it no way out.
	Guard *egress.Guard
	// Log hears of what was refused; nil tells nobody.
	Log *slog.Logger
}

// startTimeout bounds the time until the program is executed.
const startTimeout = 15 * time.Second

// handed is what the launcher says over its socket, as JSON; with Proxy the
// listening socket comes along. The end of the socket says that the program has
// been executed.
type handed struct {
	Proxy bool   `json:"proxy,omitempty"`
	Error string `json:"error,omitempty"`
	// Missing says that there is no such program.
	Missing bool `json:"missing,omitempty"`
}
