package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// options configure the measurements.
type options struct {
	calls, idle, rate int
	wrk, vegeta       string
	only              string
	writes            bool
	builds, profile   string
	rounds            int
	connections       int
}

// route is one route to the server.
type route struct {
	name string
	*process
}

// measure prints all measurements: calls by each route, then the cost of many sessions and
// of many servers.
func measure(ctx context.Context, o options) error {
	for _, part := range []struct {
		title string
		do    func(context.Context, options) error
	}{
		{"clients of 2026-07-28, server over HTTP", func(ctx context.Context, o options) error { return measureCalls(ctx, o, modern, false) }},
		{"clients with sessions (2025-11-25), server over HTTP", func(ctx context.Context, o options) error { return measureCalls(ctx, o, legacy, false) }},
		{"clients of 2026-07-28, server on stdio", func(ctx context.Context, o options) error { return measureCalls(ctx, o, modern, true) }},
		{"idle sessions", idleSessions},
		{"many servers", manyServers},
	} {
		if !strings.Contains(part.title, o.only) {
			continue
		}
		fmt.Println("==", part.title)
		if err := part.do(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
	}
	return nil
}

// measureCalls measures calls by each route. It measures the plain proxy first, because the others
// are compared with it. A server on stdio has no plain proxy, so it is compared with that
// over HTTP.
func measureCalls(ctx context.Context, o options, version string, stdio bool) error {
	up, err := start(ctx, "upstream", "", fmt.Sprintf("-writes=%t", o.writes))
	if err != nil {
		return err
	}
	defer up.end()
	plain, err := start(ctx, "proxy", up.url)
	if err != nil {
		return err
	}
	defer plain.end()
	routes := []route{{"upstream alone", up}, {"plain proxy", plain}}
	target := up.url
	if stdio {
		target = onStdio
	}
	for _, r := range []struct{ name, role string }{{"go-sdk proxy", "sdk"}, {"toolroom", "toolroom"}} {
		p, err := start(ctx, r.role, target, fmt.Sprintf("-sessions=%t", version == legacy))
		if err != nil {
			return err
		}
		defer p.end()
		routes = append(routes, route{r.name, p})
	}
	for _, connections := range []int{1, 64} {
		fmt.Printf("%d connections, closed loop, %d calls for each route\n", connections, o.calls)
		var base figure
		for _, r := range routes {
			if _, err := load(ctx, r.process, version, connections, o.calls/5); err != nil { // warms up
				return fmt.Errorf("%s: %w", r.name, err)
			}
			f, err := load(ctx, r.process, version, connections, o.calls)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if r.name == "plain proxy" {
				base = f
			}
			f.print(r.name, base)
		}
		if err := runLoadGenerators(ctx, o, routes, version, connections); err != nil {
			return err
		}
	}
	return nil
}

type figure struct {
	cpu, p50, p99 time.Duration
	rate          float64
}

func (f figure) print(name string, base figure) {
	ratio := ""
	if base.cpu > 0 && f != base {
		ratio = fmt.Sprintf("  %.2f times the plain proxy's CPU, p50 %+.2f ms, p99 %+.2f ms", float64(f.cpu)/float64(base.cpu), ms(f.p50-base.p50), ms(f.p99-base.p99))
	}
	fmt.Printf("  %-15s CPU %4d µs/call  p50 %6.2f ms  p99 %6.2f ms  %6.0f calls/s%s\n", name, f.cpu.Microseconds(), ms(f.p50), ms(f.p99), f.rate, ratio)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
