package mcp_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// serverVariable makes the test binary a misbehaving MCP server.
const (
	serverVariable  = "TOOLROOM_TEST_SERVER"
	hangingVariable = "TOOLROOM_TEST_HANGING"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(serverVariable); how != "" {
		serveOddly(how)
		return
	}
	goleak.VerifyTestMain(m)
}

// serveOddly is a server of an older era, written by hand so that it can do
// what a server built on an SDK would not.
func serveOddly(how string) {
	if how == "dies" {
		fmt.Fprintln(os.Stderr, "cannot open the database")
		os.Exit(3)
	}
	if how == "mute" {
		time.Sleep(time.Hour)
	}
	if how == "chatty" {
		fmt.Println("Server version 1.0 starting on stdio...")
	}
	// The file of a fixture learns how many calls hang.
	note := func(sign string) {
		if f, err := os.OpenFile(os.Getenv(hangingVariable), os.O_APPEND|os.O_WRONLY, 0); err == nil {
			fmt.Fprintf(f, "%s %d\n", sign, os.Getpid())
			f.Close()
		}
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	page := 0
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if m.Method == "notifications/cancelled" {
			note("-")
		}
		if m.ID == nil {
			continue
		}
		answer := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result) }
		refuse := func(code int, message string) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"big":9007199254740993}}}`+"\n", m.ID, code, message)
		}
		switch m.Method {
		case "initialize":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"odd","version":"1"},"instructions":"be odd"}`)
		case "tools/list":
			page++
			if how == "unlisted" {
				continue
			}
			if how == "contract" {
				answer(`{"tools":[{"name":"big","inputSchema":{"type":"object"}},{"name":"fails","inputSchema":{"type":"object"}},{"name":"hangs","inputSchema":{"type":"object"}}]}`)
				continue
			}
			if how == "endless" {
				answer(fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, page))
				continue
			}
			if page%2 == 1 {
				answer(`{"tools":[{"name":"first","inputSchema":{"type":"object","properties":{"z":{"type":"integer","default":9007199254740993},"a":{}}},"_meta":{"k":1}},{"name":"bad name!","inputSchema":{}}],"nextCursor":"2"}`)
			} else {
				answer(`{"tools":[{"name":"second","description":"the second","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
			}
		case "tools/call":
			if how == "strict" {
				refuse(-32602, "not today")
				continue
			}
			switch m.Params.Name {
			case "big":
				answer(`{"content":[{"type":"hologram","beam":[1,2]}],"structuredContent":{"n":9007199254740993,"args":` + string(m.Params.Arguments) + `},"extra":true}`)
			case "progress":
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}`+"\n", m.Params.Meta.Token)
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","data":"hello"}}`)
				answer(`{"content":[{"type":"text","text":"done"}]}`)
			case "fails":
				answer(`{"content":[{"type":"text","text":"no such file"}],"isError":true}`)
			case "refuses":
				refuse(-32602, "unknown tool")
			case "twice":
				answer(`{"content":[{"type":"text","text":"one"}]}`)
				answer(`{"content":[{"type":"text","text":"two"}]}`)
			case "garbage":
				fmt.Println(`{"jsonrpc":"2.0","id":`)
			case "blocks":
				note("+")
				time.Sleep(time.Hour)
			case "crashes":
				fmt.Fprintln(os.Stderr, "panic: no more pages")
				os.Exit(9)
			case "dies":
				os.Exit(9)
			case "changes":
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				answer(`{"content":[]}`)
			case "hangs":
				note("+")
				continue
			case "task":
				answer(`{"resultType":"task","taskId":"t1","status":"working"}`)
			default:
				if how == "contract" {
					refuse(-32602, "unknown tool")
					continue
				}
				answer(`{"content":[{"type":"text","text":"` + fmt.Sprint(os.Getpid()) + `"}]}`)
			}
		case "server/discover":
			refuse(-32601, "no such method")
		default:
			answer(`{}`)
		}
	}
}

func odd(t *testing.T, how string, variables ...string) *mcp.Source {
	t.Helper()
	s := mcp.New(mcp.Config{
		Namespace: "odd", Command: os.Args[0], Owner: proc.Owner(), StartTimeout: 2 * time.Minute, // even if the machine is busy
		Env: func(context.Context) ([]string, error) {
			return append(append(os.Environ(), serverVariable+"="+how), variables...), nil
		},
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func call(ctx context.Context, s *mcp.Source, name string, emit func(toolroom.Event)) (*source.Output, error) {
	if emit == nil {
		emit = func(toolroom.Event) {}
	}
	return s.Call(ctx, &source.Request{
		Call: "call_" + name, Tool: toolroom.ID{Namespace: "odd", Name: name},
		Arguments: json.RawMessage(`{"v":12345678901234567890}`), Emit: emit, Ask: host{},
	})
}

func TestAllPagesOfAListAreReadAndDefinitionsStayAsTheyCame(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := s.Describe().LeftOut; len(left) != 1 || !strings.Contains(left[0], "odd:bad name!") {
		t.Errorf("left out: %q", left)
	}
	if len(tools) != 2 { // the one with a bad name is left out
		t.Fatalf("got %d tools", len(tools))
	}
	if want := `{"type":"object","properties":{"z":{"type":"integer","default":9007199254740993},"a":{}}}`; string(tools[0].InputSchema) != want {
		t.Errorf("the schema came as %s", tools[0].InputSchema)
	}
	if !strings.Contains(string(tools[0].Raw), `"_meta":{"k":1}`) || !tools[1].Hints.IsReadOnly() {
		t.Errorf("got %s and %+v", tools[0].Raw, tools[1].Hints)
	}
}

func TestResultsStayAsTheyCame(t *testing.T) {
	t.Parallel()
	out, err := call(t.Context(), odd(t, "chatty"), "big", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"n":9007199254740993,"args":{"v":12345678901234567890}}`; string(out.Value) != want {
		t.Errorf("the value came as %s", out.Value)
	}
	piece, err := json.Marshal(out.Content[0])
	if err != nil || string(piece) != `{"type":"hologram","beam":[1,2]}` {
		t.Errorf("content of an unknown kind came as %s, %v", piece, err)
	}
	if !strings.Contains(string(out.Raw), `"extra":true`) {
		t.Errorf("the raw result is %s", out.Raw)
	}
}

func TestWhatAnUpstreamAnswersHasItsMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, how string
		code      toolroom.Code // empty: an output
		failed    bool
		text      string
	}{
		{tool: "fails", failed: true, text: "no such file"},
		{tool: "twice", text: "one"},
		{tool: "refuses", code: toolroom.CodeToolNotFound, text: "does not offer the tool refuses"},
		{tool: "second", how: "strict", code: toolroom.CodeUpstreamError, text: "not today"},
		{tool: "task", code: toolroom.CodeUpstreamError, text: "status"},
		{tool: "garbage", code: toolroom.CodeUpstreamUnavailable, text: "did not answer"},
		{tool: "dies", code: toolroom.CodeUpstreamUnavailable, text: "did not answer the request to call dies: it ended with exit status 9"},
		{tool: "any", how: "dies", code: toolroom.CodeUpstreamUnavailable, text: "cannot open the database"},
	} {
		t.Run(c.tool+c.how, func(t *testing.T) {
			t.Parallel()
			out, err := call(t.Context(), odd(t, cmp.Or(c.how, "normal")), c.tool, nil)
			if code := toolroom.CodeOf(err); code != c.code {
				t.Fatalf("got %q (%v), want %q", code, err, c.code)
			}
			if err != nil {
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("the message is %q", err)
				}
				return
			}
			if out.Failed != c.failed || out.Content[0].Text != c.text {
				t.Errorf("got %+v", out)
			}
		})
	}
}

func TestAServerThatDiedIsStartedAgainByTheNextCall(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	if _, err := call(t.Context(), s, "dies", nil); err == nil {
		t.Fatal("the call of a dying server succeeded")
	}
	if out, err := call(t.Context(), s, "pid", nil); err != nil {
		t.Fatalf("the next call: %v", err)
	} else if out.Content[0].Text == "" {
		t.Error("no answer")
	}
}

func TestAServerThatCannotStartFailsAtOnceWithinThePause(t *testing.T) {
	t.Parallel()
	s := odd(t, "dies")
	_, first := call(t.Context(), s, "any", nil)
	_, second := call(t.Context(), s, "any", nil)
	// The very same error shows that nothing was started.
	if first == nil || !errors.Is(second, first) {
		t.Errorf("got %v, then %v", first, second)
	}
}

func TestProgressAndLogsReachTheCall(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	kinds := map[toolroom.EventKind]toolroom.Event{}
	both := make(chan struct{})
	_, err := call(t.Context(), odd(t, "normal"), "progress", func(e toolroom.Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds[e.Kind] = e
		if len(kinds) == 2 {
			close(both)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-both
	if p := kinds[toolroom.EventProgress].Progress; p.Done != 1 || p.Total != 2 || p.Message != "half" {
		t.Errorf("progress came as %+v", p)
	}
	if l := kinds[toolroom.EventLog].Log; l.Level != "info" || l.Message != "hello" {
		t.Errorf("the log line came as %+v", l)
	}
}

func TestChangedToolsAreNoticed(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	changed := make(chan struct{}, 1)
	s.Notify(source.Events{ToolsChanged: func() { changed <- struct{}{} }})
	if _, err := call(t.Context(), s, "changes", nil); err != nil {
		t.Fatal(err)
	}
	<-changed
}

func TestACancelledCallReturnsAndTheServerServesOn(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := call(t.Context(), s, "pid", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := call(ctx, s, "hangs", nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Errorf("got %v", err)
	}
	if _, err := call(t.Context(), s, "pid", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAListThatNeverEndsIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := odd(t, "endless").Tools(t.Context()); toolroom.CodeOf(err) != toolroom.CodeUpstreamError {
		t.Errorf("got %v", err)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	out, err := call(t.Context(), s, "pid", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	var pid int
	fmt.Sscan(out.Content[0].Text, &pid)
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	if _, err := call(t.Context(), s, "pid", nil); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Errorf("a call after Close: %v", err)
	}
}

func TestAServerThatDoesNotListItsToolsIsNamedWithTheLimit(t *testing.T) {
	t.Parallel()
	c := program("unlisted")
	c.Namespace, c.Owner, c.StartTimeout = "odd", proc.Owner(), 3*time.Second
	s := mcp.New(c)
	defer s.Close()
	_, err := s.Tools(t.Context())
	failed := toolroom.AsError(err)
	if want := "the MCP server odd cannot list its tools: it did not answer tools/list within 3s (start_timeout)"; failed.Code != toolroom.CodeUpstreamUnavailable || failed.Message != want {
		t.Errorf("%s: %s", failed.Code, failed.Message)
	}
	if !strings.Contains(failed.Hint, "start_timeout") || !strings.Contains(failed.CLIHint, "toolroom sources test odd") {
		t.Errorf("the next step is %q", failed.Hints())
	}
}

func TestTheOutputOfACrashedProcessIsKeptBesideThatOfTheNext(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	if _, err := call(t.Context(), s, "crashes", nil); err == nil {
		t.Fatal("the call that crashes the server worked")
	}
	for range 2 { // the first one starts the next process
		if _, err := call(t.Context(), s, "any", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Describe().Output, "panic: no more pages\n[the output above is that of the process before]\n"; got != want {
		t.Errorf("the output is %q, want %q", got, want)
	}
}
