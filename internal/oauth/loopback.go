package oauth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// callbackPath is the path to which the browser is redirected.
const callbackPath = "/callback"

// Loopback waits on this machine for the redirected browser (RFC 8252, 7.3).
type Loopback struct {
	listener net.Listener
	server   *http.Server
	state    atomic.Pointer[string] // of the login
	back     chan string
}

// NewLoopback listens on a port of this machine; zero means any.
func NewLoopback(port int) (*Loopback, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	l := &Loopback{listener: listener, back: make(chan string, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, l.serve)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = l.server.Serve(listener) }()
	return l, nil
}

// Redirect returns the redirect URL for the authorization server.
func (l *Loopback) Redirect() string { return "http://" + l.listener.Addr().String() + callbackPath }

// Expect sets the login that Wait waits for, by the address at which it begins. Requests
// that do not have that login's state are refused: anyone on this machine, and any web
// page, can send one.
func (l *Loopback) Expect(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	state := u.Query().Get("state")
	l.state.Store(&state)
	return nil
}

func (l *Loopback) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Frame-Options", "DENY")
	if r.Host != l.listener.Addr().String() {
		// The authorization server sends the browser to Redirect. A page whose host
		// name was pointed at this machine sends its own host name.
		http.Error(w, "this address is "+l.Redirect(), http.StatusForbidden)
		return
	}
	state := l.state.Load()
	if state == nil || *state == "" || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(*state)) != 1 {
		http.Error(w, "this is not the redirect of the login that Toolroom waits for: its state differs", http.StatusBadRequest)
		return
	}
	text := "You are logged in. This window can be closed."
	if reason := r.URL.Query().Get("error"); reason != "" {
		text = "The login was refused: " + reason
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	fmt.Fprintf(w, "<!doctype html><title>Toolroom</title><p>%s", html.EscapeString(text))
	select {
	case l.back <- r.URL.String():
	default: // there was a redirect already
	}
}

// Wait returns the URL that the browser requested. Call Expect before the browser is sent
// to log in.
func (l *Loopback) Wait(ctx context.Context) (string, error) {
	select {
	case back := <-l.back:
		return back, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Close stops listening.
func (l *Loopback) Close() error { return l.server.Close() }
