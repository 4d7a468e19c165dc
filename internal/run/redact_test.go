package run_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// knowing is a redactor that knows one value.
func knowing(value string) *secret.Redactor {
	m := &secret.Redactor{}
	m.Learn(map[secret.Ref]string{{Scope: "s", Name: "v"}: value})
	return m
}

// hush is what the tools of these tests try to get out.
const hush = `correct "horse"/battery+1`

// guises are the forms in which a tool may repeat a secret.
var guises = map[string]string{
	"plain":        hush,
	"base64":       base64.StdEncoding.EncodeToString([]byte("user:" + hush)),
	"base64 raw":   base64.RawURLEncoding.EncodeToString([]byte("u:" + hush + ":x")),
	"query":        url.QueryEscape(hush),
	"path":         url.PathEscape(hush),
	"JSON":         `correct \"horse\"/battery+1`,
	"JSON in JSON": `correct \\\"horse\\\"/battery+1`,
	"hex":          hex.EncodeToString([]byte(hush)),
}

// traces are parts of the guises that no redacted text has.
var traces = []string{"battery", "horse", "YmF0dGVy", "hdHRlcn", "iYXR0ZX", "62617474657279"}

func TestNoChannelOfACallLetsASecretOut(t *testing.T) {
	t.Parallel()
	quoted := func(text string) json.RawMessage {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	channels := map[string]func(req *source.Request, text string) (*source.Output, error){
		"value": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Value: quoted(text)}, nil
		},
		"member and its name": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Value: json.RawMessage(`{"a":[` + string(quoted(text)) + `],` + string(quoted(text)) + `:1}`)}, nil
		},
		"content": func(_ *source.Request, text string) (*source.Output, error) {
			raw := json.RawMessage(`{"type":"text","text":` + string(quoted(text)) + `}`)
			return &source.Output{
				Content: []toolroom.Content{{Type: toolroom.ContentText, Text: text, Raw: raw}},
				Raw:     json.RawMessage(`{"content":[` + string(raw) + `]}`),
			}, nil
		},
		"resource": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Content: []toolroom.Content{{Type: toolroom.ContentResource, URI: "x://" + text, Data: []byte(text)}}}, nil
		},
		"execution": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Execution: &toolroom.Execution{
				Stdout: text, Stderr: text, Calls: []toolroom.ExecutionCall{{Tool: "a:b", Arguments: quoted(text)}},
			}}, nil
		},
		"failed output": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent(text)}}, nil
		},
		"error": func(_ *source.Request, text string) (*source.Output, error) { return nil, errors.New(text) },
		"typed error": func(_ *source.Request, text string) (*source.Output, error) {
			return nil, &toolroom.Error{
				Code: toolroom.CodeUpstreamError, Message: text, Hint: text, Cause: errors.New(text),
				Details: map[string]any{"body": text, "list": []string{text}},
			}
		},
		"panic": func(_ *source.Request, text string) (*source.Output, error) { panic(text) },
		"long result": func(_ *source.Request, text string) (*source.Output, error) {
			return &source.Output{Value: quoted(strings.Repeat("x", 51_200*3/4-10) + text + strings.Repeat("y", 51_200))}, nil
		},
		"chunks": func(req *source.Request, text string) (*source.Output, error) {
			for _, c := range "- " + text + " -" {
				req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: quoted(string(c))})
			}
			return &source.Output{}, nil
		},
		"log and progress": func(req *source.Request, text string) (*source.Output, error) {
			req.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Message: text, Data: quoted(text)}})
			req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Message: text}})
			return &source.Output{}, nil
		},
		"raw log and progress": func(req *source.Request, text string) (*source.Output, error) {
			req.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Raw: quoted(text)}})
			req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Raw: quoted(text)}})
			return &source.Output{}, nil
		},
		"question": func(req *source.Request, text string) (*source.Output, error) {
			q := source.Question{Method: source.MethodElicit, Params: quoted(text), Sent: quoted(text), Round: quoted(text)}
			_, err := req.Ask.Ask(t.Context(), map[string]source.Question{"q": q})
			return &source.Output{}, err
		},
	}
	for channel, leak := range channels {
		for guise, text := range guises {
			t.Run(channel+"/"+guise, func(t *testing.T) {
				t.Parallel()
				kept := newKept()
				b := newBench(t, func(o *run.Options) { o.Secrets, o.Artifacts = knowing(hush), kept })
				b.add(tool("leaky:it"), func(_ context.Context, req *source.Request) (*source.Output, error) { return leak(req, text) })
				watch := b.Bus.Subscribe(nil)
				defer watch.Close()
				var out, asked bytes.Buffer // the tool asks while the events are read
				var chunks strings.Builder
				ctx := run.WithClient(t.Context(), nil, overheard{Buffer: &asked}, 0)
				for e := range b.Stream(ctx, toolroom.Call{Tool: "leaky:it", Arguments: json.RawMessage(`{"key":` + string(quoted(text)) + `}`)}) {
					fmt.Fprintf(&out, "%s %s %s\n", encode(t, e), chunkText(e), raw(e))
					chunks.WriteString(chunkText(e))
					if e.Result != nil && e.Result.Error != nil {
						fmt.Fprintln(&out, e.Result.Error, e.Result.Error.Cause, e.Result.Error.Hint)
					}
					if e.Result != nil {
						fmt.Fprintf(&out, "%s\n", e.Result.Raw)
						for _, c := range e.Result.Content {
							fmt.Fprintf(&out, "%s %s\n", c.Data, c.Raw)
						}
					}
				}
				events, _, err := watch.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					fmt.Fprintf(&out, "%s %s\n", encode(t, e), raw(e))
				}
				fmt.Fprintf(&out, "%s\n%s\n%s\n%s", asked.String(), chunks.String(), encode(t, b.receipts.last()), kept)
				for _, trace := range traces {
					if strings.Contains(out.String(), trace) {
						t.Errorf("%q is left:\n%s", trace, &out)
					}
				}
				if channel == "chunks" && !strings.Contains(chunks.String(), "[secret s/v]") {
					t.Errorf("chunks say %q", &chunks)
				}
			})
		}
	}
}

// overheard answers questions, and writes down what was asked.
type overheard struct {
	source.NoAsker
	*bytes.Buffer
}

func (overheard) Can(string) bool { return true }

func (o overheard) Ask(_ context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	for key, q := range questions {
		fmt.Fprintf(o, "%s %s %s\n", q.Params, q.Sent, q.Round)
		answers[key] = json.RawMessage(`{"action":"decline"}`)
	}
	return answers, nil
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// raw is what an event repeats of its source and JSON leaves out.
func raw(e toolroom.Event) json.RawMessage {
	switch {
	case e.Log != nil:
		return e.Log.Raw
	case e.Progress != nil:
		return e.Progress.Raw
	}
	return nil
}

func chunkText(e toolroom.Event) string {
	var text string
	if json.Unmarshal(e.Chunk, &text) != nil {
		return string(e.Chunk)
	}
	return text
}

func TestAResultWithoutSecretsKeepsItsBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Secrets = knowing(hush) })
	want := source.Output{
		Value:   json.RawMessage(`{"n": 9007199254740993.0, "e":"\u00e9\/",  "z":1,"a":2}`),
		Content: []toolroom.Content{{Type: toolroom.ContentImage, Data: []byte{0, 1, 0xff}, Raw: json.RawMessage(`{"type" : "image"}`)}},
		Raw:     json.RawMessage(`{ "content" : [] }`),
	}
	b.add(tool("plain:it"), func(context.Context, *source.Request) (*source.Output, error) { return &want, nil })
	got := b.Run(t.Context(), toolroom.Call{Tool: "plain:it"})
	if diff := cmp.Diff([]any{string(want.Value), want.Content, string(want.Raw)}, []any{string(got.Value), got.Content, string(got.Raw)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnOutputThatQuotesASecretStillFitsItsSchema(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Secrets = knowing("31415926") })
	x := tool("pin:it")
	x.OutputSchema = json.RawMessage(`{"type":"object","properties":{"pin":{"type":"integer"}}}`)
	b.add(x, value(`{"pin":31415926}`))
	got := b.Run(t.Context(), toolroom.Call{Tool: "pin:it"})
	if got.Error != nil || string(got.Value) != `{"pin":"[secret s/v]"}` {
		t.Errorf("got %s, %v", got.Value, got.Error)
	}
	x = tool("pin:bad")
	x.OutputSchema = json.RawMessage(`{"type":"object","properties":{"pin":{"const":"x"}}}`)
	b.add(x, value(`{"pin":"31415926"}`))
	if got := b.Run(t.Context(), toolroom.Call{Tool: "pin:bad"}); toolroom.CodeOf(got.Error) != toolroom.CodeInvalidOutput || strings.Contains(encode(t, got), "3141") {
		t.Errorf("got %s", encode(t, got))
	}
}

// keptResults remembers the bytes of artifacts.
type keptResults struct {
	mu  *sync.Mutex
	all *bytes.Buffer
}

func newKept() keptResults { return keptResults{&sync.Mutex{}, &bytes.Buffer{}} }

func (k keptResults) PutResult(_ context.Context, _, _, _ string, data []byte, _ bool) (toolroom.Artifact, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all.Write(data)
	return toolroom.Artifact{Handle: "art_1", Size: int64(len(data))}, nil
}

func (k keptResults) String() string { return k.all.String() }

// A program that prints a secret in two pieces reports a warning in between.
func TestASecretInAStreamIsRedactedAcrossChunksOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Secrets = knowing(hush) })
	for name, c := range map[string]struct{ chunks, want []string }{
		"interrupted": {
			[]string{`{"stream":"stdout","text":"a corr"}`, `{"stream":"stderr","text":"warn"}`, `{"stream":"stdout","text":"ect \"horse\"/battery+1 b"}`, `{"stream":"stderr","text":"ing"}`},
			[]string{`{"stream":"stderr","text":"warn"}`, `{"stream":"stdout","text":"a [secret s/v]"}`, `{"stream":"stdout","text":" b"}`, `{"stream":"stderr","text":"ing"}`},
		},
		"over two streams": {
			[]string{`{"stream":"stdout","text":"correct \"horse\"/"}`, `{"stream":"stderr","text":"battery+1"}`},
			[]string{`{"stream":"stdout","text":"[secret s/v]"}`, `{"stream":"stderr","text":""}`},
		},
		"at the end": {
			[]string{`{"stream":"stdout","text":"corr"}`, `{"stream":"stderr","text":"correct"}`},
			[]string{`{"stream":"stderr","text":"correct"}`, `{"stream":"stdout","text":"corr"}`},
		},
	} {
		id := "print:" + strings.ReplaceAll(name, " ", "_")
		b.add(tool(id), func(_ context.Context, req *source.Request) (*source.Output, error) {
			for _, chunk := range c.chunks {
				req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(chunk)})
			}
			return &source.Output{}, nil
		})
		var got []string
		for e := range b.Stream(t.Context(), toolroom.Call{Tool: id}) {
			if e.Kind == toolroom.EventChunk {
				got = append(got, string(e.Chunk))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
