package approval_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// lockedText is a text that several goroutines use.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until the log says a text so often.
func (l *lockedText) await(t *testing.T, text string, times int) {
	t.Helper()
	for begun := time.Now(); strings.Count(l.String(), text) < times; {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("the log does not say %q %d times: %s", text, times, l.String())
		}
		time.Sleep(time.Millisecond)
	}
}

func run(t *testing.T, o approval.NotifierOptions) (stop func()) {
	t.Helper()
	o.Poll, o.First, o.Last = time.Millisecond, time.Millisecond, 2*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { approval.NewNotifier(o).Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func hooks(all ...approval.Hook) func(context.Context) ([]approval.Hook, error) {
	return func(context.Context) ([]approval.Hook, error) { return all, nil }
}

func TestWhatFailsIsLoggedWithoutTheURL(t *testing.T) {
	t.Parallel()
	const gone = "http://127.0.0.1:1" // a closed server's port may be another test's a moment later
	for name, tt := range map[string]struct {
		url   string
		says  []string
		times int
	}{
		"nobody there": {gone + "/token-in-the-path", []string{"connection refused", "again=true"}, 3},
		"no URL":       {"http://[::1/token-in-the-path", []string{"url is not valid", "again=false"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, approvals, h := setUp(t)
			h.URL = tt.url
			log := &lockedText{}
			stop := run(t, approval.NotifierOptions{Approvals: approvals, Hooks: hooks(h), Log: slog.New(slog.NewTextHandler(log, nil))})
			request(t, approvals, "one")
			for _, text := range tt.says {
				log.await(t, text, tt.times)
			}
			stop()
			if strings.Contains(log.String(), "token-in-the-path") {
				t.Errorf("the log has the URL: %s", log)
			}
		})
	}
}

func TestWhichAnswersOfAWebhookAreTriedAgain(t *testing.T) {
	t.Parallel()
	for status, again := range map[int]bool{500: true, 502: true, 429: true, 408: true, 400: false, 499: false, 304: false} {
		r, approvals, h := setUp(t, status)
		log := &lockedText{}
		stop := run(t, approval.NotifierOptions{Approvals: approvals, Hooks: hooks(h), Log: slog.New(slog.NewTextHandler(log, nil))})
		a := request(t, approvals, "one")
		r.wait(t)
		if again {
			r.wait(t)
			for {
				if got, err := approvals.Get(t.Context(), a.ID); err != nil || len(got.Notified) == 1 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		} else {
			log.await(t, "again=false", 1)
		}
		stop()
		if got, err := approvals.Get(t.Context(), a.ID); err != nil || len(got.Notified) == 1 != again {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
		if again == strings.Contains(log.String(), "again=false") {
			t.Errorf("%d: %s", status, log)
		}
	}
}

func TestAMessageHasItsTypeAndNoSecrets(t *testing.T) {
	t.Parallel()
	r, approvals, h := setUp(t)
	h.Secret, h.PublicURL = "", ""
	stop := run(t, approval.NotifierOptions{Approvals: approvals, Hooks: hooks(h), Redact: func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte("writes a"), []byte("[redacted]"))
	}})
	request(t, approvals, "one")
	r.wait(t)
	stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	body, header := string(r.bodies[0]), r.got[0].Header
	if strings.Contains(body, "writes a") || !strings.Contains(body, "[redacted]") || strings.Contains(body, `"link"`) {
		t.Errorf("sent %s", body)
	}
	if header.Get("Content-Type") != "application/json" || header.Get(approval.SignatureHeader) != "" {
		t.Errorf("headers %v", header)
	}
}

// Receivers check this form.
func TestASignatureIsOverTheTimeAndTheBody(t *testing.T) {
	t.Parallel()
	h := hmac.New(sha256.New, []byte("secret"))
	h.Write([]byte(`5.{"event":"x"}`))
	if want, got := "t=5,v1="+hex.EncodeToString(h.Sum(nil)), approval.Sign("secret", time.Unix(5, 0), []byte(`{"event":"x"}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAQuestionThatIsAnsweredIsNoLongerTold(t *testing.T) {
	t.Parallel()
	r, approvals, h := setUp(t)
	var a *toolroom.Approval
	answered := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		once.Do(func() {
			if _, err := approvals.Answer(context.WithoutCancel(t.Context()), a.ID, toolroom.Answer{Approve: true}); err != nil {
				t.Error(err)
			}
			close(answered)
		})
		r.each <- struct{}{}
	}))
	t.Cleanup(server.Close)
	h.URL = server.URL
	log := &lockedText{}
	a = request(t, approvals, "one")
	stop := run(t, approval.NotifierOptions{Approvals: approvals, Hooks: hooks(h), Log: slog.New(slog.NewTextHandler(log, nil))})
	<-answered
	// The next question comes after several looks.
	for i := range 3 {
		h2 := request(t, approvals, "other"+string(rune('a'+i)))
		if err := approvals.Abandon(t.Context(), h2.ID); err != nil {
			t.Error(err)
		}
	}
	log.await(t, "503", 1)
	stop()
	if n := strings.Count(log.String(), a.ID); n != 1 {
		t.Errorf("tried %d times: %s", n, log)
	}
}

func TestANotifierOutlivesErrorsAndPanics(t *testing.T) {
	t.Parallel()
	broken := errors.New("the config is broken")
	_, approvals, _ := setUp(t)
	log := &lockedText{}
	looks := 0
	stop := run(t, approval.NotifierOptions{Approvals: approvals, Log: slog.New(slog.NewTextHandler(log, nil)), Hooks: func(context.Context) ([]approval.Hook, error) {
		looks++
		if looks < 3 {
			return nil, broken
		}
		panic("a bug")
	}})
	log.await(t, "failed to read the webhooks", 2)
	log.await(t, "a bug", 2) // it goes on after a panic, too
	stop()
}

func TestAStoreThatFailsIsLogged(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	approvals := approval.New(store, approval.Options{})
	sent, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(sent)
		<-release
	}))
	t.Cleanup(server.Close)
	log := &lockedText{}
	stop := run(t, approval.NotifierOptions{Approvals: approvals, Hooks: hooks(approval.Hook{Name: "ops", URL: server.URL}), Log: slog.New(slog.NewTextHandler(log, nil))})
	request(t, approvals, "one")
	<-sent
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	log.await(t, "failed to record the delivery", 1)
	log.await(t, "failed to list pending approvals", 1)
	stop()
}
