package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/approval"
)

// openWith opens a room with a config and a tool that writes files.
func openWith(t *testing.T, config string, o app.Options) *app.App {
	t.Helper()
	dir := t.TempDir()
	o.ConfigFile = filepath.Join(dir, "toolroom.yaml")
	if o.Home == "" {
		o.Home = filepath.Join(dir, "home")
	}
	for name, text := range map[string]string{"toolroom.yaml": config, "notes.md": "old\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, o)
	type write struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if err := app.Register(r, "files:write", "Write a file.", func(context.Context, write) (string, error) { return "written", nil }); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAWebhookIsToldWhatTheCallWouldDo(t *testing.T) {
	t.Parallel()
	messages := make(chan approval.HookMessage, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m approval.HookMessage
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		messages <- m
	}))
	t.Cleanup(receiver.Close)
	r := openWith(t, fmt.Sprintf(`
tools: {confirm: ["files.write"]}
approvals:
  writes: [{match: "files:write", root: .}]
  webhooks: [{name: ops, url: %s, public_url: "https://tools.example.com"}]
`, receiver.URL), app.Options{})
	r.Start(t.Context())
	result := make(chan *toolroom.Result, 1)
	go func() {
		result <- r.Run(t.Context(), toolroom.Call{Tool: "files:write", Arguments: toolroom.Args{"path": "notes.md", "content": "new\n"}.JSON()})
	}()
	m := <-messages
	if want := "-old\n+new\n"; !strings.Contains(m.Approval.Diff, want) || len(m.Approval.Effects) == 0 || !strings.HasPrefix(m.Approval.Effects[0], "replaces the file notes.md") || !slices.Contains(m.Approval.Effects, "can send data outside") {
		t.Errorf("the message has effects %q and diff %q", m.Approval.Effects, m.Approval.Diff)
	}
	token, ok := strings.CutPrefix(m.Link, "https://tools.example.com"+approval.AnswerPath)
	approvals := r.Parts().Approvals
	a, name, err := approvals.OpenLink(t.Context(), token)
	if !ok || err != nil || name != "ops" {
		t.Fatalf("the link %s leads to %v, %v", m.Link, a, err)
	}
	if _, err := approvals.Answer(t.Context(), a.ID, toolroom.Answer{Approve: true, Hook: name}); err != nil {
		t.Fatal(err)
	}
	if got := <-result; !got.OK() {
		t.Errorf("the approved call: %v", got.Error)
	}
}

func TestReceiptsAreWrittenAsLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := openWith(t, `receipts: {log: stdout}`, app.Options{Receipts: &out})
	r.Run(t.Context(), toolroom.Call{Tool: "files:write", Arguments: toolroom.Args{"path": "a", "content": "b"}.JSON()})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var kept toolroom.Receipt
	if err := json.Unmarshal(out.Bytes(), &kept); err != nil || kept.Tool != "files:write" || kept.Seq != 1 || kept.Hash == "" {
		t.Errorf("the line is %s, %v", &out, err)
	}
}

func TestCallsAreRefusedWhereTheReserveIsNotFree(t *testing.T) {
	t.Parallel()
	r := openWith(t, `receipts: {reserve: 4611686018427387904}`, app.Options{})
	got := r.Run(t.Context(), toolroom.Call{Tool: "files:write", Arguments: toolroom.Args{"path": "a", "content": "b"}.JSON()})
	if got.OK() || got.Error.Phase != toolroom.PhaseReceipt || !strings.Contains(got.Error.Message, "bytes are free") {
		t.Errorf("got %s %v", got.Status, got.Error)
	}
}

func TestACallWhoseProcessWasKilledHasAReceiptAfterTheRestart(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first := openWith(t, `receipts: {must: ["files:*"]}`, app.Options{Home: home})
	lost := &toolroom.Receipt{ID: "call_lost", Tool: "files:write", Started: time.Now()}
	if err := first.Parts().Recorder.Intend(t.Context(), lost, "999999999:0"); err != nil {
		t.Fatal(err)
	}
	if got := first.Run(t.Context(), toolroom.Call{ID: "call_whole", Tool: "files:write", Arguments: toolroom.Args{"path": "a", "content": "b"}.JSON()}); !got.OK() {
		t.Fatal(got.Error)
	}
	first.Close()
	second := openWith(t, ``, app.Options{Home: home})
	second.Start(t.Context())
	got, err := second.Receipt(t.Context(), "call_lost")
	if err != nil || got.Effects != toolroom.EffectsUnknown || !strings.Contains(got.Error.Message, "unknown") {
		t.Errorf("the receipt is %+v, %v", got, err)
	}
	if n, err := second.VerifyReceipts(t.Context()); n != 2 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
}
