// Package hook tells people about approvals over HTTP: [Notifier] sends each
// question to the webhooks of the config, with a link that answers it.
package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom/internal/approval"
)

// AnswerPath is where a server takes answers by link; the token follows.
const AnswerPath = "/approve/"

// Hook is a place that is told of questions.
type Hook struct {
	// Name is that of the approver, hook:NAME.
	Name string
	// URL takes the message by POST. Any 2xx says that it has arrived; redirects
	// are not followed.
	URL string
	// PublicURL is where people reach this server. Without it the message has no
	// link.
	PublicURL string
	Headers   map[string]string
	// Secret signs messages; empty signs none.
	Secret string
}

// Message is what a webhook is sent, as JSON.
type Message struct {
	Event    string             `json:"event"`
	Approval *approval.Approval `json:"approval"`
	// Link opens a page that shows the call and takes the answer. Whoever has it
	// can answer, until it expires or has answered.
	Link string `json:"link,omitempty"`
}

// SignatureHeader is t=UNIXTIME,v1=HEX: the HMAC-SHA256 with the hook's secret
// over the time, a full stop and the body.
const SignatureHeader = "Toolroom-Signature"

// DeliveryHeader names a message; a repeat after a failure has the same name.
const DeliveryHeader = "Toolroom-Delivery"

// Options are the parts of a Notifier. Desk and Hooks are required.
type Options struct {
	Desk *approval.Desk
	// Hooks are those to tell, looked up for each attempt.
	Hooks func(context.Context) ([]Hook, error)
	// Poll is how often the store is asked for new questions (1 s), First the
	// pause after a first failure (1 s), which doubles up to Last (1 min).
	Poll, First, Last time.Duration
	Log               *slog.Logger
}

// Notifier sends messages. What has been delivered is kept in the store, so
// that a restart repeats nothing that has arrived; where several processes
// notify, or one dies in between, a message may come twice.
type Notifier struct {
	o      Options
	client *http.Client

	mu   sync.Mutex
	busy map[string]bool // deliveries under way, or given up
}

// attemptTimeout bounds one attempt.
const attemptTimeout = 10 * time.Second

// New makes a notifier.
func New(o Options) *Notifier {
	set(&o.Poll, time.Second)
	set(&o.First, time.Second)
	set(&o.Last, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Notifier{
		o: o, busy: map[string]bool{},
		client: &http.Client{
			Timeout: attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

func set(d *time.Duration, fallback time.Duration) {
	if *d <= 0 {
		*d = fallback
	}
}

// Run notifies until ctx ends, then waits for what is under way.
func (n *Notifier) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	defer n.client.CloseIdleConnections()
	tick := time.NewTicker(n.o.Poll)
	defer tick.Stop()
	for {
		n.look(ctx, &sending)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look begins the deliveries that are due.
func (n *Notifier) look(ctx context.Context, sending *sync.WaitGroup) {
	hooks, err := n.o.Hooks(ctx)
	if err != nil {
		n.o.Log.Error("the webhooks of approvals cannot be used", "error", err)
		return
	}
	if len(hooks) == 0 {
		return
	}
	pending, err := n.o.Desk.List(ctx, approval.Pending)
	if err != nil {
		if ctx.Err() == nil {
			n.o.Log.Error("webhooks cannot be told of approvals", "error", err)
		}
		return
	}
	current := map[string]bool{}
	for _, a := range pending {
		for _, h := range hooks {
			id := a.ID + ":" + h.Name
			current[id] = true
			if !slices.Contains(a.Notified, h.Name) && n.claim(id) {
				sending.Go(func() { n.deliver(ctx, id, a, h) })
			}
		}
	}
	n.forget(current)
}

func (n *Notifier) claim(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[id] {
		return false
	}
	n.busy[id] = true
	return true
}

// forget drops what is no longer pending.
func (n *Notifier) forget(current map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.busy {
		if !current[id] {
			delete(n.busy, id)
		}
	}
}

// deliver tries until the message has arrived, is refused for good, or the
// question is over.
func (n *Notifier) deliver(ctx context.Context, id string, a *approval.Approval, h Hook) {
	ctx, cancel := context.WithDeadline(ctx, a.Expires)
	defer cancel()
	for pause := n.o.First; ; pause = min(2*pause, n.o.Last) {
		again, err := n.send(ctx, id, a, h)
		if err == nil {
			if err := n.o.Desk.Notified(ctx, a.ID, h.Name); err != nil && ctx.Err() == nil {
				n.o.Log.Warn("a webhook may be told of an approval twice", "approval", a.ID, "hook", h.Name, "error", err)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		// The URL may hold a token: it is not logged.
		n.o.Log.Warn("a webhook could not be told of an approval", "approval", a.ID, "hook", h.Name, "error", err, "again", again)
		if !again {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if now, err := n.o.Desk.Get(ctx, a.ID); err == nil && now.State != approval.Pending {
			return
		}
	}
}

func (n *Notifier) send(ctx context.Context, id string, a *approval.Approval, h Hook) (again bool, err error) {
	m := Message{Event: "approval.pending", Approval: a}
	if h.PublicURL != "" {
		m.Link = strings.TrimRight(h.PublicURL, "/") + AnswerPath + n.o.Desk.Link(a, h.Name)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("the hook's url cannot be used")
	}
	for name, value := range h.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(DeliveryHeader, id)
	if h.Secret != "" {
		req.Header.Set(SignatureHeader, Sign(h.Secret, time.Now(), body))
	}
	res, err := n.client.Do(req)
	if err != nil {
		return true, reason(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode/100 == 2:
		return false, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return true, fmt.Errorf("it answered %s", res.Status)
	default:
		return false, fmt.Errorf("it answered %s", res.Status)
	}
}

// reason leaves the URL out of what http.Client reports.
func reason(err error) error {
	for inner := err; inner != nil; {
		wrapped, ok := inner.(interface{ Unwrap() error })
		if !ok {
			return inner
		}
		inner = wrapped.Unwrap()
	}
	return err
}

// Sign is the value of SignatureHeader.
func Sign(secret string, now time.Time, body []byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "."))
	h.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(h.Sum(nil))
}
