package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("TOOLROOM_TEST_NOSY") != "" && len(os.Args) == 1 {
		runNosy()
		return
	}
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(compiled()); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// compiled returns the cache folder of the homes of the tests, so that engines are compiled
// once and not for each home.
var compiled = sync.OnceValue(func() string {
	folder, err := enginetest.MakeCache()
	if err != nil {
		panic(err)
	}
	return folder
})

func open(t *testing.T, o app.Options) *app.App {
	t.Helper()
	if o.Home != "" && o.Helper != "" {
		err := errors.Join(os.MkdirAll(o.Home, 0o700), os.Symlink(compiled(), filepath.Join(o.Home, "cache")))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	r, err := app.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// service is an HTTP service of tools: it answers with what it got, or waits
// until it is released.
func service(t *testing.T) (url string, began <-chan struct{}, release func()) {
	t.Helper()
	start, end := make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			start <- struct{}{}
			select {
			case <-end:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"big":9007199254740993}`, r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL, start, func() { close(end) }
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARoomWithoutAHomeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := open(t, app.Options{})
	home := r.Home()
	if result := r.Run(t.Context(), toolroom.Call{Tool: "system:info"}); !result.OK() {
		t.Fatal(result.Error)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}

func TestReceiptsOutliveTheRoom(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first := open(t, app.Options{Home: home})
	call := first.Run(t.Context(), toolroom.Call{Tool: "system:info"}).Call
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, app.Options{Home: home})
	kept, err := second.Receipt(t.Context(), call)
	if err != nil || kept.Tool != "system:info" || kept.Status != toolroom.StatusOK {
		t.Errorf("got %+v, %v", kept, err)
	}
	if n, err := second.VerifyReceipts(t.Context()); err != nil || n != 1 {
		t.Errorf("%d receipts fit: %v", n, err)
	}
}

func TestGoFunctionsAreToolsWithSchemasAndCallOneAnother(t *testing.T) {
	t.Parallel()
	r := open(t, app.Options{})
	type numbers struct {
		A int `json:"a" jsonschema:"the first number"`
		B int `json:"b"`
	}
	if err := app.Register(r, "math:add", "Add two numbers.", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil }); err != nil {
		t.Fatal(err)
	}
	err := app.Register(r, "math:double", "Double a number.", func(ctx context.Context, in struct {
		N int `json:"n"`
	},
	) (int, error) {
		app.Progress(ctx, 1, 2, "adding")
		var sum int
		err := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"a": in.N, "b": in.N}.JSON()}).Decode(&sum)
		return sum, err
	})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []toolroom.EventKind
	var result *toolroom.Result
	for e := range r.Stream(t.Context(), toolroom.Call{Tool: "math.double", Arguments: toolroom.Args{"n": 21}.JSON()}) {
		kinds = append(kinds, e.Kind)
		result = e.Result
	}
	if want := []toolroom.EventKind{toolroom.EventCalled, toolroom.EventProgress, toolroom.EventDone}; !slices.Equal(kinds, want) || string(result.Value) != "42" || result.Usage.Calls != 1 {
		t.Errorf("events %v, result %+v", kinds, result)
	}
	wrong := r.Run(t.Context(), toolroom.Call{Tool: "math:add", Arguments: json.RawMessage(`{"a":"1","c":2}`)})
	if wrong.Error == nil || wrong.Error.Code != toolroom.CodeInvalidArguments || !strings.Contains(wrong.Error.Message, "/a") || !strings.Contains(wrong.Error.Hint, `"a":1`) {
		t.Errorf("wrong arguments gave %+v", wrong.Error)
	}
	children, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Parent: result.Call})
	if err != nil || len(children) != 1 || children[0].Tool != "math:add" {
		t.Errorf("the child's receipts are %v, %v", children, err)
	}
	found := r.Search(toolroom.Identity{}, "add numbers", catalog.SearchOptions{})
	if len(found.Hits) == 0 || found.Hits[0].ID != "math:add" {
		t.Errorf("search found %+v", found)
	}
	if !r.Unregister("math:add") || r.Run(t.Context(), toolroom.Call{Tool: "math:add"}).Error.Code != toolroom.CodeToolNotFound {
		t.Error("an unregistered function is still there")
	}
}

func TestAToolIsFoundByItsFirstCall(t *testing.T) {
	t.Parallel()
	url, _, _ := service(t)
	r := open(t, app.Options{ConfigFile: write(t, `sources: {shop: {http: {base_url: "`+url+`", tools: [{name: item}]}}}`)})
	result := r.Run(t.Context(), toolroom.Call{Tool: "shop:item"})
	if !result.OK() || string(result.Value) != `{"path":"/item","big":9007199254740993}` {
		t.Errorf("got %s %s %v", result.Status, result.Value, result.Error)
	}
}

func TestACallOfASourceThatCannotBeListedSaysSo(t *testing.T) {
	t.Parallel()
	r := open(t, app.Options{ConfigFile: write(t, `sources: {gone: {mcp: {command: /no/such/program}}}`)})
	result := r.Run(t.Context(), toolroom.Call{Tool: "gone:tool"})
	if result.Error == nil || result.Error.Code != toolroom.CodeUpstreamUnavailable || result.Error.Phase != toolroom.PhaseResolve || result.Effects != toolroom.EffectsNone {
		t.Errorf("got %+v, effects %s", result.Error, result.Effects)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "nothing:tool"}); toolroom.CodeOf(result.Err()) != toolroom.CodeToolNotFound {
		t.Errorf("a tool of no source: %v", result.Error)
	}
}

func TestAReloadChangesSourcesAndPolicyAndDropsNoCall(t *testing.T) {
	t.Parallel()
	url, began, release := service(t)
	r := open(t, app.Options{ConfigFile: write(t, `sources: {old: {http: {base_url: "`+url+`", tools: [{name: slow}]}}}`)})
	r.Start(t.Context())
	slow := make(chan *toolroom.Result)
	go func() { slow <- r.Run(t.Context(), toolroom.Call{Tool: "old:slow"}) }()
	<-began

	next, err := config.Parse("toolroom.yaml", []byte(`{tools: {deny: ["system.*"]}, sources: {new: {http: {base_url: "`+url+`", tools: [{name: item}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(next); err != nil {
		t.Fatal(err)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "new:item"}); !result.OK() {
		t.Errorf("the new source: %v", result.Error)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "system:info"}); result.Status != toolroom.StatusDenied {
		t.Errorf("the new policy: %s", result.Status)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "old:slow"}); result.OK() {
		t.Error("the source that was taken out still serves")
	}
	release()
	if result := <-slow; !result.OK() {
		t.Errorf("the call that ran meanwhile: %v", result.Error)
	}
}

func TestAConfigWithMistakesChangesNothing(t *testing.T) {
	t.Parallel()
	if _, err := app.Open(t.Context(), app.Options{ConfigFile: write(t, "tools: {profile: codign}\n")}); err == nil || !strings.Contains(err.Error(), "coding") {
		t.Errorf("got %v", err)
	}
	if _, err := app.Open(t.Context(), app.Options{ConfigFile: write(t, `store: {url: "postgres://db/x"}`)}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("another store: %v", err)
	}
}

func TestSecretsReachTheServiceAndNoReceipt(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		// A careless service repeats the secret.
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"you sent": %q}`, r.Header.Get("Authorization"))
	}))
	defer s.Close()
	const hush = "correct-horse-battery"
	r := open(t, app.Options{
		Environ:    []string{"SHOP_TOKEN=" + hush},
		ConfigFile: write(t, `sources: {shop: {http: {base_url: "`+s.URL+`", headers: {Authorization: "Bearer env://SHOP_TOKEN"}, tools: [{name: item}]}}}`),
	})
	result := r.Run(t.Context(), toolroom.Call{Tool: "shop:item", Arguments: toolroom.Args{"note": "the token is " + hush}.JSON()})
	if sent := <-got; sent != "Bearer "+hush {
		t.Fatalf("the service got %q", sent)
	}
	kept, err := r.Receipt(t.Context(), result.Call)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(kept)
	if err != nil || strings.Contains(string(text), hush) {
		t.Errorf("the receipt holds the secret: %s, %v", text, err)
	}
}
