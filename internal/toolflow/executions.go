package toolflow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/run"
)

// executor is the name of the executor of all executions.
const executor = "toolroom"

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // zero is no version
	return n
}

// uuid returns an id of a version in the form of ToolFlow's.
func uuid(tool string, n int) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s@%d", tool, n)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// execution is a call of a function.
type execution struct {
	id, tool, status, env string
	version               int
	duration              any // milliseconds, or nil
	created, updated      time.Time
}

func (e *execution) item() map[string]any {
	var by any = executor
	if e.status == "pending" {
		by = nil
	}
	return map[string]any{
		"id": e.id, "tool_id": shortID(e.tool), "version": e.version, "executor": by, "status": e.status, "target_env": e.env,
		"duration_ms": e.duration, "created_at": formatTime(e.created), "updated_at": formatTime(e.updated),
	}
}

func receiptExecution(r *toolroom.Receipt) execution {
	e := execution{
		id: r.ID, tool: r.Tool, status: statusOf(r.Status), env: envOf(r.Environment), duration: r.Usage.Run.Milliseconds(),
		created: r.Started, updated: r.Started.Add(r.Usage.Queue + r.Usage.Run),
	}
	if r.Release != nil {
		e.version = r.Release.Version
	}
	return e
}

func statusOf(s toolroom.Status) string {
	if s == toolroom.StatusOK {
		return "success"
	}
	return "error"
}

// envOf returns the environment of a call: versions are tried in test.
func envOf(environment string) string {
	if environment == release.Draft {
		return release.Test
	}
	return cmp.Or(environment, release.Prod)
}

func jobExecution(j *run.Job) execution {
	tool, version, _ := strings.Cut(j.Call.Tool, "@")
	status := "running"
	switch {
	case j.State == toolroom.JobQueued:
		status = "pending"
	case j.Result != nil:
		status = statusOf(j.Result.Status)
	}
	return execution{id: j.ID, tool: tool, status: status, env: envOf(j.Call.Environment), version: atoi(version), created: j.Created, updated: cmp.Or(j.Finished, j.Created)}
}

// Limits of lists.
const (
	maxPage       = 200
	maxExecutions = 10_000    // newest, of which lists and totals are made
	maxReceipts   = 1_000_000 // newest receipts that are looked at
	readAtOnce    = 50_000
)

func (s *server) executions(r *http.Request, _ toolroom.Identity) (int, any, error) {
	q := r.URL.Query()
	page, err := parsePositive(q.Get("page"), 1)
	if err != nil {
		return 0, nil, newHTTPError(http.StatusBadRequest, "page must be int")
	}
	size, err := parsePositive(q.Get("page_size"), 20)
	if err != nil {
		return 0, nil, newHTTPError(http.StatusBadRequest, "page_size must be int")
	}
	size = min(size, maxPage)
	all, err := s.matchingExecutions(r.Context(), func(e *execution) bool {
		return matches(q.Get("status"), e.status) && matches(q.Get("tool_id"), shortID(e.tool)) && matches(q.Get("executor"), executor) && matches(q.Get("target_env"), e.env)
	})
	if err != nil {
		return 0, nil, err
	}
	items := []any{}
	from := min((page-1)*size, len(all))
	for _, e := range all[from:min(from+size, len(all))] {
		items = append(items, e.item())
	}
	return http.StatusOK, map[string]any{"items": items, "pagination": map[string]any{"page": page, "page_size": size, "total": len(all)}}, nil
}

func matches(want, is string) bool { return want == "" || want == is }

func parsePositive(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("not a positive number")
	}
	return n, nil
}

// matchingExecutions returns the newest executions that fit, newest first.
func (s *server) matchingExecutions(ctx context.Context, fits func(*execution) bool) ([]execution, error) {
	functions, err := s.functions(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}
	done := map[string]bool{} // whether a job has a receipt
	for _, j := range jobs {
		done[j.ID] = false
	}
	var out []execution
	see := func(one receipt.Sample) bool {
		if !functions[one.Tool] || one.Version == 0 || receipt.OutsideMetrics(one.Surface) && one.Surface != receipt.SurfaceTest {
			return true
		}
		if _, ok := done[one.Call]; ok {
			done[one.Call] = true
		}
		e := execution{
			id: one.Call, tool: one.Tool, status: statusOf(one.Status), env: envOf(one.Environment), version: one.Version, duration: one.Run.Milliseconds(),
			created: one.Started, updated: one.Started.Add(one.Queue + one.Run),
		}
		if fits(&e) {
			out = append(out, e)
		}
		return true
	}
	newest, err := s.Receipts.Receipts(ctx, toolroom.ReceiptQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	var last int64
	if len(newest) > 0 {
		last = newest[0].Seq
	}
	for to := last + 1; to > 1 && len(out) < maxExecutions && last-to < maxReceipts; to -= readAtOnce {
		if err := s.Receipts.ReceiptSamples(ctx, toolroom.ReceiptQuery{AfterSeq: max(to-1-readAtOnce, toolroom.ReceiptsFromStart), BeforeSeq: to}, see); err != nil {
			return nil, err
		}
	}
	for _, j := range jobs {
		if e := jobExecution(j); functions[e.tool] && !done[j.ID] && fits(&e) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b execution) int { return b.created.Compare(a.created) })
	return out[:min(len(out), maxExecutions)], nil
}

func (s *server) functions(ctx context.Context) (map[string]bool, error) {
	heads, err := s.Releases.Store.VersionedTools(ctx)
	functions := map[string]bool{}
	for _, h := range heads {
		functions[h.Tool] = h.Source == ""
	}
	return functions, err
}

// jobs returns the background calls that have not ended.
func (s *server) jobs(ctx context.Context) ([]*run.Job, error) {
	if s.Runner.Jobs == nil {
		return nil, nil
	}
	all, err := s.Runner.Jobs.ListJobs(ctx, "", maxExecutions)
	return slices.DeleteFunc(all, func(j *run.Job) bool { return j.State == toolroom.JobDone }), err
}

func (s *server) execution(r *http.Request, _ toolroom.Identity) (int, any, error) {
	id := r.PathValue("id")
	var job *run.Job
	if s.Runner.Jobs != nil {
		found, err := s.Runner.Jobs.Job(r.Context(), id)
		if err == nil {
			job = found
		} else if toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return 0, nil, err
		}
	}
	got, err := s.Receipts.Receipt(r.Context(), id)
	if err != nil && toolroom.CodeOf(err) != toolroom.CodeNotFound {
		return 0, nil, err
	}
	var e execution
	var input, output json.RawMessage
	var failed any
	logs := []any{}
	switch {
	case got != nil && err == nil:
		e, input, output = receiptExecution(got), got.Arguments, recordedValue(got)
		if got.Error != nil {
			failed = got.Error.Message
		}
		for i, l := range got.Logs {
			logs = append(logs, map[string]any{"id": fmt.Sprintf("%s-%d", id, i+1), "level": level(l.Level), "message": strings.TrimRight(l.Message, "\n"), "data": orObject(l.Data), "created_at": formatTime(l.Time)})
		}
	case job != nil:
		e, input = jobExecution(job), job.Call.Arguments
	default:
		return 0, nil, newHTTPError(http.StatusNotFound, "execution not found")
	}
	if job != nil && job.Result != nil && len(job.Result.Value) > 0 {
		output = job.Result.Value // the whole
	}
	item := e.item()
	item["input"], item["output"], item["error"], item["logs"] = orObject(input), orObject(output), failed, logs
	return http.StatusOK, item, nil
}

func level(l string) string {
	if l == "error" || l == "debug" {
		return l
	}
	return "info"
}

// recordedValue returns the value in a receipt, or, if it was too long, its beginning as text.
func recordedValue(r *toolroom.Receipt) json.RawMessage {
	if len(r.Value) > 0 {
		return r.Value
	}
	if value := json.RawMessage(r.Preview); json.Valid(value) && receipt.Hash(value) == r.ResultHash {
		return value
	}
	if r.Preview == "" {
		return nil
	}
	text, _ := json.Marshal(r.Preview) // a string can always be encoded
	return text
}

// counts are the executions of a time.
type counts struct {
	total, success, failed, running int
	timed                           int
	sum                             time.Duration
}

func (c *counts) add(e *execution) {
	c.total++
	switch e.status {
	case "success":
		c.success++
	case "error":
		c.failed++
	case "running":
		c.running++
	}
	if ms, ok := e.duration.(int64); ok {
		c.timed++
		c.sum += time.Duration(ms) * time.Millisecond
	}
}

func (c *counts) mean() float64 {
	if c.timed == 0 {
		return 0
	}
	return round(float64(c.sum.Milliseconds()) / float64(c.timed))
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

func (s *server) overview(r *http.Request, _ toolroom.Identity) (int, any, error) {
	now := time.Now()
	since := now.Add(-24 * time.Hour)
	var c counts
	running, pending := 0, 0
	all, err := s.matchingExecutions(r.Context(), func(*execution) bool { return true })
	if err != nil {
		return 0, nil, err
	}
	for i := range all {
		switch all[i].status {
		case "running":
			running++
		case "pending":
			pending++
		}
		if !all[i].created.Before(since) {
			c.add(&all[i])
		}
	}
	rate := 0.0
	if c.total > 0 {
		rate = round(float64(c.success) / float64(c.total) * 100)
	}
	return http.StatusOK, map[string]any{
		"window": map[string]any{"from": formatTime(since), "to": formatTime(now)},
		"counters": map[string]any{
			"total_24h": c.total, "success_24h": c.success, "failed_24h": c.failed, "running_now": running, "pending_now": pending,
			"success_rate_24h": rate, "avg_duration_ms_24h": c.mean(),
		},
	}, nil
}

func (s *server) timeseries(r *http.Request, _ toolroom.Identity) (int, any, error) {
	minutes := 180
	if text := r.FormValue("window_minutes"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, nil, newHTTPError(http.StatusBadRequest, "window_minutes must be int")
		}
		minutes = max(5, min(n, 7*24*60))
	}
	now := time.Now()
	since := now.Add(-time.Duration(minutes) * time.Minute)
	all, err := s.matchingExecutions(r.Context(), func(e *execution) bool { return !e.created.Before(since) })
	if err != nil {
		return 0, nil, err
	}
	buckets := map[time.Time]*counts{}
	var times []time.Time
	for i := range slices.Backward(all) {
		at := all[i].created.UTC().Truncate(time.Minute)
		if buckets[at] == nil {
			buckets[at] = &counts{}
			times = append(times, at)
		}
		buckets[at].add(&all[i])
	}
	points := []any{}
	for _, at := range times {
		c := buckets[at]
		points = append(points, map[string]any{
			"ts": at.Format("2006-01-02T15:04:05+00:00"), "total": c.total, "success": c.success, "error": c.failed, "running": c.running, "avg_duration_ms": c.mean(),
		})
	}
	return http.StatusOK, map[string]any{"window": map[string]any{"from": formatTime(since), "to": formatTime(now), "bucket": "minute"}, "points": points}, nil
}
