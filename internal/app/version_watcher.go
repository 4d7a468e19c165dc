package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
)

// versionWatcher compares new versions with the ones before by the receipts of their calls,
// and runs shadows. It works after calls have ended, and at the latest when the room
// closes.
type versionWatcher struct {
	room  *App
	slots chan struct{} // for shadow runs
	ctx   context.Context
	stop  context.CancelFunc

	mu         sync.Mutex
	closed     bool
	pending    map[watchedVersion]release.Entry
	judgements map[watchedVersion]*judgement
	// skipped counts for each version the shadow runs that were left out since the last one
	// ended.
	skipped map[watchedVersion]*release.ShadowRun
	running bool
	work    sync.WaitGroup
}

// judgement is the last comparison of a version.
type judgement struct {
	began          time.Time // when the version was released
	calls          int       // at that time
	callsUntilNext int       // calls until the next comparison
	read           time.Time
}

// rejudgePeriod is the time after which a call of a version makes it be compared again,
// even if this process has not seen enough calls: other processes may have.
const rejudgePeriod = 10 * time.Second

// watchedVersion is a version that is compared with the one before.
type watchedVersion struct {
	tool, environment string
	version           int
}

// shadowSlots is how many shadows run at once. Further calls have no shadow, which is
// recorded.
const shadowSlots = 4

// shadowTime limits a shadow run.
const shadowTime = time.Minute

// maxObserved is how many calls of a version are compared.
const maxObserved = 1000

func newWatching(r *App) *versionWatcher {
	w := &versionWatcher{room: r, slots: make(chan struct{}, shadowSlots), pending: map[watchedVersion]release.Entry{}, judgements: map[watchedVersion]*judgement{}, skipped: map[watchedVersion]*release.ShadowRun{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	r.runner.OnServed = w.onServed
	return w
}

// noteCall records that a version was called which may be rolled back.
func (w *versionWatcher) noteCall(table *release.Table, one watchedVersion) {
	e, ok := w.room.releases.Watches(table, one.tool, one.environment, one.version)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		delete(w.judgements, one)
		return
	}
	j := w.judgements[one]
	if j == nil || !j.began.Equal(e.Time) {
		j = &judgement{began: e.Time}
		w.judgements[one] = j
	}
	if j.callsUntilNext--; j.callsUntilNext > 0 && time.Since(j.read) < rejudgePeriod {
		return
	}
	w.pending[one] = e
	if !w.running && !w.closed {
		w.running = true
		w.work.Go(w.judgePending)
	}
}

// judgePending compares all versions that have new receipts.
func (w *versionWatcher) judgePending() {
	for {
		w.mu.Lock()
		all := w.pending
		w.pending = map[watchedVersion]release.Entry{}
		if w.running = len(all) > 0; !w.running {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for one, e := range all {
			panics.Log(w.room.log, "judging a version", func() {
				ctx, cancel := context.WithTimeout(w.ctx, closeTimeout)
				defer cancel()
				verdict, err := w.judgeVersion(ctx, one, e)
				switch {
				case err != nil:
					w.room.log.Warn("cannot judge a new version", "tool", e.Tool, "error", err)
				case verdict != nil:
					w.room.log.Warn("a version was taken back automatically", "tool", e.Tool, "environment", e.Environment, "reason", verdict.String())
				}
			})
		}
	}
}

// judgeVersion compares a version, unless it has been compared at the same number of calls.
func (w *versionWatcher) judgeVersion(ctx context.Context, one watchedVersion, e release.Entry) (*release.Verdict, error) {
	var before judgement
	w.mu.Lock()
	if j := w.judgements[one]; j != nil && j.began.Equal(e.Time) {
		before = *j
	}
	w.mu.Unlock()
	verdict, calls, err := w.room.releases.Watch(ctx, e, before.calls)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.judgements[one]; j != nil && j.began.Equal(e.Time) {
		// Calls that ended during the look may not be among those that it has seen.
		meanwhile := before.callsUntilNext - j.callsUntilNext
		j.calls, j.read = calls, time.Now()
		if j.callsUntilNext = release.NextLook(calls) - calls - meanwhile; j.callsUntilNext <= 0 {
			w.pending[one] = e
		}
	}
	return verdict, nil
}

// onServed records a call of a released tool, and starts its shadow if there is one.
func (w *versionWatcher) onServed(call toolroom.Call, tool *toolroom.Tool, result *toolroom.Result) {
	if receipt.OutsideMetrics(call.Surface) {
		return
	}
	environment, table, id := cmp.Or(call.Environment, release.Prod), w.room.servedVersions.table.Load(), tool.ID.Unversioned().String()
	w.noteCall(table, watchedVersion{id, environment, tool.Release.Version})
	choice, rule, ok := table.Shadow(id, environment, tool.Release.Version, call.Identity)
	if e := result.Error; !ok || e != nil && e.Phase != toolroom.PhaseExecute && e.Phase != toolroom.PhaseValidateOutput {
		return
	}
	one := &release.ShadowRun{Time: time.Now().UTC(), Tool: choice.Tool, Environment: environment, Version: choice.Version, Base: tool.Release.Version, Call: result.Call}
	base, shadowed := *result, call // copies of their own, which most calls do not need
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	select {
	case w.slots <- struct{}{}:
		w.work.Go(func() {
			panics.Log(w.room.log, "a shadow run", func() { w.runShadow(one, shadowed, &base, rule) })
			<-w.slots
			w.storeSkipped()
		})
	default:
		w.addSkipped(one)
	}
}

// addSkipped counts a shadow run that is left out. The runs that have taken all slots store
// the count when they end. The caller holds the lock.
func (w *versionWatcher) addSkipped(one *release.ShadowRun) {
	of := watchedVersion{one.Tool, one.Environment, one.Version}
	if w.skipped[of] == nil {
		one.Outcome, one.Differences = release.ShadowSkipped, []string{"too many shadows were running"}
		w.skipped[of] = one
	}
	w.skipped[of].Calls++
}

func (w *versionWatcher) storeSkipped() {
	w.mu.Lock()
	all := w.skipped
	w.skipped = map[watchedVersion]*release.ShadowRun{}
	w.mu.Unlock()
	for _, one := range all {
		w.storeShadow(one)
	}
}

func (w *versionWatcher) runShadow(one *release.ShadowRun, call toolroom.Call, base *toolroom.Result, rule release.CanaryRule) {
	ctx, cancel := context.WithTimeout(w.ctx, shadowTime)
	defer cancel()
	result := w.room.runner.Run(ctx, toolroom.Call{
		Tool: fmt.Sprintf("%s@%d", one.Tool, one.Version), Arguments: call.Arguments, Identity: call.Identity,
		Environment: one.Environment, Surface: receipt.SurfaceShadow, NoWait: true, MaxOutput: call.MaxOutput,
	})
	one.Shadow = result.Call
	one.CompareShadow(base, result, rule.Ignore)
	w.storeShadow(one)
}

func (w *versionWatcher) storeShadow(one *release.ShadowRun) {
	if err := w.room.store.PutShadowRun(context.Background(), one, keptShadows); err != nil {
		w.room.log.Warn("cannot store a shadow run", "tool", one.Tool, "error", err)
	}
}

// keptShadows is how many shadow runs of a version are stored.
const keptShadows = 10_000

// close waits for the running work, which it ends after limit.
func (w *versionWatcher) close(limit time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	defer w.stop()
	defer time.AfterFunc(limit, w.stop).Stop()
	w.work.Wait()
}

// observe implements [release.Options.Observe]: it returns the calls of a version.
func (a *App) observe(ctx context.Context, tool, environment string, version int, since time.Time, base bool) ([]release.Observation, error) {
	q := toolroom.ReceiptQuery{Tool: tool, Version: version, Environment: environment, Since: since}
	if !base {
		return a.observations(ctx, q, true)
	}
	// The newest calls are read in spans that grow, so that those of a busy tool's week are
	// not all read.
	var all []release.Observation
	q.Until = time.Now()
	for span := time.Minute; len(all) < maxObserved && q.Until.After(since); span *= 4 {
		if q.Since = q.Until.Add(-span); q.Since.Before(since) {
			q.Since = since
		}
		older, err := a.observations(ctx, q, false)
		if err != nil {
			return nil, err
		}
		all = append(older, all...)
		q.Until = q.Since
	}
	return all[max(len(all)-maxObserved, 0):], nil
}

// observations returns the first or the last of the calls that a query selects, oldest
// first.
func (a *App) observations(ctx context.Context, q toolroom.ReceiptQuery, first bool) ([]release.Observation, error) {
	var all []release.Observation
	err := a.ReceiptSamples(ctx, q, func(one receipt.Sample) bool {
		if receipt.OutsideMetrics(one.Surface) || one.Status == toolroom.StatusDenied || one.Status == toolroom.StatusCancelled {
			return true
		}
		all = append(all, release.Observation{
			Failed: one.Status != toolroom.StatusOK, Refused: one.Code == toolroom.CodeInvalidArguments && one.Run == 0, Run: one.Run,
		})
		if len(all) > 2*maxObserved {
			all = append(all[:0], all[maxObserved:]...)
		}
		return !first || len(all) < maxObserved
	})
	return all[max(len(all)-maxObserved, 0):], err
}

// recordRelease records a receipt of a change that a person or Toolroom made to a tool's
// releases.
func (a *App) recordRelease(ctx context.Context, e release.Entry, v *release.Version, refused error) {
	arguments, err := json.Marshal(e)
	if err != nil {
		a.log.Error("cannot record a release", "error", err)
		return
	}
	rec := &receipt.Draft{RawArguments: arguments, Receipt: toolroom.Receipt{
		ID: fmt.Sprintf("%s_%s_%d", e.Action, strings.NewReplacer(":", "_").Replace(e.Tool), e.Time.UnixNano()), Tool: e.Tool,
		Surface: receipt.SurfaceRelease, Identity: toolroom.Identity{Subject: e.Who}, Environment: e.Environment,
		Arguments: arguments, Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Preview: e.Summary(), Started: e.Time,
	}}
	if v != nil && v.Number != 0 {
		rec.Release = v.Identity()
	}
	if refused != nil {
		rec.Status, rec.Effects, rec.Error, rec.Preview = toolroom.StatusDenied, toolroom.EffectsNone, toolroom.AsError(refused), ""
	}
	if err := a.receipts.Append(ctx, rec); err != nil {
		a.log.Error("cannot record a release", "tool", e.Tool, "error", err)
	}
}
