package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// idleSessions opens sessions of older clients and leaves them idle.
func idleSessions(ctx context.Context, o options) error {
	up, err := start(ctx, "upstream", "")
	if err != nil {
		return err
	}
	defer up.end()
	p, err := start(ctx, "toolroom", up.url)
	if err != nil {
		return err
	}
	defer p.end()
	client := &http.Client{Transport: newTransport()}
	defer client.CloseIdleConnections()
	if _, err := load(ctx, p, legacy, 8, 500); err != nil { // warms up
		return err
	}
	before, err := p.resident()
	if err != nil {
		return err
	}
	for range o.idle {
		if _, err := openSession(ctx, client, p.url, legacy); err != nil {
			return err
		}
	}
	after, err := p.resident()
	if err != nil {
		return err
	}
	fmt.Printf("  %d sessions: %d MB resident, %d MB before them (goal: within 300 MB)\n", o.idle, after>>20, before>>20)
	return nil
}

const (
	servers        = 100
	toolsPerServer = 50
)

// manyServers starts Toolroom with many upstream servers, and lists their tools.
func manyServers(ctx context.Context, o options) error {
	up, err := start(ctx, "upstream", "", fmt.Sprintf("-tools=%d", toolsPerServer))
	if err != nil {
		return err
	}
	defer up.end()
	began := time.Now()
	p, err := start(ctx, "toolroom", up.url, fmt.Sprintf("-sources=%d", servers))
	if err != nil {
		return err
	}
	defer p.end()
	fmt.Printf("  %d servers with %d tools each: ready after %.2f s\n", servers, toolsPerServer, time.Since(began).Seconds())
	client := &http.Client{Transport: newTransport()}
	defer client.CloseIdleConnections()
	var all []time.Duration
	for range 20 {
		at := time.Now()
		tools, err := listAll(ctx, client, p.url)
		if err != nil {
			return err
		}
		if tools < servers*toolsPerServer {
			return fmt.Errorf("only %d tools are listed", tools)
		}
		all = append(all, time.Since(at))
	}
	first := all[0] // waits for the servers, and makes each definition
	slices.Sort(all)
	fmt.Printf("  all pages of the list: %.1f ms the first time, with the wait for the servers; then of %d %.1f ms at best, p50 %.1f ms (goal: 50 ms)\n", ms(first), len(all), ms(all[0]), ms(all[len(all)/2]))
	return nil
}

// listAll reads all pages and counts the tools.
func listAll(ctx context.Context, client *http.Client, to string) (tools int, err error) {
	h := headers(modern, "")
	h["Mcp-Method"] = "tools/list"
	delete(h, "Mcp-Name")
	cursor := ""
	for {
		params := strings.Replace(request(modern), `"name":"greet","arguments":{"name":"x"},`, cursor, 1)
		params = strings.Replace(params, "tools/call", "tools/list", 1)
		answer, _, err := post(ctx, client, to, `"tools":[`, params, h)
		if err != nil {
			return tools, err
		}
		tools += strings.Count(answer, `"inputSchema"`)
		_, next, more := strings.Cut(answer, `"nextCursor":"`)
		if !more {
			return tools, nil
		}
		next, _, _ = strings.Cut(next, `"`)
		cursor = `"cursor":"` + next + `",`
	}
}
