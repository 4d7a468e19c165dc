package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// lockedJobs cannot store a result.
type lockedJobs struct{ *sqlite.Store }

func (lockedJobs) FinishJob(context.Context, string, int64, *toolroom.Result, time.Time) error {
	return errors.New("the database is locked")
}

func TestARunThatWaitedAndWhoseResultCannotBeStoredIsAnswered(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Confirm: []string{"file.delete"}}})
	if err != nil {
		t.Fatal(err)
	}
	funcs, approvals := &gofunc.Source{}, approval.New(store, approval.Options{Terms: func(string) toolroom.ApprovalTerms { return toolroom.ApprovalTerms{Approvers: []string{"boss"}} }})
	runner := run.New(run.Options{Catalog: catalog.New(catalog.Options{}), Policy: layers, Approvals: approvals, Owner: "test", Jobs: lockedJobs{store}, Keys: store})
	for _, id := range []string{"count:it", "file:delete"} {
		tool := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo}
		funcs.Put(gofunc.Func{Tool: tool, Handler: value(`5`)})
		if err := runner.Catalog.Register(id, funcs, tool); err != nil {
			t.Fatal(err)
		}
	}
	s, err := mcpserver.New(mcpserver.Options{Runner: runner, Approvals: approvals, Worker: run.NewWorker(runner, run.WorkerOptions{}), Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	asked := runner.Run(t.Context(), toolroom.Call{Tool: "file:delete", NoWait: true})
	question := asked.Error.Approval
	job, err := runner.Submit(t.Context(), toolroom.Call{Tool: "count:it"})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.ContinueProgram(t.Context(), job.ID, question); !r.OK() || string(r.Value) != "5" {
		t.Errorf("got %s, %v", r.Status, r.Error)
	}
}

func TestAPanicInServingARequestIsAnErrorOfTheRequest(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	if err := f.server.RecoverPanic(func() error { panic("boom") }); err == nil {
		t.Error("a panic is no error")
	}
	f.add("panic:it", func(context.Context, *source.Request) (*source.Output, error) {
		return nil, &toolroom.Error{Code: toolroom.CodeUpstreamError, Message: "no", Details: map[string]any{"bad": unwritable{}}}
	})
	for _, version := range []string{modern, legacy} {
		r, err := f.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "panic__it"})
		if err == nil {
			_, err = json.Marshal(r)
		}
		if err != nil || !r.IsError {
			t.Errorf("%s: got %+v, %v", version, r, err)
		}
	}
}

// unwritable cannot be written as JSON.
type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) { panic("unwritable") }
