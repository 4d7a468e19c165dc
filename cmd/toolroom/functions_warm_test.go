package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/engine/pynative"
	"github.com/toolroom/toolroom/internal/release"
)

// intruder is a tool that leaves its secret wherever it can, in its process, its files and
// what was loaded before the call, and returns what others have left there.
type intruder struct {
	name, file, source string
	// ready reports how many processes wait, how many calls got one, and how many began.
	ready func(workshop) (waiting, taken, begun int)
	// parent is in the command line of a process without which none that waits can live.
	parent string
}

const pythonIntruder = `
import builtins, os, signal, sys, threading, time
import counter_of_ours

__all__ = ["intrude"]
kept = []

def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False

def intrude(secret: str, wait: float = 0.0) -> list[str]:
    """Leave a secret."""
    found = list(kept) + list(getattr(builtins, "left", [])) + list(getattr(counter_of_ours, "left", []))
    if counter_of_ours.up() != 1:
        found.append("the package was used")
    if os.environ.get("LEFT"):
        found.append("env " + os.environ["LEFT"])
    if signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL:
        found.append("signal handler")
    if threading.active_count() != 1:
        found.append("thread")
    if os.listdir("."):
        found.append("files " + str(os.listdir(".")))
    open_files = [fd for fd in range(200) if is_open(fd)]
    if len(open_files) > 6:
        found.append(f"descriptors {open_files}")
    for folder in ("/tmp", "/dev/shm", "/run/layer"):
        if os.path.exists(folder + "/left"):
            found.append(folder)
    if sys.getrecursionlimit() != 1000 or sys.gettrace():
        found.append("interpreter")
    kept.append(secret)
    builtins.left = counter_of_ours.left = [secret]
    counter_of_ours.up = lambda: secret
    os.environ["LEFT"] = secret
    signal.signal(signal.SIGUSR1, lambda *_: None)
    threading.Thread(target=time.sleep, args=(60,)).start() if wait == 0 else None
    open("left", "w").write(secret)
    for folder in ("/tmp", "/dev/shm", "/run/layer"):
        try:
            open(folder + "/left", "w").write(secret)
        except OSError:
            pass
    for _ in range(20):
        os.open("/dev/null", os.O_RDONLY)
    os.chdir("/")
    sys.setrecursionlimit(500)
    print("the log of", secret)
    time.sleep(wait)
    return found
`

const nodeIntruder = `// toolroom:
//   dependencies: ["@ours/up@^1", reader]
import * as ours from "@ours/up";
import {read} from "reader";
import fs from "node:fs";
import util from "node:util";

const kept: string[] = [];

/** Leave a secret. */
export async function intrude(secret: string, wait: number = 0): Promise<string[]> {
  const all = globalThis as any, found = [...kept, ...(all.left ?? []), ...((Object.prototype as any).left ?? []), ...((util as any).left ?? [])];
  if (ours.up() !== 1 || read() !== "beside it 100") found.push("the package was used");
  if (process.env.LEFT) found.push("env " + process.env.LEFT);
  if (process.listenerCount("SIGUSR2")) found.push("signal handler");
  if (fs.readdirSync(".").filter((name) => !name.startsWith(".")).length) found.push("files " + fs.readdirSync("."));
  for (const folder of ["/tmp", "/dev/shm", "/run/layer"]) if (fs.existsSync(folder + "/left")) found.push(folder);
  if (fs.readdirSync("/proc/self/fd").length > 60) found.push("descriptors");
  console.log("the log of", secret);
  kept.push(secret);
  all.left = (Object.prototype as any).left = (util as any).left = [secret];
  Array.prototype.map = () => [secret];
  process.env.LEFT = secret;
  process.on("SIGUSR2", () => {});
  setInterval(() => {}, 1000);
  fs.writeFileSync("left", secret);
  for (const folder of ["/tmp", "/dev/shm", "/run/layer"]) try { fs.writeFileSync(folder + "/left", secret) } catch {}
  for (let i = 0; i < 100; i++) fs.openSync("/dev/null", "r");
  process.chdir("/");
  await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  return found;
}
`

// pythonWarmCounts and nodeWaiting look at the engines of functions.
func pythonWarmCounts(w workshop) (waiting, taken, begun int) {
	s := w.Engine("py-native").(*pynative.Engine).Stats()
	return s.Waiting, s.Hits, s.Hits + s.Misses
}

func nodeWarmCounts(w workshop) (waiting, taken, begun int) {
	for _, s := range w.Engine("process").(*hosted.Engine).Kinds() {
		waiting, taken, begun = waiting+s.Ready, taken+s.Taken, begun+s.Taken+s.Drained
	}
	return waiting, taken, begun
}

// newServingWorkshop returns a room that serves, so that it starts processes ahead.
func newServingWorkshop(t *testing.T) workshop {
	w := newPackagedWorkshop(t)
	w.Start(t.Context())
	w.until("pool of sandboxes", func() bool { return len(w.WarmPools()) > 0 })
	return w
}

func (w workshop) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("no %s within two minutes", what)
		}
	}
}

func TestNothingOfACallIsSeenByAnotherInProcessesThatWereStartedAhead(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	for _, in := range []intruder{
		{"python", "intrude.py", "# /// script\n# dependencies = [\"counter-of-ours\"]\n# ///\n" + pythonIntruder, pythonWarmCounts, "/run/toolroom/zygote.py"},
		{"node", "intrude.ts", nodeIntruder, nodeWarmCounts, "guest.cjs"},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			w := newServingWorkshop(t)
			in.serve(w)
			t.Run("one after the other", func(t *testing.T) { in.testSequence(workshop{w.App, t}) })
			t.Run("two callers at once", func(t *testing.T) { in.testConcurrent(workshop{w.App, t}) })
			t.Run("cancelled in the middle", func(t *testing.T) { in.testCancelled(workshop{w.App, t}) })
			t.Run("killed in the middle", func(t *testing.T) { in.testKilled(workshop{w.App, t}) })
			t.Run("another version", func(t *testing.T) { in.testNewVersion(workshop{w.App, t}) })
		})
	}
}

func (in *intruder) upload(t *testing.T, source string) release.Upload {
	return release.Upload{Files: map[string]string{in.file: source}, File: in.file, Base: -1, Wheels: counterWheel(t), Tarballs: newPackageFolder(t)}
}

func (in *intruder) serve(w workshop) {
	w.t.Helper()
	w.serveUpload(in.upload(w.t, in.source))
	w.wantValue("fn:intrude", `{"secret":"first"}`, "[]")
	in.waitForWarm(w)
}

// waitForWarm waits until a call would find a process that was started ahead.
func (in *intruder) waitForWarm(w workshop) {
	w.t.Helper()
	w.until("process that waits", func() bool { waiting, _, _ := in.ready(w); return waiting > 0 })
}

func (in *intruder) callAs(ctx context.Context, w workshop, who, secret string, wait float64) *toolroom.Result {
	arguments := fmt.Sprintf(`{"secret":%q,"wait":%g}`, secret, wait)
	return w.Run(ctx, toolroom.Call{Tool: "fn:intrude", Arguments: json.RawMessage(arguments), Identity: toolroom.Identity{Subject: who}})
}

func (in *intruder) wantClean(w workshop, r *toolroom.Result, secret string) {
	w.t.Helper()
	if r.Error != nil || string(r.Value) != "[]" {
		w.t.Errorf("%s found %s: %v", secret, r.Value, r.Error)
	} else if r.Execution == nil || strings.TrimSpace(r.Execution.Stdout) != "the log of "+secret {
		w.t.Errorf("%s: the log is %+v", secret, r.Execution)
	}
}

func (in *intruder) testSequence(w workshop) {
	_, before, _ := in.ready(w)
	for i := range 4 {
		in.waitForWarm(w)
		secret := fmt.Sprint("secret-", i)
		in.wantClean(w, in.callAs(w.t.Context(), w, "ann", secret, 0), secret)
	}
	// Some of the processes that wait may be of another kind.
	if _, taken, _ := in.ready(w); taken == before {
		w.t.Error("none of 4 calls got a process that was started ahead")
	}
}

func (in *intruder) testConcurrent(w workshop) {
	in.waitForWarm(w)
	var wg sync.WaitGroup
	for i, who := range []string{"ann", "bob", "ann", "bob", "bob", "ann"} {
		wg.Go(func() {
			secret := fmt.Sprint("secret-", who, i)
			in.wantClean(w, in.callAs(w.t.Context(), w, who, secret, 0.3), secret)
		})
	}
	wg.Wait()
}

// callWhile makes a call, calls do while it runs, and returns the result.
func (in *intruder) callWhile(w workshop, do func(cancel context.CancelFunc)) *toolroom.Result {
	in.waitForWarm(w)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	_, _, before := in.ready(w)
	done := make(chan *toolroom.Result, 1)
	go func() { done <- in.callAs(ctx, w, "ann", "midway", 100) }()
	w.until("call that runs", func() bool { _, _, begun := in.ready(w); return begun > before })
	time.Sleep(300 * time.Millisecond) // so that it has left what it leaves
	do(cancel)
	select {
	case r := <-done:
		return r
	case <-time.After(time.Minute):
		w.t.Fatal("the call does not end")
		return nil
	}
}

func (in *intruder) testCancelled(w workshop) {
	if r := in.callWhile(w, func(cancel context.CancelFunc) { cancel() }); r.Status != toolroom.StatusCancelled {
		w.t.Errorf("the cancelled call: %s %v", r.Status, r.Error)
	}
	in.wantClean(w, in.callAs(w.t.Context(), w, "bob", "after a cancel", 0), "after a cancel")
}

func (in *intruder) testKilled(w workshop) {
	r := in.callWhile(w, func(context.CancelFunc) {
		pids := w.processes(in.parent)
		if len(pids) == 0 {
			w.t.Fatalf("there is no process of %s", in.parent)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				w.t.Error(err)
			}
		}
	})
	if r.Error == nil || r.Error.Code != toolroom.CodeExecutionFailed && r.Error.Code != toolroom.CodeResourceLimit {
		w.t.Errorf("the call whose process was killed: %s %v", r.Value, r.Error)
	}
	in.wantClean(w, in.callAs(w.t.Context(), w, "bob", "after a kill", 0), "after a kill")
}

// testNewVersion serves a version that returns something else: no process of the previous version
// may answer.
func (in *intruder) testNewVersion(w workshop) {
	in.waitForWarm(w)
	w.serveUpload(in.upload(w.t, strings.Replace(in.source, "return found", `return ["another version"]`, 1)))
	for range 3 {
		w.wantValue("fn:intrude", `{"secret":"s"}`, `["another version"]`)
	}
}

// processes returns the descendants of this process whose
// command line contains a text and that see packages of this room.
func (w workshop) processes(text string) []int {
	w.t.Helper()
	parents, found := map[int]int{}, []int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if !strings.Contains(string(line), text) || !strings.Contains(string(mounts), w.Home()+"/packages/") {
			continue
		}
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == os.Getpid() {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

func TestTheBenchmarkOfToolsMeasuresCallsWithAFreshState(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	var report struct {
		Rows []struct {
			Name string
			P50  float64 `json:"p50_ms"`
		}
	}
	out := a.run("", "bench", "tools", "--no-packages", "--calls", "4", "--json")
	_, text, _ := strings.Cut(out, "{") // the first lines may be of progress
	if err := json.Unmarshal([]byte("{"+text), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	measured := map[string]bool{}
	for _, r := range report.Rows {
		measured[r.Name] = r.P50 > 0
	}
	for _, name := range []string{"python: a function", "python: python3 -c pass", "python: a forked interpreter", "typescript: a function", "typescript: engine js alone"} {
		if !measured[name] {
			t.Errorf("%q is not measured: %s", name, out)
		}
	}
}

// TestProcessesOfAVersionThatNobodyServesEnd releases a second version without packages: what
// waits with those of the first ends, once its last call has.
func TestProcessesOfAVersionThatNobodyServesEnd(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	for _, in := range []intruder{
		{"python", "intrude.py", "# /// script\n# dependencies = [\"counter-of-ours\"]\n# ///\n" + pythonIntruder, pythonWarmCounts, "/run/layer"},
		{"node", "intrude.ts", nodeIntruder, nodeWarmCounts, ""},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			w := newServingWorkshop(t)
			in.serve(w)
			in.callAs(t.Context(), w, "ada", "secret-one", 0)
			in.waitForWarm(w)
			slow := make(chan *toolroom.Result, 1)
			_, _, begun := in.ready(w)
			go func() { slow <- in.callAs(t.Context(), w, "ada", "secret-two", 2) }()
			w.until("beginning of a call", func() bool { _, _, now := in.ready(w); return now > begun })
			plain := map[string]string{"intrude.py": "def intrude() -> int:\n    return 2\n", "intrude.ts": "export function intrude(): number { return 2 }\n"}[in.file]
			w.serve(in.file, plain)
			if r := <-slow; r.Error != nil {
				t.Errorf("a call of the old version: %v", r.Error)
			}
			w.until("end of what waits", func() bool {
				if in.name == "python" { // others wait without packages
					return len(w.processes(in.parent)) == 0
				}
				waiting, _, _ := in.ready(w)
				return waiting == 0
			})
			w.wantValue("fn:intrude", `{}`, "2")
		})
	}
}
