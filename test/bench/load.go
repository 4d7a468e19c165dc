package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const modern, legacy = "2026-07-28", "2025-11-25"

// request returns a call as clients of a revision make it.
func request(version string) string {
	if version == legacy {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"}}}`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`
}

// headers returns the headers of the call.
func headers(version, session string) map[string]string {
	h := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version,
	}
	if version == modern {
		h["Mcp-Method"], h["Mcp-Name"] = "tools/call", "greet"
	}
	if session != "" {
		h["Mcp-Session-Id"] = session
	}
	return h
}

// openSession begins a session, if the revision and the server have sessions.
func openSession(ctx context.Context, client *http.Client, to, version string) (session string, err error) {
	if version != legacy {
		return "", nil
	}
	_, session, err = post(ctx, client, to, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, headers(version, ""))
	if err == nil {
		_, _, err = post(ctx, client, to, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers(version, session))
	}
	return session, err
}

// load makes calls in a closed loop and checks each response.
func load(ctx context.Context, p *process, version string, connections, calls int) (figure, error) {
	client := &http.Client{Transport: newTransport()}
	defer client.CloseIdleConnections()
	sessions := make([]map[string]string, connections)
	for i := range sessions {
		session, err := openSession(ctx, client, p.url, version)
		if err != nil {
			return figure{}, err
		}
		sessions[i] = headers(version, session)
	}
	before, err := p.cpu()
	if err != nil {
		return figure{}, err
	}
	var next atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	began := time.Now()
	var work sync.WaitGroup
	for _, headers := range sessions {
		work.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil && next.Add(1) <= int64(calls) {
				at := time.Now()
				_, _, err = post(ctx, client, p.url, `"text":"hello"`, request(version), headers)
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, mine...), errors.Join(failed, err)
		})
	}
	work.Wait()
	took := time.Since(began)
	after, err := p.cpu()
	if err = errors.Join(failed, err); err != nil {
		return figure{}, err
	}
	slices.Sort(all)
	return figure{(after - before) / time.Duration(len(all)), all[len(all)/2], all[len(all)*99/100], float64(len(all)) / took.Seconds()}, nil
}

// post sends a message. It returns an error if the response does not contain want, or
// reports that the tool has failed.
func post(ctx context.Context, client *http.Client, to, want, body string, headers map[string]string) (answer, session string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	answer = string(text)
	if err == nil && (resp.StatusCode >= 300 || !strings.Contains(answer, want) || strings.Contains(answer, `"isError":true`)) {
		err = fmt.Errorf("the answer is %d %.300s", resp.StatusCode, answer)
	}
	return answer, resp.Header.Get("Mcp-Session-Id"), err
}
