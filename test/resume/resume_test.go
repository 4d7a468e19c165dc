package resume

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

// asBinary makes this test binary the toolroom binary.
const asBinary = "TOOLROOM_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if os.Getenv(asBinary) == "" {
		os.Exit(runParallel(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	os.Exit(cli.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, User: "ann", Version: "test", Helper: self, Open: app.Open}.Run(ctx, os.Args[1:]))
}

// compiled is the cache folder of all homes in the tests, so that the engines are
// compiled once.
var compiled string

// runParallel runs tests in parallel, more at once than there are processors, because each
// spends nearly all of its time waiting until a call is suspended.
func runParallel(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	folder, err := enginetest.MakeCache()
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	compiled = folder
	return m.Run()
}

const configText = `
server: {listen: "127.0.0.1:0"}
expose: {mode: code}
sources:
  shop:
    http:
      base_url: %s
      tools:
        - {name: order, description: Order something., input_schema: {type: object, properties: {what: {type: string}}}}
        - {name: pay, description: Pay for something., input_schema: {type: object, properties: {what: {type: string}}}}
        - {name: ship, description: Ship something., input_schema: {type: object, properties: {what: {type: string}}}}
tools: {confirm: ["shop.pay"]}
`

// shop is a tool server that counts its calls.
type shop struct {
	mu   sync.Mutex
	done map[string]int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var args struct{ What string }
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/") + " " + args.What
	s.done[key]++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"receipt": "%s #%d"}`, key, s.done[key])
}

func (s *shop) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for k, n := range s.done {
		counts[k] = n
	}
	return counts
}

// fixture is a home, the tools, and the current server.
type fixture struct {
	t    *testing.T
	home string
	shop *shop

	server *exec.Cmd
	url    string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, home: t.TempDir(), shop: &shop{done: map[string]int{}}}
	upstream := httptest.NewServer(f.shop)
	t.Cleanup(upstream.Close)
	f.write("toolroom.yaml", fmt.Sprintf(configText, upstream.URL))
	if err := os.Symlink(compiled, filepath.Join(f.home, "cache")); err != nil {
		t.Fatal(err)
	}
	if monty := os.Getenv("TOOLROOM_MONTY"); monty != "" {
		if err := os.MkdirAll(filepath.Join(f.home, "engines"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(monty, filepath.Join(f.home, "engines", "monty")); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.home, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// configure adds to the config.
func (f *fixture) configure(text string) {
	f.t.Helper()
	path := filepath.Join(f.home, "toolroom.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("toolroom.yaml", string(before)+text)
}

func (f *fixture) command(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, self, append([]string{"--home", f.home, "--config", filepath.Join(f.home, "toolroom.yaml")}, args...)...)
	c.Env = append(os.Environ(), asBinary+"=1")
	c.Dir = f.home
	return c
}

// toolroom runs a command until it ends.
func (f *fixture) toolroom(args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	c := f.command(f.t.Context(), args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		f.t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok
}

var address = regexp.MustCompile(`ready at (http://\S+)`)

// start starts the server and waits until it is ready.
func (f *fixture) start() {
	f.t.Helper()
	f.server = f.command(context.Background(), "serve")
	pipe, err := f.server.StderrPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.server.Stdout = io.Discard
	if err := f.server.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.kill)
	ready, last := make(chan string, 1), make(chan string, 1)
	go func() {
		var seen bytes.Buffer
		buffer := make([]byte, 4096)
		for {
			n, err := pipe.Read(buffer)
			seen.Write(buffer[:n])
			if found := address.FindSubmatch(seen.Bytes()); found != nil {
				select {
				case ready <- string(found[1]):
				default:
				}
			}
			if err != nil {
				last <- seen.String()
				close(ready)
				return
			}
		}
	}()
	url, ok := <-ready
	if !ok {
		f.t.Fatalf("the server did not start: %s", <-last)
	}
	f.url = url
}

// kill ends the server like a crash.
func (f *fixture) kill() {
	if f.server == nil {
		return
	}
	_ = f.server.Process.Kill()
	_ = f.server.Wait()
	f.server = nil
}

func (f *fixture) request(method, path string, body any, into any) int {
	f.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, bytes.NewReader(text))
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		f.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return res.StatusCode
}

// until waits for an effect of another process.
func (f *fixture) until(what string, is func() bool) {
	f.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	f.t.Fatalf("never: %s", what)
}

// pending waits for one approval and returns its id.
func (f *fixture) pending() string {
	f.t.Helper()
	var list struct{ Approvals []toolroom.Approval }
	f.until("a question", func() bool {
		f.request(http.MethodGet, "/api/v1/approvals?state=pending", nil, &list)
		return len(list.Approvals) == 1
	})
	return list.Approvals[0].ID
}

// record is the server's record of a call.
type record struct {
	State     string
	Approvals []string
	Result    *toolroom.Result
}

func (f *fixture) call(id string) record {
	f.t.Helper()
	var r record
	f.request(http.MethodGet, "/api/v1/calls/"+id, nil, &r)
	return r
}

const (
	inPython = `import random
print("begun")
o = tools.shop.order(what="tea %d" % random.randint(1, 10**9))
try:
    paid = tools.shop.pay(what="tea")["receipt"]
except ToolError as e:
    paid = e.code
s = tools.shop.ship(what="tea")
[paid, s["receipt"]]`
	inJavaScript = `console.log("begun");
const lot = Math.floor(Math.random() * 1e9);
const o = await tools.shop.order({what: "tea " + lot});
let paid;
try { paid = (await tools.shop.pay({what: "tea"})).receipt } catch (e) { paid = e.code }
const s = await tools.shop.ship({what: "tea"});
return [paid, s.receipt]`
)

// programs order, pay with approval, and ship.
var programs = []struct{ engine, language, code string }{
	{"js", "javascript", inJavaScript},
	{"py-lite", "python", inPython},
	{"py", "python", inPython},
	{"py-native", "python", inPython},
	{"process", "python", inPython},
	{"process", "javascript", inJavaScript},
}

func (f *fixture) requireEngine(engine string) {
	f.t.Helper()
	if engine == "py-lite" && os.Getenv("TOOLROOM_MONTY") == "" {
		if _, err := exec.LookPath("monty"); err != nil {
			if os.Getenv("CI") == "true" {
				f.t.Fatal("there is no monty: toolroom setup engines installs it, and TOOLROOM_MONTY tells this test where")
			}
			f.t.Skip("there is no monty")
		}
	}
}

func TestASuspendedProgramSurvivesACrashOfTheServer(t *testing.T) {
	for _, p := range programs {
		for _, answer := range []struct {
			name    string
			approve bool
			paid    string
			pays    int
		}{{"approved", true, "pay tea #1", 1}, {"declined", false, "approval_declined", 0}} {
			t.Run(p.engine+", "+p.language+", "+answer.name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.requireEngine(p.engine)
				f.start()
				var accepted struct{ ID string }
				f.request(http.MethodPost, "/api/v1/execute?async=true", map[string]any{"language": p.language, "engine": p.engine, "code": p.code}, &accepted)
				question := f.pending()
				f.until("the state waiting", func() bool {
					r := f.call(accepted.ID)
					return r.State == "waiting" && cmp.Equal(r.Approvals, []string{question})
				})
				f.kill()
				f.start()
				if got := f.pending(); got != question {
					t.Errorf("the question is %s now", got)
				}
				var answered toolroom.Approval
				f.request(http.MethodPost, "/api/v1/approvals/"+question, map[string]any{"approve": answer.approve}, &answered)
				var last record
				f.until("the end of the run", func() bool { last = f.call(accepted.ID); return last.State == "done" })
				if last.Result.Error != nil {
					t.Fatalf("%s: %v", last.Result.Error.Message, last.Result.Error.Details)
				}
				var value []string
				if err := last.Result.Decode(&value); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{answer.paid, "ship tea #1"}, value); diff != "" {
					t.Error(diff)
				}
				counts := f.shop.counts()
				orders := 0
				for what, n := range counts {
					if strings.HasPrefix(what, "order ") {
						orders += n
					}
				}
				if orders != 1 || counts["pay tea"] != answer.pays || counts["ship tea"] != 1 {
					t.Errorf("the tools did %v", counts)
				}
				x := last.Result.Execution
				if x.Engine != p.engine || x.Stdout != "begun\n" || len(x.Calls) != 3 {
					t.Errorf("%+v", x)
				}
			})
		}
	}
}
