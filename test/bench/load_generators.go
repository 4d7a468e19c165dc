package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// loadTime is how long wrk and vegeta run for one figure.
const loadTime = 3 * time.Second

// runLoadGenerators makes the same calls with wrk (closed loop) and vegeta (open loop).
func runLoadGenerators(ctx context.Context, o options, routes []route, version string, connections int) error {
	if o.wrk == "" && o.vegeta == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "toolroom-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client := &http.Client{}
	for _, r := range routes {
		session, err := openSession(ctx, client, r.url, version)
		if err != nil {
			return err
		}
		if o.wrk != "" {
			if err := runWrk(ctx, o, r, dir, version, session, connections); err != nil {
				return err
			}
		}
		if o.vegeta != "" && connections > 1 {
			if err := runVegeta(ctx, o, r, version, session, connections); err != nil {
				return err
			}
		}
	}
	return nil
}

var wrkFigures = regexp.MustCompile(`(?s)\n +50%\s+(\S+).*99%\s+(\S+).*Requests/sec:\s+(\S+)`)

func runWrk(ctx context.Context, o options, r route, dir, version, session string, connections int) error {
	// In a session no two concurrent requests may have the same id.
	head, tail, _ := strings.Cut(request(version), `"id":1`)
	script := fmt.Sprintf("wrk.method='POST'\nn=0\nfunction request() n=n+1 return wrk.format(nil,nil,nil,[[%s\"id\":]]..n..[[%s]]) end\n", head, tail)
	for name, value := range headers(version, session) {
		script += fmt.Sprintf("wrk.headers[%q]=%q\n", name, value)
	}
	// A JSON-RPC error is a success in HTTP, so check the bodies.
	script += `bad=0
function setup(t) it=t end
function response(s,h,b) if s~=200 or not string.find(b,'"text":"hello"',1,true) then bad=bad+1 end end
function done() io.write("bad answers: "..it:get("bad").."\n") end
`
	path := filepath.Join(dir, "call.lua")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, o.wrk, "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%d", int(loadTime.Seconds())), "--latency", "-s", path, r.url).CombinedOutput()
	found := wrkFigures.FindSubmatch(out)
	if err != nil || found == nil || !bytes.Contains(out, []byte("bad answers: 0\n")) {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	fmt.Printf("  %-15s wrk: p50 %s  p99 %s  %s calls/s\n", r.name, found[1], found[2], found[3])
	return nil
}

func runVegeta(ctx context.Context, o options, r route, version, session string, connections int) error {
	header := http.Header{}
	for name, value := range headers(version, session) {
		header.Set(name, value)
	}
	var targets bytes.Buffer
	lines := json.NewEncoder(&targets)
	for i := range o.rate * int(loadTime.Seconds()) {
		body := strings.Replace(request(version), `"id":1`, fmt.Sprintf(`"id":%d`, i), 1)
		if err := lines.Encode(map[string]any{"method": "POST", "url": r.url, "header": header, "body": []byte(body)}); err != nil {
			return err
		}
	}
	before, err := r.cpu()
	if err != nil {
		return err
	}
	attack := exec.CommandContext(ctx, o.vegeta, "attack", "-format=json", "-rate", fmt.Sprint(o.rate), "-duration", loadTime.String(),
		"-connections", fmt.Sprint(connections), "-max-workers", "256")
	attack.Stdin = &targets
	results, err := attack.Output()
	if err != nil {
		return fmt.Errorf("vegeta: %w", err)
	}
	after, err := r.cpu()
	if err != nil {
		return err
	}
	report := exec.CommandContext(ctx, o.vegeta, "report", "-type", "json")
	report.Stdin = bytes.NewReader(results)
	text, err := report.Output()
	if err != nil {
		return fmt.Errorf("vegeta report: %w", err)
	}
	var result struct {
		Requests  int     `json:"requests"`
		Success   float64 `json:"success"`
		Rate      float64 `json:"throughput"`
		Latencies struct {
			P50 time.Duration `json:"50th"`
			P99 time.Duration `json:"99th"`
		} `json:"latencies"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return err
	}
	if result.Success < 1 || result.Requests == 0 {
		return fmt.Errorf("vegeta: %.1f%% of %d calls succeeded by %s", 100*result.Success, result.Requests, r.name)
	}
	fmt.Printf("  %-15s vegeta, %d calls/s: CPU %d µs/call  p50 %.2f ms  p99 %.2f ms\n", r.name, o.rate, ((after - before) / time.Duration(result.Requests)).Microseconds(), ms(result.Latencies.P50), ms(result.Latencies.P99))
	return nil
}
