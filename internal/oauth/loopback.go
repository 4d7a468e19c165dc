package oauth

import (
	"context"
	"fmt"
	"html"
	"net"
	"net/http"
	"time"
)

// callbackPath is where the browser comes back to.
const callbackPath = "/callback"

// Loopback waits on this machine for a browser to come back (RFC 8252, 7.3).
type Loopback struct {
	listener net.Listener
	server   *http.Server
	back     chan string
}

// NewLoopback listens on a port of this machine; zero is any.
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

// Redirect is the address for the authorization server.
func (l *Loopback) Redirect() string { return "http://" + l.listener.Addr().String() + callbackPath }

func (l *Loopback) serve(w http.ResponseWriter, r *http.Request) {
	text := "You are logged in. This window can be closed."
	if reason := r.URL.Query().Get("error"); reason != "" {
		text = "The login was refused: " + reason
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	fmt.Fprintf(w, "<!doctype html><title>Toolroom</title><p>%s", html.EscapeString(text))
	select {
	case l.back <- r.URL.String():
	default: // somebody has come already
	}
}

// Wait gives the address that the browser came with.
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
