package approval

import (
	"bytes"
	"cmp"
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

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
)

// AnswerPath is the path at which a server accepts answers by link; the token
// follows it.
const AnswerPath = "/approve/"

// Hook is a webhook that receives questions.
type Hook struct {
	// Name is the NAME of the approver hook:NAME.
	Name string
	// URL receives the message by POST. Any 2xx status confirms it; redirects are
	// not followed.
	URL string
	// PublicURL is the URL at which people reach this server. Without it the
	// message has no link.
	PublicURL string
	Headers   map[string]string
	// Secret signs messages. If it is empty, messages are not signed.
	Secret string
}

// HookMessage is the JSON document that a webhook receives.
type HookMessage struct {
	Event    string             `json:"event"`
	Approval *toolroom.Approval `json:"approval"`
	// Link opens a page that shows the call and takes the answer. Anyone who has
	// the link can answer, once, until it expires.
	Link string `json:"link,omitempty"`
}

// SignatureHeader carries the signature, t=UNIXTIME,v1=HEX: the HMAC-SHA256 with
// the hook's secret over the time, a full stop and the body.
const SignatureHeader = "Toolroom-Signature"

// DeliveryHeader carries the id of a message. A retry has the same id.
const DeliveryHeader = "Toolroom-Delivery"

// NotifierOptions configure a Notifier. Approvals and Hooks are required.
type NotifierOptions struct {
	Approvals *Service
	// Hooks returns the webhooks to notify. It is called once per poll.
	Hooks func(context.Context) ([]Hook, error)
	// Poll is how often the store is checked for new questions (1 s). First is the
	// pause after the first failure (1 s); it doubles up to Last (1 min).
	Poll, First, Last time.Duration
	// Redact removes secrets from each message; nil changes nothing.
	Redact func(body []byte) []byte
	Log    *slog.Logger
}

// Notifier sends messages. The store records each delivery, so that a restart
// does not repeat it. A message may arrive twice if several processes notify, or
// if one dies between sending and recording.
type Notifier struct {
	o      NotifierOptions
	client *http.Client

	mu      sync.Mutex
	started map[string]bool // deliveries under way, or given up
}

// attemptTimeout bounds one attempt.
const attemptTimeout = 10 * time.Second

// NewNotifier returns a Notifier.
func NewNotifier(o NotifierOptions) *Notifier {
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.First = cmp.Or(o.First, time.Second)
	o.Last = cmp.Or(o.Last, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Notifier{
		o: o, started: map[string]bool{},
		client: &http.Client{
			Timeout: attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// Run sends notifications until ctx ends, then waits for deliveries in progress.
func (n *Notifier) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	defer n.client.CloseIdleConnections()
	tick := time.NewTicker(n.o.Poll)
	defer tick.Stop()
	for {
		panics.Log(n.o.Log, "polling for pending approvals", func() { n.poll(ctx, &sending) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll starts the deliveries that are due.
func (n *Notifier) poll(ctx context.Context, sending *sync.WaitGroup) {
	hooks, err := n.o.Hooks(ctx)
	if err != nil {
		n.o.Log.Error("failed to read the webhooks of approvals", "error", err)
		return
	}
	if len(hooks) == 0 {
		return
	}
	pending, err := n.o.Approvals.List(ctx, toolroom.ApprovalPending)
	if err != nil {
		if ctx.Err() == nil {
			n.o.Log.Error("failed to list pending approvals for webhooks", "error", err)
		}
		return
	}
	current := map[string]bool{}
	for _, a := range pending {
		for _, h := range hooks {
			id := a.ID + ":" + h.Name
			current[id] = true
			if !slices.Contains(a.Notified, h.Name) && n.claim(id) {
				sending.Go(func() { panics.Log(n.o.Log, "notifying a webhook", func() { n.deliver(ctx, id, a, h) }) })
			}
		}
	}
	n.forget(current)
}

func (n *Notifier) claim(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started[id] {
		return false
	}
	n.started[id] = true
	return true
}

// forget removes the deliveries of approvals that are no longer pending.
func (n *Notifier) forget(current map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.started {
		if !current[id] {
			delete(n.started, id)
		}
	}
}

// deliver retries until the message has arrived or is refused permanently, or
// the question is no longer pending.
func (n *Notifier) deliver(ctx context.Context, id string, a *toolroom.Approval, h Hook) {
	ctx, cancel := context.WithDeadline(ctx, a.Expires)
	defer cancel()
	for pause := n.o.First; ; pause = min(2*pause, n.o.Last) {
		again, err := n.send(ctx, id, a, h)
		if err == nil {
			if err := n.o.Approvals.RecordNotified(ctx, a.ID, h.Name); err != nil && ctx.Err() == nil {
				n.o.Log.Warn("failed to record the delivery to a webhook; it may be notified twice", "approval", a.ID, "hook", h.Name, "error", err)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		// The URL is not logged because it may contain a token.
		n.o.Log.Warn("failed to notify a webhook of an approval", "approval", a.ID, "hook", h.Name, "error", err, "again", again)
		if !again {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if now, err := n.o.Approvals.Get(ctx, a.ID); err == nil && now.State != toolroom.ApprovalPending {
			return
		}
	}
}

func (n *Notifier) send(ctx context.Context, id string, a *toolroom.Approval, h Hook) (again bool, err error) {
	m := HookMessage{Event: "approval.pending", Approval: a}
	if h.PublicURL != "" {
		m.Link = strings.TrimRight(h.PublicURL, "/") + AnswerPath + n.o.Approvals.Link(a, h.Name)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	if n.o.Redact != nil {
		body = n.o.Redact(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("the hook's url is not valid")
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
		return true, urlErrorCause(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode/100 == 2:
		return false, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return true, fmt.Errorf("the webhook returned %s", res.Status)
	default:
		return false, fmt.Errorf("the webhook returned %s", res.Status)
	}
}

// urlErrorCause returns the innermost error of http.Client, which has no URL in it.
func urlErrorCause(err error) error {
	for inner := err; inner != nil; {
		wrapped, ok := inner.(interface{ Unwrap() error })
		if !ok {
			return inner
		}
		inner = wrapped.Unwrap()
	}
	return err
}

// Sign returns the value of SignatureHeader.
func Sign(secret string, now time.Time, body []byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "."))
	h.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(h.Sum(nil))
}
