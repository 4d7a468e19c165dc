package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
)

const halveSource = `# /// script
# [tool.toolroom]
# read_only = true
# ///
def half(x: int) -> int:
    return x // 2
`

var brokenHalveSource = strings.Replace(halveSource, "    return x // 2", "    return 10 // (x - x)", 1)

// waitForLog waits until the newest entry of a tool's log is of the action.
func (w workshop) waitForLog(tool string, action release.Action) release.Entry {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		log, err := w.Parts().Releases.Store.ReleaseLog(w.t.Context(), tool, 1)
		if err != nil {
			w.t.Fatal(err)
		}
		if log[0].Action == action {
			return log[0]
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the log of %s ends with %+v, not with %s", tool, log[0], action)
		}
	}
}

// waitUntilServed waits until a call succeeds, served by the version that a rollback restored. The room
// learns of it shortly after it is in the log.
func waitUntilServed(t *testing.T, call func() *toolroom.Result) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r := call()
		if r.Error == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the rollback: %v", r.Error)
		}
	}
}

func TestAVersionThatFailsIsTakenBackByItselfAndTheReceiptsTellTheStory(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("half.py", halveSource)
	c := &release.Case{Tool: "fn:half", Name: "four", Arguments: json.RawMessage(`{"x":4}`), Expect: json.RawMessage("2")}
	if err := w.Parts().Releases.AddCase(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.wantValue("fn:half", `{"x":8}`, "4")
	}
	if _, err := w.push("half.py", brokenHalveSource); err != nil {
		t.Fatal(err)
	}
	s := w.Parts().Releases
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:half"}, "ada"); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Fatalf("the gate let a version pass whose case fails: %v", err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:half", Force: true, Reason: "in a hurry"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.wantError("fn:half", `{"x":8}`, toolroom.CodeExecutionFailed)
	}
	e := w.waitForLog("fn:half", release.ActionRollback)
	if v := e.Verdict; e.Who != release.Watcher || e.Version != 1 || v == nil || v.Test != release.TestFisher || v.Failed != 3 || v.BaseFailed != 0 {
		t.Errorf("entry %+v, verdict %+v", e, e.Verdict)
	}
	waitUntilServed(t, func() *toolroom.Result {
		return w.Run(t.Context(), toolroom.Call{Tool: "fn:half", Arguments: json.RawMessage(`{"x":8}`)})
	})

	list, err := w.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "fn:half", Surface: receipt.SurfaceRelease})
	if err != nil {
		t.Fatal(err)
	}
	var story []string
	for _, r := range list {
		text := r.Preview
		if r.Error != nil {
			text = r.Error.Message
		}
		story = append(story, fmt.Sprint(r.Identity.Key(), " ", r.Status, ": ", text))
	}
	want := []string{
		"toolroom ok: prod: rollback from version 2 to 1", "ada ok: prod: release from version 1 to 2; forced in spite of cases: in a hurry",
		"ada denied: version 2 of fn:half is not released to prod: cases", "ada ok: version 2 was pushed", "ada ok: prod: release from version 0 to 1", "ada ok: version 1 was pushed",
	}
	if len(story) != len(want) {
		t.Fatalf("receipts:\n%s", strings.Join(story, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(story[i], want[i]) {
			t.Errorf("receipt %q, want %q", story[i], want[i])
		}
	}
}

func TestAWithdrawnVersionIsNotRevivedByItself(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("half.py", halveSource)
	for range 10 {
		w.wantValue("fn:half", `{"x":8}`, "4")
	}
	if _, err := w.push("half.py", brokenHalveSource); err != nil {
		t.Fatal(err)
	}
	s := w.Parts().Releases
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:half", Force: true, Reason: "in a hurry"}, "ada"); err != nil {
		t.Fatal(err)
	}
	began := w.waitForLog("fn:half", release.ActionRelease)
	if err := s.Deprecate(t.Context(), "fn:half", 1, "it leaks", false, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.wantError("fn:half", `{"x":8}`, toolroom.CodeExecutionFailed)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // receipts are read from the store
		v, _, err := s.Watch(t.Context(), began, 0)
		if v != nil || time.Now().After(deadline) {
			t.Fatalf("verdict %+v, %v", v, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "is not taken back") || !strings.Contains(err.Error(), "it leaks") {
				t.Error(err)
			}
			break
		}
	}
	if e := w.waitForLog("fn:half", release.ActionDeprecate); e.Version != 1 {
		t.Errorf("the log ends with %+v", e)
	}
	w.wantError("fn:half", `{"x":8}`, toolroom.CodeExecutionFailed)
}

func TestACanaryServesThoseThatAreNamedAndIsTakenBackAlone(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("half.py", halveSource)
	if _, err := w.push("half.py", brokenHalveSource); err != nil {
		t.Fatal(err)
	}
	order := release.Order{Tool: "fn:half", CanaryRule: release.CanaryRule{Callers: []string{"group:beta"}}}
	if _, err := w.Parts().Releases.Release(t.Context(), order, "ada"); err != nil {
		t.Fatal(err)
	}
	by := func(who toolroom.Identity) *toolroom.Result {
		return w.Run(t.Context(), toolroom.Call{Tool: "fn:half", Arguments: json.RawMessage(`{"x":8}`), Identity: who})
	}
	for range 10 {
		if r := by(toolroom.Identity{Subject: "bob"}); r.Error != nil {
			t.Fatal(r.Error)
		}
	}
	beta := toolroom.Identity{Subject: "eve", Groups: []string{"beta"}}
	for range 3 {
		if r := by(beta); r.Error == nil {
			t.Fatal("a named caller does not get the canary")
		}
	}
	if e := w.waitForLog("fn:half", release.ActionRollback); e.Version != 1 || e.Previous != 1 || e.Canary != 0 {
		t.Errorf("entry %+v", e)
	}
	waitUntilServed(t, func() *toolroom.Result { return by(beta) })
}

func TestAShadowAnswersNobodyAndItsDifferencesAreReported(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	header := "# /// script\n# [tool.toolroom]\n# read_only = true\n# ///\n"
	w.serve("at.py", header+"import time\ndef at(x: int) -> dict:\n    return {'x': x, 'time': time.time(), 'gone': 1}\n")
	s := w.Parts().Releases
	push := func(source string) {
		t.Helper()
		if _, err := w.push("at.py", source); err != nil {
			t.Fatal(err)
		}
	}
	shadow := release.Order{Tool: "fn:at", CanaryRule: release.CanaryRule{Shadow: true, Ignore: []string{"/time"}}}
	push("def at(x: int) -> dict:\n    return {}\n")
	if _, err := s.Release(t.Context(), shadow, "ada"); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Fatalf("a version that may have effects runs as a shadow: %v", err)
	}
	push(header + "import time\ndef at(x: int) -> dict:\n    return {'x': x + (x > 5), 'time': time.time(), 'gone': 1}\n")
	if _, err := s.Release(t.Context(), shadow, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []int{1, 9} {
		if r := w.call("fn:at", fmt.Sprintf(`{"x":%d}`, x)); r.Error != nil || !strings.Contains(string(r.Value), fmt.Sprintf(`"x":%d`, x)) {
			t.Fatalf("the answer is %s, %v", r.Value, r.Error)
		}
	}
	var report *release.ShadowReport
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if report, err = s.ShadowReport(t.Context(), "fn:at", "", 0); err != nil {
			t.Fatal(err)
		}
		if report.Outcomes[release.ShadowSame]+report.Outcomes[release.ShadowDifferent] == 2 {
			break
		}
	}
	if report.Outcomes[release.ShadowSame] != 1 || report.Outcomes[release.ShadowDifferent] != 1 || len(report.Differing) != 1 ||
		fmt.Sprint(report.Differing[0].Differences) != "[/x is 10, and was 9]" {
		t.Errorf("report %+v", report)
	}
}

func TestShadowsThatAreLeftOutAreCountedTogether(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	header := "# /// script\n# [tool.toolroom]\n# read_only = true\n# ///\n"
	w.serve("at.py", header+"def at(x: int) -> int:\n    return x\n")
	s := w.Parts().Releases
	if _, err := w.push("at.py", header+"import time\ndef at(x: int) -> int:\n    time.sleep(3)\n    return x\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:at", CanaryRule: release.CanaryRule{Shadow: true}}, "ada"); err != nil {
		t.Fatal(err)
	}
	const calls = 24
	var work sync.WaitGroup
	for range calls {
		work.Go(func() { w.wantValue("fn:at", `{"x":1}`, "1") })
	}
	work.Wait()
	w.until("report of all calls", func() bool {
		report, err := s.ShadowReport(t.Context(), "fn:at", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return report.Outcomes[release.ShadowSame]+report.Outcomes[release.ShadowSkipped] == calls
	})
	runs, err := s.Store.ShadowRuns(t.Context(), "fn:at", release.Prod, 2, 1000)
	if err != nil || len(runs) == calls {
		t.Errorf("%d runs are stored of %d calls: %v", len(runs), calls, err)
	}
}

// Wrong arguments are the caller's fault, unless the version before took them.
func TestWrongArgumentsTakeAVersionBackOnlyIfTheVersionBeforeAcceptedThem(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("half.py", halveSource)
	for range 10 {
		w.wantValue("fn:half", `{"x":8}`, "4")
	}
	w.serve("half.py", halveSource+"# as before\n")
	for range 6 {
		w.wantError("fn:half", `{"x":"bad"}`, toolroom.CodeInvalidArguments)
	}
	e := w.waitForLog("fn:half", release.ActionRelease)
	if v, calls, err := w.Parts().Releases.Watch(t.Context(), e, 0); v != nil || calls != 0 || err != nil {
		t.Errorf("after wrong arguments alone: %+v, %d calls, %v", v, calls, err)
	}

	third := strings.Replace(halveSource, "half", "third", 1)
	w.serve("third.py", third)
	for range 10 {
		w.wantValue("fn:third", `{"x":8}`, "4")
	}
	w.serve("third.py", strings.Replace(third, "x: int", "x: int, by: int", 1))
	for range 3 {
		w.wantError("fn:third", `{"x":8}`, toolroom.CodeInvalidArguments)
	}
	if e := w.waitForLog("fn:third", release.ActionRollback); e.Version != 1 {
		t.Errorf("entry %+v, verdict %+v", e, e.Verdict)
	}
}

// A server looks for the versions of other processes from time to time. This one, which does not
// serve, never does.
func TestAVersionIsReleasedAtOnceThoughAnotherProcessPushedIt(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	server, author := workshopIn(t, home, ""), workshopIn(t, home, "")
	for version, source := range []string{doubleSource, doubleSource + "# 2\n"} {
		if _, err := author.push("double.py", "# /// script\n# [tool.toolroom]\n# cases = [{name = \"one\", arguments = {x = 1}, expect = 2}]\n# ///\n"+source); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:double"}, "ada"); err != nil {
			t.Errorf("version %d: %v", version+1, err)
		}
	}
}
