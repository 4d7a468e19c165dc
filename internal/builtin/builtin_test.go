package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// What a tool has read when its call is cancelled may be a part. What it has changed is changed.
func TestAReadThatWasCancelledHasNoResult(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		x := MustTool(Spec[struct{}, int]{
			Tool: toolroom.Tool{ID: toolroom.MustParseID("a:b"), Hints: Hints(reads, false, false)},
			Run: func(context.Context, *source.Request, struct{}) (int, []toolroom.Content, error) {
				cancel()
				return 1, nil, nil
			},
		})
		p := &Pack{Name: "a", Tools: []Tool{x}}
		_, err := p.Source().Call(ctx, &source.Request{Tool: x.ID, Arguments: json.RawMessage(`{}`)})
		if errors.Is(err, context.Canceled) != reads {
			t.Errorf("a tool that only reads is %t: %v", reads, err)
		}
	}
}

// Models write whole numbers with a fraction, and JSON Schema takes them for integers.
func TestWholeNumbersAreIntegers(t *testing.T) {
	t.Parallel()
	type args struct {
		Offset int     `json:"offset"`
		Lines  []int64 `json:"lines"`
		Weight float64 `json:"weight"`
		Text   string  `json:"text"`
	}
	for raw, want := range map[string]string{
		`{"offset":2.0,"lines":[1e3,4],"weight":1.5,"text":"2.0"}`: `{"offset":2,"lines":[1000,4],"weight":1.5,"text":"2.0"}`,
		`{"offset":-3,"lines":[9007199254740993],"weight":2.0}`:    `{"offset":-3,"lines":[9007199254740993],"weight":2,"text":""}`,
		`{"offset":2.0,"lines":[9007199254740993]}`:                `{"offset":2,"lines":[9007199254740993],"weight":0,"text":""}`,
		`{"offset":2.5}`:   "",
		`{"offset":1e300}`: "",
	} {
		in, err := decode[args](json.RawMessage(raw))
		got, _ := json.Marshal(in)
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
}
