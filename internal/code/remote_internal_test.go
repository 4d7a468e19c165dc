package code

import (
	"context"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// otherRoom is another room that keeps the call.
type otherRoom struct{ call toolroom.Call }

func (e *otherRoom) Name() string { return "elsewhere" }

func (e *otherRoom) Probe(context.Context) sandbox.Probe { return sandbox.Probe{} }

func (e *otherRoom) Execute(_ context.Context, call toolroom.Call, _ func(toolroom.Event)) (*toolroom.Result, error) {
	e.call = call
	return &toolroom.Result{}, nil
}

func (e *otherRoom) Close() error { return nil }

func TestAProgramInAnotherRoomRunsInTheEnvironmentOfItsCall(t *testing.T) {
	t.Parallel()
	there := &otherRoom{}
	s := New(Options{Remote: there})
	req := &source.Request{Environment: "test", Identity: toolroom.Identity{Subject: "ann"}}
	if _, err := s.runRemote(t.Context(), req, &Request{Program: toolroom.Program{Language: "python", Code: "1"}}, ""); err != nil {
		t.Fatal(err)
	}
	if there.call.Environment != "test" || there.call.Identity.Subject != "ann" {
		t.Errorf("the call is %+v", there.call)
	}
}
