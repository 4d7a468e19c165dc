package app_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/source"
)

type fixed struct{ tool toolroom.Tool }

func (f fixed) Describe() source.Description { return source.Description{Kind: f.tool.Source} }

func (f fixed) Tools(context.Context) ([]toolroom.Tool, error) { return []toolroom.Tool{f.tool}, nil }

func (f fixed) Call(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Content: []toolroom.Content{toolroom.TextContent("source")}}, nil
}

func (f fixed) Close() error { return nil }

type nothing struct{}

func answering(text string) func(context.Context, nothing) (string, error) {
	return func(context.Context, nothing) (string, error) { return text, nil }
}

func TestTheProgramSelectsWhichSourceServesATool(t *testing.T) {
	t.Parallel()
	mail := fixed{toolroom.Tool{ID: toolroom.ID{Namespace: "mail", Name: "send"}, Description: "Send a mail.", Source: toolroom.SourceMCP}}
	for name, c := range map[string]struct {
		choose func([]source.Offer) int
		want   string
	}{
		"by default the function":   {nil, "function"},
		"the choice of the program": {func(o []source.Offer) int { return last(o) }, "source"},
		"an index that is none":     {func([]source.Offer) int { return 7 }, "function"},
		"a choice that panics":      {func([]source.Offer) int { panic("no") }, "function"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, app.Options{Select: c.choose})
			if err := app.Register(r, "mail:send", "Send a mail.", answering("function")); err != nil {
				t.Fatal(err)
			}
			if err := r.AddSource("mail", mail, app.SourceOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.Run(t.Context(), toolroom.Call{Tool: "mail:send"}).Text(); got != c.want {
				t.Errorf("the call was served by the %s", got)
			}
		})
	}
}

func last(offers []source.Offer) int {
	for i, o := range offers {
		if o.Source == "mail" {
			return i
		}
	}
	return -1
}

func TestAProgramMakesToolsWhenTheyAreMissed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	r := open(t, app.Options{Missing: func(_ context.Context, r *app.App, name string) error {
		asked.Add(1)
		switch name {
		case "late:tool":
			return app.Register(r, name, "It comes when it is called.", answering("here"))
		case "broken:tool":
			return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the directory is down")
		case "panics:tool":
			panic("a bug")
		}
		return nil
	}})
	for name, want := range map[string]toolroom.Code{
		"late:tool": "", "broken:tool": toolroom.CodeUpstreamUnavailable, "panics:tool": toolroom.CodeInternal, "other:tool": toolroom.CodeToolNotFound,
	} {
		if got := toolroom.CodeOf(r.Run(t.Context(), toolroom.Call{Tool: name}).Err()); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	before := asked.Load()
	if r.Run(t.Context(), toolroom.Call{Tool: "late:tool"}).Err() != nil || asked.Load() != before {
		t.Error("a tool that is there was asked for again")
	}
}

func TestAProgramHearsOfChanges(t *testing.T) {
	t.Parallel()
	r := open(t, app.Options{})
	heard := make(chan toolroom.Change, 10)
	stop := r.OnChange(func(changes []toolroom.Change) {
		for _, c := range changes {
			heard <- c
		}
	})
	defer stop()
	id := toolroom.ID{Namespace: "a", Name: "b"}
	if err := errors.Join(app.Register(r, "a:b", "One.", answering("1")), app.Replace(r, "a:b", "Two.", answering("2"))); err != nil {
		t.Fatal(err)
	}
	r.Unregister("a:b")
	var got []toolroom.Change
	for range 3 {
		got = append(got, <-heard)
	}
	want := []toolroom.Change{{Kind: toolroom.ChangeRegistered, ID: id}, {Kind: toolroom.ChangeUpdated, ID: id}, {Kind: toolroom.ChangeRemoved, ID: id}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
