package code

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/source"
)

// Function is a program that calls a function once, for a tool. Unlike a program of
// code:execute it keeps no session and is not continued by another process.
type Function struct {
	Request
	// Name is the name of the file in tracebacks. Lines is the number of lines that the
	// author has written; the lines after them call the function.
	Name  string
	Lines int
	// MapPosition maps a position in the program to one in the author's files, if it is not nil.
	MapPosition func(line, column int) (file string, fromLine, fromColumn int, ok bool)
	// Given are the program's variables.
	Given bridge.Map
	// Env and Files are the environment of a command, and the files in its folder.
	Env   []string
	Files bridge.Map
	// Output says that the value is what the program prints: text, json, or lines, each of
	// which is also a chunk. Empty means that it returns a value.
	Output string
	// Bundled is as in [bridge.Program], and StartAhead as in [engine.Job].
	Bundled, StartAhead bool
	// Tools means that the code may name tools, because the function has a context. If it is
	// not set, no names are looked up.
	Tools bool
	// Layer holds the packages that the code needs.
	Layer engine.Layer
	// Engines are the engines to try, in order, if the request names none.
	Engines []string
}

// functionOwner is the owner of all processes that run functions: they share no state, so
// callers may share the processes from which theirs are forked.
const functionOwner = "functions"

// RunFunction runs a function's program as part of the call req.
func (s *Service) RunFunction(ctx context.Context, req *source.Request, f Function) (*source.Output, error) {
	r := f.Request
	r.inputs, r.function = f.Given, &f
	if r.Engine != "" && r.Engine != "auto" || req.Engine != "" {
		return s.execute(ctx, req, &r, nil)
	}
	var out *source.Output
	var err error
	for _, name := range f.Engines {
		r.Engine = name
		out, err = s.execute(ctx, req, &r, nil)
		if code := toolroom.CodeOf(err); err == nil || out == nil || !out.Unsent || code != toolroom.CodeSandboxUnavailable && code != toolroom.CodeLimitNotEnforceable && code != toolroom.CodeInvalidArguments {
			return out, err
		}
	}
	return out, err
}

// FunctionIsolation returns the isolation in which RunFunction would run it.
func (s *Service) FunctionIsolation(ctx context.Context, req *source.Request, f Function) string {
	for _, name := range f.Engines {
		for _, e := range s.o.Engines {
			if e.Name() == name && (req.Engine == "" || req.Engine == name) {
				if p := e.Probe(ctx); p.State == "available" {
					return p.Isolation
				}
			}
		}
	}
	return ""
}

// hideWrapper returns a failure without the positions and frames of our own lines, which call
// the author's function.
func (f *Function) hideWrapper(failure *bridge.Failure) *bridge.Failure {
	made := *failure
	if f.MapPosition != nil {
		f.mapPlaces(&made)
		return &made
	}
	if made.Line > f.Lines {
		made.Line, made.Column = 0, 0
	}
	var trace strings.Builder
	skip := false
	for line := range strings.Lines(made.Trace) {
		if strings.HasPrefix(line, `  File "`) {
			var n int
			_, after, _ := strings.Cut(line, `", line `)
			_, err := fmt.Sscanf(after, "%d", &n)
			skip = err == nil && n > f.Lines
		} else if !strings.HasPrefix(line, "    ") {
			skip = false
		}
		if !skip {
			trace.WriteString(line)
		}
	}
	made.Trace = trace.String()
	return &made
}

// jsFrame matches a line of a JavaScript traceback.
var jsFrame = regexp.MustCompile(`(?m)^(    at .*?\(?)[^ (]*:(\d+):(\d+)(\)?)$\n?`)

// mapPlaces rewrites the positions in a failure to positions in the author's files.
func (f *Function) mapPlaces(failure *bridge.Failure) {
	if file, line, column, ok := f.MapPosition(failure.Line, failure.Column); ok {
		failure.File, failure.Line, failure.Column = file, line, column
	} else {
		failure.Line, failure.Column = 0, 0
	}
	failure.Trace = jsFrame.ReplaceAllStringFunc(failure.Trace, func(text string) string {
		part := jsFrame.FindStringSubmatch(text)
		line, _ := strconv.Atoi(part[2]) // digits
		column, _ := strconv.Atoi(part[3])
		file, line, column, ok := f.MapPosition(line, column)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s%s:%d:%d%s\n", part[1], file, line, column, part[4])
	})
}

// contentKey marks a value of a function that is content rather than a JSON value.
const contentKey = "$toolroom.content"

// contentOf returns the content that a function returned, if its value is content.
func contentOf(v bridge.Value) ([]toolroom.Content, bool) {
	m, ok := v.(bridge.Map)
	if !ok || len(m) != 1 || m[0].Key != contentKey {
		return nil, false
	}
	parts, ok := m[0].Value.([]bridge.Value)
	if !ok {
		return nil, false
	}
	var out []toolroom.Content
	for _, p := range parts {
		part, ok := p.(bridge.Map)
		if !ok {
			return nil, false
		}
		data, isData := part.Get("data").([]byte)
		if !isData {
			out = append(out, toolroom.Content{Type: toolroom.ContentText, Text: part.Text("text")})
			continue
		}
		out = append(out, contentOfBytes(data, part.Text("media_type")))
	}
	return out, true
}

func contentOfBytes(data []byte, mediaType string) toolroom.Content {
	if mediaType == "" {
		mediaType, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	kind := toolroom.ContentResource
	switch {
	case strings.HasPrefix(mediaType, "image/"):
		kind = toolroom.ContentImage
	case strings.HasPrefix(mediaType, "audio/"):
		kind = toolroom.ContentAudio
	}
	return toolroom.Content{Type: kind, MIMEType: mediaType, Data: data, URI: resourceURI(kind)}
}

// resourceURI returns the URI of a function's content of a kind, "" for kinds that need none.
func resourceURI(kind toolroom.ContentType) string {
	if kind == toolroom.ContentResource {
		return "toolroom://result"
	}
	return ""
}

// emitChunk sends a log entry of a streaming function as a chunk. It reports whether the
// entry is a chunk.
func (h *handler) emitChunk(level string, fields bridge.Map) bool {
	if h.function == nil || level != "chunk" {
		return false
	}
	if chunk, err := bridge.ToJSON(fields.Get("value")); err == nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(chunk)})
	}
	return true
}
