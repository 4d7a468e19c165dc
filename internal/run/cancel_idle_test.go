package run_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// A tool may cancel a background call, whose receipt is then not that of a child of the tool.
func TestACallThatAToolCancelsIsNotTheToolsOwn(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, func(o *run.Options) { o.Jobs = store })
	b.add(tool("wait:it"), value(`1`))
	job, err := b.Submit(t.Context(), toolroom.Call{Tool: "wait:it", Identity: toolroom.Identity{Subject: "ann"}, Session: "hers"})
	if err != nil {
		t.Fatal(err)
	}
	b.add(tool("stop:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		withdrawn, err := b.CancelIdle(ctx, job.ID)
		if !withdrawn {
			t.Error("it was not cancelled")
		}
		if r := b.receipts.last(); r.ID != job.ID || r.Parent != "" || r.Identity.Subject != "ann" || r.Session != "hers" {
			t.Errorf("the receipt is %+v", r)
		}
		return &source.Output{}, err
	})
	if r := b.Run(t.Context(), toolroom.Call{Tool: "stop:it", Identity: toolroom.Identity{Subject: "bob"}}); !r.OK() {
		t.Error(r.Error)
	}
}

// panickingReleases panics the first time.
type panickingReleases struct{ asked *atomic.Int64 }

func (p panickingReleases) Snapshot() run.ReleaseSnapshot {
	if p.asked.Add(1) == 1 {
		panic("releases")
	}
	return nothingReleased{}
}

type nothingReleased struct{}

func (nothingReleased) Serve(*toolroom.Call, *catalog.Entry) (*catalog.Entry, error) { return nil, nil }
func (nothingReleased) CheckUnchanged(*catalog.Entry) error                          { return nil }

func TestAJobWhoseWorkerPanickedIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	store, asked := openStore(t, filepath.Join(t.TempDir(), "db")), &atomic.Int64{}
	b := newBench(t, func(o *run.Options) { o.Jobs, o.Releases = store, panickingReleases{asked} })
	b.add(tool("work:it"), value(`1`))
	startWorker(t, b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond, Lease: 100 * time.Millisecond})
	job, err := b.Submit(t.Context(), toolroom.Call{Tool: "work:it"})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		now, err := store.Job(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == toolroom.JobDone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the job is %s, and its lease ends %s", now.State, now.Lease)
		}
	}
}
