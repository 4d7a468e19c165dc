// Command bench measures the cost of a tool call over MCP through Toolroom, and compares it
// with other routes to the same server. Each route is a process of its own, so that its
// CPU time can be measured separately.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolroom/toolroom/internal/cli/start/collector"
)

func main() {
	collector.Resume() // package collector delays it in all that imports it
	role := flag.String("role", "", "what this process is: empty measures, the others are measured")
	target := flag.String("target", "", "the server that a proxy is for")
	sources := flag.Int("sources", 1, "how often Toolroom has the server")
	tools := flag.Int("tools", 1, "how many tools the server has")
	sessions := flag.Bool("sessions", false, "the go-sdk proxy has sessions")
	var o options
	flag.IntVar(&o.calls, "calls", 3000, "calls for each figure")
	flag.IntVar(&o.idle, "idle", 10_000, "idle sessions of older clients")
	flag.StringVar(&o.wrk, "wrk", "", "path of wrk; empty leaves its figures out")
	flag.StringVar(&o.vegeta, "vegeta", "", "path of vegeta; empty leaves its figures out")
	flag.IntVar(&o.rate, "rate", 1000, "calls a second of the open loop")
	flag.BoolVar(&o.writes, "writes", false, "the server's tools may change something, so that each answer waits for a durable receipt")
	flag.StringVar(&o.builds, "builds", "", "compare builds of this command instead: NAME=PATH,...")
	flag.IntVar(&o.rounds, "rounds", 10, "rounds of the comparison of builds")
	flag.IntVar(&o.connections, "connections", 0, "compare builds with so many connections only; 0 means 1 and then 64")
	flag.StringVar(&o.profile, "cpuprofile", "", "file for the CPU profile of the role toolroom")
	flag.StringVar(&o.only, "only", "", "measure only the parts whose titles contain this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		switch *role {
		case "":
			if o.builds != "" {
				return compare(ctx, o)
			}
			return measure(ctx, o)
		case "upstream":
			return serve(ctx, upstream(*tools, o.writes))
		case "stdio":
			return stdioUpstream(o.writes)
		case "proxy":
			return plainProxy(ctx, *target)
		case "sdk":
			return sdkProxy(ctx, *target, *sessions)
		case "toolroom":
			return withProfile(o.profile, func() error { return serveToolroom(ctx, *target, *sources) })
		}
		return fmt.Errorf("there is no role %q", *role)
	}()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
