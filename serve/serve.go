// Package serve serves a Go program's room on the network, as the command toolroom serve
// does with a configured room.
package serve

import (
	"context"
	"io"
	"net"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/room"
)

// Options configure serving. Zero fields mean the values of the room's config.
type Options struct {
	// Listen is the address. Empty means server.listen of the config, or 127.0.0.1:7070 if
	// that is not set.
	Listen string
	// Started is called with the address once requests are accepted; it may be nil.
	Started func(net.Addr)
	// Client is the identity of the one client of [Stdio]. Over HTTP each request has its
	// own.
	Client toolroom.Identity
	// Version is this program's version as clients see it.
	Version string
}

// HTTP starts the room, and serves MCP at /mcp, the API at /api/v1 and the other endpoints of
// docs/mcp.md until ctx ends. Calls in progress then have ten more seconds. Call it at most
// once for a room.
func HTTP(ctx context.Context, r *room.Room, o Options) error {
	return server.Serve(ctx, app.OfRoom(r), o.server(r))
}

// Stdio starts the room, and serves MCP to one client on a pair of streams until the input or
// ctx ends. MCP clients start such servers themselves. Nothing else may write to out.
func Stdio(ctx context.Context, r *room.Room, in io.ReadCloser, out io.WriteCloser, o Options) error {
	return server.ServeStdio(ctx, app.OfRoom(r), in, out, o.server(r))
}

func (o Options) server(r *room.Room) server.Options {
	return server.Options{Listen: o.Listen, Client: o.Client, Started: o.Started, Version: o.Version, Log: app.OfRoom(r).Parts().Log}
}
