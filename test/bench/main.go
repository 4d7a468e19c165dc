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
)

func main() {
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
	flag.StringVar(&o.only, "only", "", "measure only the parts whose titles contain this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		switch *role {
		case "":
			return measure(ctx, o)
		case "upstream":
			return serve(ctx, upstream(*tools))
		case "stdio":
			return stdioUpstream()
		case "proxy":
			return plainProxy(ctx, *target)
		case "sdk":
			return sdkProxy(ctx, *target, *sessions)
		case "toolroom":
			return toolroom(ctx, *target, *sources)
		}
		return fmt.Errorf("there is no role %q", *role)
	}()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
