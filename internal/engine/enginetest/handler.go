package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
)

// callHandler is the call handler of the suite's programs. Its tools are
//
//	math:add(a, b)      the sum
//	echo:value(value)   its argument
//	fail:always()       an error
//	slow:wait()         waits until it is cancelled
//	slow:meet(count)    waits until count calls are under way at once
//	slow:person()       waits for a person's slow answer
type callHandler struct {
	mu        sync.Mutex
	calls     []string
	stdout    strings.Builder
	stderr    strings.Builder
	progress  []string
	logs      []string
	artifacts map[string][]byte
	types     map[string]string // media types, by artifact
	cancelled int
	askTime   time.Duration

	meeting int
	met     chan struct{}
	whenMet func() // nil for nothing
}

func newCallHandler() *callHandler {
	return &callHandler{artifacts: map[string][]byte{}, types: map[string]string{}, met: make(chan struct{})}
}

// tools returns the tools of the call handler, as a program sees them.
func tools() []bridge.Tool {
	tool := func(namespace, name string, parameters ...bridge.Parameter) bridge.Tool {
		return bridge.Tool{
			ID: namespace + ":" + name, Path: []string{namespace, name}, Globals: [][]string{{namespace, name}},
			Kind: "go", Parameters: parameters, Doc: "A tool of the suite.",
		}
	}
	number := func(name string) bridge.Parameter {
		return bridge.Parameter{Name: name, Type: "number", Required: true}
	}
	git := tool("git", "status", bridge.Parameter{Name: "short", Type: "boolean"}, bridge.Parameter{Name: "_", Type: "array"})
	git.Kind, git.Open, git.Globals = "cli", true, [][]string{{"cli", "git", "status"}}
	compose := tool("docker_compose", "docker_compose")
	compose.Kind, compose.Open, compose.Globals = "cli", true, [][]string{{"cli", "uname"}, {"cli", "docker-compose"}}
	return []bridge.Tool{
		compose,
		tool("math", "add", number("a"), number("b")),
		tool("echo", "value", bridge.Parameter{Name: "value", Required: true}),
		tool("paint", "wall", bridge.Parameter{Name: "colour", Type: "string", Values: []string{"red", "dark green"}}),
		tool("fail", "always"),
		tool("slow", "wait"),
		tool("slow", "person"),
		tool("slow", "meet", number("count")),
		git,
	}
}

func (r *callHandler) Call(ctx context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	r.mu.Lock()
	r.calls = append(r.calls, tool)
	r.mu.Unlock()
	switch tool {
	case "math:add":
		a, aok := arguments.Get("a").(int64)
		b, bok := arguments.Get("b").(int64)
		if !aok || !bok {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a and b must be integers, got %v", arguments)
		}
		return a + b, nil
	case "echo:value":
		return arguments.Get("value"), nil
	case "fail:always":
		e := toolroom.Errorf(toolroom.CodeUpstreamError, "it always fails").WithHint("do not call it")
		e.Tool, e.Phase, e.Retryable = tool, toolroom.PhaseExecute, true
		return nil, e
	case "slow:wait":
		<-ctx.Done()
		r.mu.Lock()
		r.cancelled++
		r.mu.Unlock()
		return nil, context.Cause(ctx)
	case "slow:person":
		resume := deadline.Pause(ctx)
		defer resume()
		select {
		case <-time.After(r.askTime):
			return "yes", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case "slow:meet":
		return r.meet(ctx, int(arguments.Int("count")))
	case "docker_compose:docker_compose":
		words, _ := arguments.Get("_").([]bridge.Value)
		return bridge.Map{{Key: "stdout", Value: fmt.Sprint(arguments.Get("s"), words)}, {Key: "stderr", Value: ""}, {Key: "exit_code", Value: int64(0)}, {Key: "ok", Value: true}}, nil
	case "git:version", "git:rev_parse", "git:git":
		return bridge.Map{{Key: "stdout", Value: "2.0"}, {Key: "stderr", Value: ""}, {Key: "exit_code", Value: int64(0)}, {Key: "ok", Value: true}}, nil
	case "git:status":
		if words, ok := arguments.Get("_").([]bridge.Value); ok {
			text := make([]string, len(words))
			for i, word := range words {
				text[i] = fmt.Sprint(word)
			}
			return bridge.Map{{Key: "stdout", Value: strings.Join(text, "|")}, {Key: "stderr", Value: ""}, {Key: "exit_code", Value: int64(0)}, {Key: "ok", Value: true}}, nil
		}
		return bridge.Map{{Key: "stdout", Value: " M a\n?? b\n"}, {Key: "stderr", Value: ""}, {Key: "exit_code", Value: int64(0)}, {Key: "ok", Value: true}}, nil
	}
	return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", tool)
}

func (r *callHandler) meet(ctx context.Context, count int) (bridge.Value, error) {
	r.mu.Lock()
	r.meeting++
	if r.meeting == count {
		if r.whenMet != nil {
			r.whenMet()
		}
		close(r.met)
	}
	r.mu.Unlock()
	select {
	case <-r.met:
		return "met", nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *callHandler) Chain(_ context.Context, steps []bridge.Value) (bridge.Value, error) {
	return int64(len(steps)), nil
}

func (r *callHandler) Search(_ context.Context, query string, limit int) (bridge.Value, error) {
	return []bridge.Value{bridge.Map{{Key: "id", Value: "math:add"}, {Key: "query", Value: query}, {Key: "limit", Value: int64(limit)}}}, nil
}

func (r *callHandler) Describe(_ context.Context, tool, level string) (bridge.Value, error) {
	return bridge.Map{{Key: "id", Value: tool}, {Key: "level", Value: level}}, nil
}

func (r *callHandler) Put(_ context.Context, name, mediaType string, data []byte) (bridge.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("artifact:%s", name)
	r.artifacts[id] = data
	r.types[id] = mediaType
	return bridge.Handle{ID: id, MediaType: mediaType, Size: int64(len(data))}, nil
}

func (r *callHandler) Get(_ context.Context, handle string, offset, _ int64) ([]byte, bridge.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, ok := r.artifacts[handle]
	if !ok || offset > int64(len(data)) {
		return nil, bridge.Handle{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no artifact %s", handle)
	}
	// Return a part at a time, so that guests must repeat the request.
	part := data[offset:min(offset+4, int64(len(data)))]
	return part, bridge.Handle{ID: handle, MediaType: r.types[handle], Size: int64(len(data))}, nil
}

func (r *callHandler) Print(stream, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stream == "stderr" {
		r.stderr.WriteString(text)
		return
	}
	r.stdout.WriteString(text)
}

func (r *callHandler) Progress(done, total float64, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, fmt.Sprintf("%v/%v %s", done, total, message))
}

func (r *callHandler) Log(level, message string, _ bridge.Map) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, level+" "+message)
}
