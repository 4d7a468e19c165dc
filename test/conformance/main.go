// Command conformance is Toolroom with the fixtures that the MCP conformance suite requires
// of a server. The fixtures are an ordinary source: each call of the suite passes the whole
// pipeline and has a receipt.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	home := flag.String("home", "", "folder of the state; empty is a temporary one")
	config := flag.String("config", "", "toolroom.yaml to read")
	stdio := flag.Bool("stdio", false, "serve one client on stdin and stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *home, *config, *stdio); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, home, config string, stdio bool) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := app.Open(ctx, app.Options{Home: home, ConfigFile: config, Log: log, Version: "conformance"})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.AddSource(namespace, newPack(), app.SourceOptions{Plain: true}); err != nil {
		return err
	}
	o := server.Options{Listen: listen, Version: "conformance", Log: log, Started: func(addr net.Addr) {
		fmt.Printf("http://%s/mcp\n", addr)
	}}
	if stdio {
		return server.ServeStdio(ctx, r, os.Stdin, os.Stdout, o)
	}
	return server.Serve(ctx, r, o)
}
