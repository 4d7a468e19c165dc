package mcp

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// Clients show models the results of tools, and seldom the errors of the protocol.
func TestWhatAToolDoesNotFindIsItsResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  toolroom.Code
		phase toolroom.Phase
		want  bool
	}{
		{toolroom.CodeNotFound, toolroom.PhaseExecute, false},
		{toolroom.CodeNotFound, toolroom.PhaseResolve, true},
		{toolroom.CodeToolNotFound, toolroom.PhaseResolve, true},
		{toolroom.CodeExecutionFailed, toolroom.PhaseExecute, false},
	} {
		if got := isProtocolError(&toolroom.Error{Code: c.code, Phase: c.phase}, "2025-11-25"); got != c.want {
			t.Errorf("%s in %s: %t", c.code, c.phase, got)
		}
	}
}

// Interfaces of models refuse an empty text, so that the next request of the model would fail.
func TestNoAnswerHasAnEmptyText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"stdout":""}`: `{"stdout":""}`,
		`""`:            `""`,
		"":              "The call has succeeded and returned no content.",
	} {
		r := &toolroom.Result{Value: []byte(value), Content: []toolroom.Content{toolroom.TextContent("")}}
		out, err := convertResult(r, "2025-11-25", nil)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := json.Marshal(out.members)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(sent); !strings.Contains(got, strconv.Quote(want)) {
			t.Errorf("%q: %s", value, got)
		}
	}
}

func TestAChunkOfTextIsShownAsItIsRead(t *testing.T) {
	t.Parallel()
	for chunk, want := range map[string]string{
		`"two\nlines, \"quoted\""`: "two\nlines, \"quoted\"", `{"n":1}`: `{"n":1}`, `5`: "5", `{"stream":"stdout","text":"printed"}`: "printed",
	} {
		if got := chunkText(json.RawMessage(chunk)); got != want {
			t.Errorf("%s is shown as %q", chunk, got)
		}
	}
}
