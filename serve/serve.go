// Package serve puts a room that a Go program has made on the network, as the
// command toolroom serve does with the room of a config.
package serve

import (
	"context"
	"io"
	"net"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/room"
)

// Options say how to serve; zero ones are those of the room's config.
type Options struct {
	// Listen is the address; empty is server.listen of the config, 127.0.0.1:7070
	// where that says nothing.
	Listen string
	// Started is called with the address once requests are taken; may be nil.
	Started func(net.Addr)
	// Client is who the one client of [Stdio] is; over HTTP each request says so.
	Client toolroom.Identity
	// Version is what clients are told of this program.
	Version string
}

// HTTP serves MCP at /mcp, the API at /api/v1 and what else docs/mcp.md names,
// until ctx ends; calls that are under way have ten seconds more. It starts the
// room. Do not call it twice for one room.
func HTTP(ctx context.Context, r *room.Room, o Options) error {
	return server.Serve(ctx, r, o.server(r))
}

// Stdio serves MCP to one client on a pair of streams, until the first has ended
// or ctx has: what MCP clients start by themselves. Nothing else may write to
// the second. It starts the room.
func Stdio(ctx context.Context, r *room.Room, in io.ReadCloser, out io.WriteCloser, o Options) error {
	return server.ServeStdio(ctx, r, in, out, o.server(r))
}

func (o Options) server(r *room.Room) server.Options {
	return server.Options{Listen: o.Listen, Client: o.Client, Started: o.Started, Version: o.Version, Log: r.Parts().Log}
}
