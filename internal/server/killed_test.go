package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// killedHome is where the child of TestKillingTheServerLosesNoReceipt serves.
const killedHome = "TOOLROOM_TEST_KILLED_HOME"

// TestServeUntilKilled is the child.
func TestServeUntilKilled(t *testing.T) {
	home := os.Getenv(killedHome)
	if home == "" {
		t.Skip("it is run by TestKillingTheServerLosesNoReceipt")
	}
	r, err := app.Open(t.Context(), app.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for name, hints := range map[string]toolroom.Hints{"read": {ReadOnly: &yes}, "write": {}} {
		tool := toolroom.Tool{ID: toolroom.ID{Namespace: "few", Name: name}, Description: "For the test.", Hints: hints}
		err := app.RegisterTool(r, tool, func(_ context.Context, in struct {
			N int `json:"n"`
		},
		) (int, error) {
			return in.N, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = Serve(t.Context(), r, Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) {
		if err := os.WriteFile(filepath.Join(home, "address.new"), []byte(a.String()), 0o600); err == nil {
			_ = os.Rename(filepath.Join(home, "address.new"), filepath.Join(home, "address"))
		}
	}})
	t.Fatal("it ended by itself: ", err)
}

func TestKillingTheServerLosesNoReceipt(t *testing.T) {
	if os.Getenv(killedHome) != "" {
		t.Skip("this is the child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, times := t.TempDir(), 4
	if !testing.Short() {
		times = 30
	}
	for range times {
		answered := loadAndKill(t, self, home)
		r, err := app.Open(t.Context(), app.Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		for _, call := range answered {
			if _, err := r.Receipt(t.Context(), call); err != nil {
				lost++
			}
		}
		if lost > 0 || len(answered) == 0 {
			t.Errorf("%d of %d answered calls have no receipt", lost, len(answered))
		}
		if n, err := r.VerifyReceipts(t.Context()); err != nil || n < int64(len(answered)) {
			t.Errorf("%d receipts: %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(home, "receipts.journal", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// loadAndKill begins a server, has it called by several clients, kills it, and
// returns the calls that were answered.
func loadAndKill(t *testing.T, self, home string) (answered []string) {
	t.Helper()
	address := filepath.Join(home, "address")
	_ = os.Remove(address) // there is none the first time
	cmd := exec.Command(self, "-test.run=^TestServeUntilKilled$")
	cmd.Env = append(os.Environ(), killedHome+"="+home)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // it says that it was killed
	defer func() { _ = cmd.Process.Kill() }()
	var at []byte
	for end := time.Now().Add(time.Minute); len(at) == 0; time.Sleep(5 * time.Millisecond) {
		if at, _ = os.ReadFile(address); time.Now().After(end) {
			t.Fatal("the server does not serve")
		}
	}
	var mu sync.Mutex
	var clients sync.WaitGroup
	first := make(chan struct{}, 1)
	for i := range 4 {
		clients.Go(func() {
			for n := 0; ; n++ {
				call, body := fmt.Sprintf("few:%s", [2]string{"read", "write"}[(i+n)%2]), ""
				body = `{"tool": "` + call + `", "arguments": {"n": ` + fmt.Sprint(n) + `}}`
				if n%7 == 0 {
					body = `{"tool": "few:none"}` // refused calls have receipts, too
				}
				res, err := http.Post("http://"+string(at)+"/api/v1/call", "application/json", strings.NewReader(body))
				if err != nil {
					return
				}
				var answer struct{ Call string }
				err = json.NewDecoder(res.Body).Decode(&answer)
				res.Body.Close()
				if err != nil {
					return
				}
				if answer.Call != "" {
					mu.Lock()
					answered = append(answered, answer.Call)
					mu.Unlock()
					select {
					case first <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Error("no call is answered")
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	return answered
}
