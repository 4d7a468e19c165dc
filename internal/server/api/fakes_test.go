package api_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
)

func notFound(what string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "there is no %s", what)
}

// memory holds everything that a store does, in maps.
type memory struct {
	grants    []*toolroom.Grant
	mu        sync.Mutex
	receipts  []*toolroom.Receipt
	unready   error
	jobs      map[string]*run.Job
	keys      map[string]run.KeyRecord
	approvals []*toolroom.Approval
}

func newMemory() *memory {
	return &memory{jobs: map[string]*run.Job{}, keys: map[string]run.KeyRecord{}}
}

func (m *memory) Append(_ context.Context, r *receipt.Draft) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Seq = int64(len(m.receipts) + 1)
	m.receipts = append(m.receipts, &r.Receipt)
	return nil
}

func (m *memory) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unready
}

func (m *memory) Flush(context.Context) error { return nil }

func (m *memory) Intend(context.Context, *toolroom.Receipt, string) error { return nil }

func (m *memory) Receipt(_ context.Context, id string) (*toolroom.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.receipts {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, notFound("receipt")
}

func (m *memory) Receipts(_ context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*toolroom.Receipt
	for _, r := range slices.Backward(m.receipts) {
		if (q.Tool == "" || r.Tool == q.Tool) && (q.Subject == "" || r.Identity.Key() == q.Subject) && (q.ReachedBy == nil || identity.Reaches(*q.ReachedBy, r.Identity)) &&
			(q.Status == "" || r.Status == q.Status) && (q.BeforeSeq == 0 || r.Seq < q.BeforeSeq) && len(list) < receipt.RowLimit(q) {
			list = append(list, r)
		}
	}
	return list, nil
}

func (m *memory) ReceiptSamples(ctx context.Context, q toolroom.ReceiptQuery, see func(receipt.Sample) bool) error {
	list, err := m.Receipts(ctx, q)
	for _, r := range slices.Backward(list) {
		one := receipt.Sample{Seq: r.Seq, Call: r.ID, Tool: r.Tool, Subject: r.Identity.Key(), Surface: r.Surface, Status: r.Status, Started: r.Started, Queue: r.Usage.Queue, Run: r.Usage.Run}
		if !see(one) {
			break
		}
	}
	return err
}

func (m *memory) CreateJob(_ context.Context, j *run.Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := *j
	m.jobs[j.ID] = &stored
	return nil
}

func (m *memory) Job(_ context.Context, id string) (*run.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j, ok := m.jobs[id]; ok {
		found := *j
		return &found, nil
	}
	return nil, notFound("job")
}

func (m *memory) ListJobs(_ context.Context, owner string, limit int) ([]*run.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*run.Job
	for _, j := range m.jobs {
		if owner == "" || j.Identity.Key() == owner {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *run.Job) int { return b.Created.Compare(a.Created) })
	return list[:min(len(list), limit)], nil
}

func (m *memory) TakeJob(context.Context, string, time.Time, time.Time) (*run.Job, error) {
	return nil, nil
}

func (m *memory) WaitJob(context.Context, string, int64, []string) error { return nil }

func (m *memory) ClaimJob(context.Context, time.Time, time.Time) (*run.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if j.State == toolroom.JobQueued {
			j.State = toolroom.JobRunning
			claimed := *j
			return &claimed, nil
		}
	}
	return nil, nil
}

func (m *memory) CancelIdleJob(_ context.Context, id string, result *toolroom.Result, now time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	if j == nil || j.State != toolroom.JobQueued {
		return false, nil
	}
	j.State, j.Result, j.Finished = toolroom.JobDone, result, now
	return true, nil
}

func (m *memory) SweepJobs(context.Context, time.Time) (int64, error) { return 0, nil }

func (m *memory) ExtendJob(context.Context, string, int64, time.Time, bool) error { return nil }

func (m *memory) FinishJob(_ context.Context, id string, _ int64, result *toolroom.Result, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	j.State, j.Result, j.Finished = toolroom.JobDone, result, now
	return nil
}

func (m *memory) ClaimKey(_ context.Context, k run.KeyRecord, _ time.Time) (run.KeyRecord, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, taken := m.keys[k.Identity+" "+k.Key]; taken {
		return held, false, nil
	}
	m.keys[k.Identity+" "+k.Key] = k
	return k, true, nil
}

func (m *memory) FinishKey(_ context.Context, identity, key, _ string, result json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[identity+" "+key]
	k.Result = result
	m.keys[identity+" "+key] = k
	return nil
}

func (m *memory) ReleaseKey(_ context.Context, identity, key, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, identity+" "+key)
	return nil
}

func (m *memory) CreateApproval(_ context.Context, a *toolroom.Approval) (*toolroom.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, open := range m.approvals {
		if open.Digest == a.Digest && approval.IsOpen(open, a.Created) {
			found := *open
			return &found, nil
		}
	}
	stored := *a
	m.approvals = append(m.approvals, &stored)
	return a, nil
}

func (m *memory) change(id string, f func(*toolroom.Approval) error) (*toolroom.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.approvals {
		if a.ID == id {
			err := f(a)
			found := *a
			return &found, err
		}
	}
	return nil, notFound("approval")
}

func (m *memory) Approval(_ context.Context, id string, _ time.Time) (*toolroom.Approval, error) {
	return m.change(id, func(*toolroom.Approval) error { return nil })
}

func (m *memory) Approvals(_ context.Context, state toolroom.ApprovalState, _ time.Time) ([]*toolroom.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*toolroom.Approval
	for _, a := range m.approvals {
		if state == "" || a.State == state {
			found := *a
			list = append(list, &found)
		}
	}
	return list, nil
}

func (m *memory) AnswerApproval(_ context.Context, id string, answer toolroom.Answer, now time.Time, grant func(*toolroom.Approval) *toolroom.Grant) (*toolroom.Approval, error) {
	return m.change(id, func(a *toolroom.Approval) error {
		err := approval.Decide(a, answer, now)
		if g := grant(a); err == nil && g != nil {
			m.grants = append(m.grants, g)
		}
		return err
	})
}

func (m *memory) CancelApproval(_ context.Context, id string, now time.Time) error {
	_, err := m.change(id, func(a *toolroom.Approval) error { approval.Cancel(a, now); return nil })
	return err
}

func (m *memory) MarkApprovalNotified(context.Context, string, string) error { return nil }

func (m *memory) ExpireApprovals(context.Context, time.Time) error { return nil }

func (m *memory) SweepApprovals(context.Context, time.Time) (int64, error) { return 0, nil }

func (m *memory) Grants(_ context.Context, tool, caller string, _ time.Time) ([]*toolroom.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.grants), func(g *toolroom.Grant) bool {
		return tool != "" && g.Tool != tool || caller != "" && approval.Caller(g.Identity) != caller
	}), nil
}

func (m *memory) RemoveGrant(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants = slices.DeleteFunc(m.grants, func(g *toolroom.Grant) bool { return g.ID == id })
	return nil
}

func (m *memory) UseApproval(_ context.Context, id string, now time.Time) error {
	_, err := m.change(id, func(a *toolroom.Approval) error { a.Used = now; return nil })
	return err
}

// files keeps artifacts in a folder of the test.
type files struct {
	dir  string
	mu   sync.Mutex
	list map[string]map[string]toolroom.Artifact // by owner and handle
}

func newFiles(dir string) *files {
	return &files{dir: dir, list: map[string]map[string]toolroom.Artifact{}}
}

func (f *files) Put(_ context.Context, owner string, _ artifact.Kind, name, mimeType string, r io.Reader) (toolroom.Artifact, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return toolroom.Artifact{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := toolroom.Artifact{Handle: "art_" + string(rune('a'+len(f.list[identity.Subject(owner)]))) + owner, Name: name, MIMEType: mimeType, Size: int64(len(body))}
	if f.list[identity.Subject(owner)] == nil {
		f.list[identity.Subject(owner)] = map[string]toolroom.Artifact{}
	}
	f.list[identity.Subject(owner)][a.Handle] = a
	return a, os.WriteFile(filepath.Join(f.dir, a.Handle), body, 0o600)
}

func (f *files) Stat(_ context.Context, owner, handle string) (toolroom.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.list[identity.Subject(owner)][handle]
	if !ok {
		return a, notFound("artifact")
	}
	return a, nil
}

func (f *files) Open(ctx context.Context, owner, handle string) (*os.File, toolroom.Artifact, error) {
	a, err := f.Stat(ctx, owner, handle)
	if err != nil {
		return nil, a, err
	}
	file, err := os.Open(filepath.Join(f.dir, handle))
	return file, a, err
}

func (f *files) OpenRedacted(ctx context.Context, owner, handle string) (io.ReadCloser, toolroom.Artifact, error) {
	return f.Open(ctx, owner, handle)
}

func (f *files) List(_ context.Context, owner string) ([]toolroom.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []toolroom.Artifact
	for _, a := range f.list[identity.Subject(owner)] {
		list = append(list, a)
	}
	return list, nil
}

func (f *files) Delete(ctx context.Context, owner, handle string) error {
	if _, err := f.Stat(ctx, owner, handle); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.list[identity.Subject(owner)], handle)
	return nil
}

func (f *files) Read(ctx context.Context, owner, handle string, o artifact.ReadOptions) (*artifact.Page, error) {
	if _, err := f.Stat(ctx, owner, handle); err != nil {
		return nil, err
	}
	body, err := os.ReadFile(filepath.Join(f.dir, handle))
	if err != nil {
		return nil, err
	}
	return &artifact.Page{Text: string(body[o.Offset : o.Offset+o.Limit])}, nil
}

// counted counts the calls whose receipts memory stores.
type counted struct {
	*memory
	metrics *api.Metrics
}

func (c counted) Append(ctx context.Context, r *receipt.Draft) error {
	c.metrics.Count(&r.Receipt)
	return c.memory.Append(ctx, r)
}
