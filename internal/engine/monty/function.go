package monty

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// builtinCall returns the call of a function that every program has.
func (r *run) builtinCall(e protocol.Event, args []bridge.Value, kwargs bridge.Map) (*hostCall, protocol.Answer) {
	p := argumentReader{args: args, kwargs: kwargs}
	ask := func(f func() (bridge.Value, error)) (*hostCall, protocol.Answer) {
		if p.typeError != "" {
			return nil, raise("TypeError", "%s() %s", e.Name, p.typeError)
		}
		return &hostCall{do: f}, protocol.Answer{}
	}
	switch e.Name {
	case "call_tool", "run":
		id, ok := p.next("tool").(string)
		if !ok {
			return nil, raise("TypeError", `%s takes the id of a tool: %s("namespace:name", {"argument": value})`, e.Name, e.Name)
		}
		given, isMap := p.next("arguments").(bridge.Map)
		if len(args) > 1 && !isMap && args[1] != nil {
			return nil, raise("TypeError", `%s takes a dict of arguments: %s("%s", {"name": value})`, e.Name, e.Name, id)
		}
		arguments := append(append(bridge.Map{}, given...), p.kwargs...)
		return ask(func() (bridge.Value, error) { return r.h.Call(r.ctx, id, arguments) })
	case "search_tools":
		query, limit := p.text("query", ""), p.integer("limit", 10)
		return ask(func() (bridge.Value, error) { return r.h.Search(r.ctx, query, limit) })
	case "describe_tool":
		tool, level := p.text("tool", ""), p.text("level", "schema")
		return ask(func() (bridge.Value, error) { return r.h.Describe(r.ctx, tool, level) })
	case "run_chain":
		steps, _ := p.next("steps").([]bridge.Value)
		return ask(func() (bridge.Value, error) { return r.h.Chain(r.ctx, steps) })
	case "progress":
		r.h.Progress(p.float("done"), p.float("total"), p.text("message", ""))
		return nil, protocol.Answer{}
	case "log":
		message, level := p.text("message", ""), p.text("level", "info")
		r.h.Log(level, message, p.kwargs)
		return nil, protocol.Answer{}
	case program.ErrorDetails:
		return nil, protocol.Answer{Value: r.errorDetails(e.Args)}
	}
	return nil, raise("NameError", "name '%s' is not defined", e.Name)
}

// storeCall returns the call of artifacts.put, artifacts.get or results.get.
func (r *run) storeCall(s storeObject, name string, args []bridge.Value, kwargs bridge.Map) (*hostCall, protocol.Answer) {
	p := argumentReader{args: args, kwargs: kwargs}
	switch {
	case s == "artifacts" && name == "put":
		file, data, media := p.text("name", ""), p.next("data"), p.text("media_type", "")
		raw, media, err := bridge.Content(data, media)
		if err != nil {
			return nil, raise("TypeError", "artifacts.put: %v", err)
		}
		return &hostCall{do: func() (bridge.Value, error) { return r.h.Put(r.ctx, file, media, raw) }}, protocol.Answer{}
	case name == "get":
		handle := ""
		switch h := p.next("handle").(type) {
		case string:
			handle = h
		case bridge.Handle:
			handle = h.ID
		}
		q := &hostCall{do: func() (bridge.Value, error) { return r.readArtifact(handle) }}
		if s == "results" {
			q.convert = func(v bridge.Value) any {
				data, _ := v.([]byte)
				if parsed, err := bridge.FromJSON(data); err == nil {
					return parsed
				}
				return text(data)
			}
		}
		return q, protocol.Answer{}
	}
	return nil, raise("AttributeError", "%s has no function %s", s, name)
}

// readArtifact reads a whole artifact.
func (r *run) readArtifact(handle string) (bridge.Value, error) {
	whole := []byte{}
	for {
		part, h, err := r.h.Get(r.ctx, handle, int64(len(whole)), 0)
		if err != nil {
			return nil, err
		}
		whole = append(whole, part...)
		if int64(len(whole)) >= h.Size || len(part) == 0 {
			return whole, nil
		}
		if int64(len(whole)) > r.p.Limits.Memory {
			return nil, bridge.OverLimit("memory", "the artifact has %d bytes, more than the program may hold", h.Size)
		}
	}
}

// commandResult is the result of a command-line program.
type commandResult struct{ bridge.Map }

// commandObject converts the result of a command-line program to an object.
func (r *run) commandObject(v bridge.Value) any {
	m, ok := v.(bridge.Map)
	if !ok {
		return r.toProgram(v)
	}
	attrs := slices.DeleteFunc(slices.Clone(m), func(m bridge.Member) bool { return m.Key != program.Identifier(m.Key) })
	return protocol.Instance{ID: r.names.addObject(commandResult{m}), Class: commandClass, Attrs: attrs}
}

func (c commandResult) callMethod(name string, args []bridge.Value) protocol.Answer {
	switch name {
	case "text":
		return protocol.Answer{Value: c.Text("stdout")}
	case "lines":
		return protocol.Answer{Value: lines(c.Text("stdout"))}
	case "json":
		v, err := bridge.FromJSON(json.RawMessage(c.Text("stdout")))
		if err != nil {
			return raise("ValueError", "the output is no JSON: %v", err)
		}
		return protocol.Answer{Value: v}
	case "get":
		p := argumentReader{args: args}
		key, fallback := p.text("key", ""), p.next("default")
		if v := c.Get(key); v != nil {
			return protocol.Answer{Value: v}
		}
		return protocol.Answer{Value: fallback}
	}
	return raise("AttributeError", "'CommandResult' object has no attribute '%s'", name)
}

// argumentReader reads the arguments of a call in the order of its parameters.
type argumentReader struct {
	args      []bridge.Value
	kwargs    bridge.Map
	typeError string
}

// next returns and removes the argument of the next parameter, positional or by name, or nil
// if there is none.
func (p *argumentReader) next(name string) bridge.Value {
	if len(p.args) > 0 {
		v := p.args[0]
		p.args = p.args[1:]
		return v
	}
	for i, m := range p.kwargs {
		if m.Key == name {
			p.kwargs = slices.Delete(slices.Clone(p.kwargs), i, i+1)
			return m.Value
		}
	}
	return nil
}

func (p *argumentReader) text(name, fallback string) string {
	switch v := p.next(name).(type) {
	case nil:
		return fallback
	case string:
		return v
	case protocol.Opaque:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

func (p *argumentReader) integer(name string, fallback int) int {
	switch v := p.next(name).(type) {
	case nil:
	case int64:
		return int(v)
	default:
		p.typeError = "wants an integer as " + name
	}
	return fallback
}

func (p *argumentReader) float(name string) float64 {
	switch v := p.next(name).(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}
