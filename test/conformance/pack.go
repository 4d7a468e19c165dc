package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

const namespace = "conformance"

// fixture is a tool of the suite.
type fixture struct {
	description string
	schema      string
	task        toolroom.TaskSupport
	asksFirst   bool
	call        func(ctx context.Context, req *source.Request) (*source.Output, error)
}

// pack is the source of all fixtures.
type pack struct {
	tools   map[string]fixture
	prompts map[string]promptFixture

	mu        sync.Mutex
	changed   func()
	transient map[string]bool // the fixtures that a change has added
	watching  map[string]context.CancelFunc
	updated   func(uri string, params json.RawMessage)
}

func newPack() *pack {
	p := &pack{transient: map[string]bool{}, watching: map[string]context.CancelFunc{}}
	p.tools = map[string]fixture{}
	for _, set := range []map[string]fixture{contentTools(), questionTools(), roundTools(), taskTools(), p.changeTools()} {
		for name, f := range set {
			p.tools[name] = f
		}
	}
	p.prompts = promptFixtures()
	return p
}

// Tools lists the fixtures.
func (p *pack) Tools(context.Context) ([]toolroom.Tool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	yes := true
	tools := make([]toolroom.Tool, 0, len(p.tools)+1)
	for name, f := range p.tools {
		schema := f.schema
		if schema == "" {
			schema = `{"type":"object"}`
		}
		tools = append(tools, toolroom.Tool{
			ID: toolroom.ID{Namespace: namespace, Name: name}, Description: f.description,
			InputSchema: json.RawMessage(schema), Source: toolroom.SourceBuiltin, Task: f.task, AsksFirst: f.asksFirst,
			Hints: toolroom.Hints{Idempotent: &yes},
		})
	}
	if p.transient["tool"] {
		tools = append(tools, toolroom.Tool{
			ID: toolroom.ID{Namespace: namespace, Name: "transient"}, Description: "Comes and goes.", Source: toolroom.SourceBuiltin,
		})
	}
	return tools, nil
}

// Call runs a fixture.
func (p *pack) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	f, ok := p.tools[req.Tool.Name]
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no fixture %s", req.Tool)
	}
	return f.call(ctx, req)
}

// Close stops the updates of watched resources.
func (p *pack) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uri, stop := range p.watching {
		stop()
		delete(p.watching, uri)
	}
	return nil
}

var (
	_ source.Notifier = (*pack)(nil)
	_ source.Library  = (*pack)(nil)
)

// Notify sets the functions that are called for changes.
func (p *pack) Notify(e source.Events) { p.changed, p.updated = e.ToolsChanged, e.ResourceChanged }

// changeTools returns the tools that change the lists.
func (p *pack) changeTools() map[string]fixture {
	toggle := func(what string) func(context.Context, *source.Request) (*source.Output, error) {
		return func(context.Context, *source.Request) (*source.Output, error) {
			p.mu.Lock()
			p.transient[what] = !p.transient[what]
			p.mu.Unlock()
			p.changed()
			return text(what + " list changed"), nil
		}
	}
	return map[string]fixture{
		"test_trigger_tool_change":   {description: "Changes the list of tools.", call: toggle("tool")},
		"test_trigger_prompt_change": {description: "Changes the list of prompts.", call: toggle("prompt")},
	}
}

func text(t string) *source.Output {
	return &source.Output{Content: []toolroom.Content{toolroom.TextContent(t)}}
}

// pause waits until the time is over or the call ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
