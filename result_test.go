package toolroom

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestContentKeepsItsWireForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, wire string
		want       Content
	}{
		{"text", `{"type":"text","text":"hi"}`, Content{Type: ContentText, Text: "hi"}},
		{"empty text", `{"type":"text","text":""}`, Content{Type: ContentText}},
		{"image", `{"type":"image","data":"AQI=","mimeType":"image/png"}`, Content{Type: ContentImage, Data: []byte{1, 2}, MIMEType: "image/png"}},
		{"audio", `{"type":"audio","data":"AQI=","mimeType":"audio/wav"}`, Content{Type: ContentAudio, Data: []byte{1, 2}, MIMEType: "audio/wav"}},
		{"resource", `{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"x"}}`, Content{Type: ContentResource, URI: "a:b", MIMEType: "text/plain", Text: "x"}},
		{"binary resource", `{"type":"resource","resource":{"uri":"a:b","blob":"AQI="}}`, Content{Type: ContentResource, URI: "a:b", Data: []byte{1, 2}}},
		{"link", `{"type":"resource_link","mimeType":"text/plain","uri":"a:b"}`, Content{Type: ContentResourceLink, URI: "a:b", MIMEType: "text/plain"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var read Content
			if err := json.Unmarshal([]byte(tt.wire), &read); err != nil {
				t.Fatal(err)
			}
			if string(read.Raw) != tt.wire {
				t.Errorf("Raw is %s", read.Raw)
			}
			read.Raw = nil
			if diff := cmp.Diff(tt.want, read); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			written, err := json.Marshal(read)
			if err != nil {
				t.Fatal(err)
			}
			if string(written) != tt.wire {
				t.Errorf("made anew it is %s", written)
			}
		})
	}
}

func TestContentThatIsNotKnownGoesOutAsItCame(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{
		`{"type":"text","text":"hi","annotations":{"priority":1},"_meta":{"n":9007199254740993}}`,
		`{"type":"hologram","data":{"x":1},"text":["not","a","string"],"resource":"r"}`,
		`{"type":"tool_use","id":"1","name":"n","input":{}}`,
		`{"type":"","text":7}`,
	} {
		var list []Content
		if err := json.Unmarshal([]byte("["+wire+"]"), &list); err != nil {
			t.Errorf("%s: %v", wire, err)
			continue
		}
		if written, err := json.Marshal(list); err != nil || string(written) != "["+wire+"]" {
			t.Errorf("%s went out as %s, %v", wire, written, err)
		}
	}
}

func TestContentOfAnotherShapeIsAnError(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{`7`, `[]`, `{"type":7}`, `{"type":"text","text":7}`, `{"type":"image","data":"not base64!"}`, `{"type":"resource","resource":7}`} {
		var c Content
		if err := json.Unmarshal([]byte(wire), &c); err == nil {
			t.Errorf("%s was read as %+v", wire, c)
		}
	}
}

func FuzzContentJSON(f *testing.F) {
	f.Add([]byte(`{"type":"text","text":"hi"}`))
	f.Add([]byte(`{"type":"resource","resource":{"uri":"a:b","blob":"AQI="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Content
		if json.Unmarshal(data, &c) != nil {
			return
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, data); err != nil {
			t.Fatal(err)
		}
		if c.Raw != nil && !jsonEqual(t, written, want.Bytes()) {
			t.Fatalf("%s went out as %s", data, written)
		}
	})
}

func jsonEqual(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

// The field names are a promise to scripts: see "Fixed by name" in the design.
func TestTheResultEnvelopeHasFixedFieldNames(t *testing.T) {
	t.Parallel()
	r := Result{
		Call: "c1", Tool: "file:read", Status: StatusError, Value: json.RawMessage(`9007199254740993`),
		Content:   []Content{TextContent("hi")},
		Artifacts: []Artifact{{Handle: "h", Name: "n", MIMEType: "text/plain", Size: 1, Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Hidden:    &Hidden{Bytes: 5, Handle: "h"},
		Effects:   EffectsUnknown,
		Usage:     Usage{Queue: 1, Wait: 2, Run: 3, CPU: 4, PeakMemory: 5, BytesIn: 6, BytesOut: 7, Calls: 8, Attempts: 9, Cached: true},
		Error:     &Error{Code: CodeTimeout, Phase: PhaseExecute, Tool: "file:read", Message: "m", Retryable: true, Hint: "h", Details: map[string]any{"k": "v"}, Cause: errors.New("secret")},
		Raw:       json.RawMessage(`"never"`),
	}
	const golden = `{
  "call": "c1",
  "tool": "file:read",
  "status": "error",
  "value": 9007199254740993,
  "content": [{"type": "text", "text": "hi"}],
  "artifacts": [{"handle": "h", "name": "n", "mime_type": "text/plain", "size": 1, "expires": "2026-01-02T03:04:05Z"}],
  "hidden": {"bytes": 5, "handle": "h"},
  "effects": "unknown",
  "usage": {"queue_ns": 1, "wait_ns": 2, "run_ns": 3, "cpu_ns": 4, "peak_memory_bytes": 5, "bytes_in": 6, "bytes_out": 7, "calls": 8, "attempts": 9, "cached": true},
  "error": {"code": "timeout", "phase": "execute", "tool": "file:read", "message": "m", "retryable": true, "hint": "h", "details": {"k": "v"}}
}`
	wantJSON(t, r, golden)
	wantJSON(t, Result{Call: "c", Tool: "a:b", Status: StatusOK, Effects: EffectsDone},
		`{"call": "c", "tool": "a:b", "status": "ok", "effects": "done", "usage": {"queue_ns": 0, "run_ns": 0, "bytes_in": 0, "bytes_out": 0}}`)
}

func wantJSON(t *testing.T, v any, golden string) {
	t.Helper()
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(golden)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDecodeGivesTheValueOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	var n json.Number
	if err := (&Result{Value: json.RawMessage(`9007199254740993`)}).Decode(&n); err != nil || n != "9007199254740993" {
		t.Errorf("a large integer: %v, %v", n, err)
	}
	if err := (&Result{}).Decode(&n); err != nil {
		t.Errorf("no value: %v", err)
	}
	failed := &Result{Status: StatusError, Error: Errorf(CodeTimeout, "slow"), Value: json.RawMessage(`1`)}
	if err := failed.Decode(&n); CodeOf(err) != CodeTimeout || failed.Err() == nil || failed.OK() {
		t.Errorf("a failed call: %v", err)
	}
	cut := &Result{Tool: "a:b", Value: json.RawMessage(`"x"`), Hidden: &Hidden{Bytes: 5, Handle: "h1"}}
	if err := cut.Decode(&n); err == nil || !strings.Contains(err.Error(), "h1") {
		t.Errorf("a cut value: %v, want the handle of the whole", err)
	}
	if err := (&Result{Tool: "a:b", Value: json.RawMessage(`{}`)}).Decode(new(int)); err == nil || !strings.Contains(err.Error(), "a:b") {
		t.Errorf("another type: %v", err)
	}
	if (&Result{}).Err() != nil {
		t.Error("Err of a good result is a nil pointer in an interface")
	}
}

func TestTextPrefersContentOverValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		r    Result
		want string
	}{
		{Result{}, ""},
		{Result{Value: json.RawMessage(`"a\nb"`)}, "a\nb"},
		{Result{Value: json.RawMessage(`{"a":1}`)}, `{"a":1}`},
		{Result{Value: json.RawMessage(`1`), Content: []Content{TextContent("x"), {Type: ContentImage}, TextContent("y")}}, "x\ny"},
		{Result{Value: json.RawMessage(`1`), Content: []Content{{Type: ContentImage}}}, "1"},
		{Result{Value: json.RawMessage(`1`), Content: []Content{TextContent("")}}, ""},
	} {
		if got := tt.r.Text(); got != tt.want {
			t.Errorf("Text of %+v = %q, want %q", tt.r, got, tt.want)
		}
	}
}
