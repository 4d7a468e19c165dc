package egress

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// MaxConnections is how many connections of one program are served at once; others wait. A
// program could otherwise use up the files that Toolroom may open.
const MaxConnections = 256

// proxy is an HTTP proxy that checks every connection with a guard: CONNECT for TLS, and
// plain requests with an absolute address.
type proxy struct {
	guard *Guard
	log   *slog.Logger
	plain *httputil.ReverseProxy
	ended context.Context
	// refused is told about every connection that the guard refuses.
	refused func(host string, err error)
}

// ServeProxy serves the proxy of one program, which must reach other machines through guard
// only, until done is closed. Refused, if it is not nil,
// is called with every host that the guard refuses.
func ServeProxy(listener net.Listener, guard *Guard, log *slog.Logger, refused func(host string, err error), done <-chan struct{}) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if refused == nil {
		refused = func(string, error) {}
	}
	ended, end := context.WithCancel(context.Background())
	transport := guard.Transport()
	p := &proxy{guard: guard, log: log, ended: ended, refused: refused}
	p.plain = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) {}, // keep the program's address
		Transport:    transport,
		ErrorHandler: p.fail,
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		// Close does not end a connection that has switched protocols.
		BaseContext: func(net.Listener) context.Context { return ended },
	}
	go func() { _ = server.Serve(&limitedListener{listener, make(chan struct{}, MaxConnections)}) }() // ends with Close
	go func() {
		<-done
		end()
		server.Close()
		transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	}()
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case !r.URL.IsAbs():
		http.Error(w, "this is a proxy: send an absolute address", http.StatusBadRequest)
	default:
		p.plain.ServeHTTP(w, r)
	}
}

// fail reports to the program, and logs for the operator, why a connection was not made.
func (p *proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if toolroom.CodeOf(err) == toolroom.CodeDenied {
		status = http.StatusForbidden
		p.refused(r.Host, err)
		p.log.Warn("a program may not reach a host", "host", r.Host, "error", err)
	}
	http.Error(w, "toolroom: "+err.Error(), status)
}

func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	far, err := p.guard.Tunnel(r.Context(), r.Host)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.fail(w, r, err)
		return
	}
	defer near.Close()
	stop := context.AfterFunc(p.ended, func() {
		near.Close()
		far.Close()
	})
	defer stop()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(far, buffered) // first what was read ahead
		closeWrite(far)
	}()
	_, _ = io.Copy(near, far)
	closeWrite(near)
	<-sent
}

// closeWrite closes one direction of a connection, or the whole connection if it cannot
// close one.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	c.Close()
}

// limitedListener is a listener with a limited number of open connections. Unlike that of package
// netutil it keeps CloseWrite.
type limitedListener struct {
	net.Listener
	open chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	l.open <- struct{}{} // the end of the server closes all connections, and so this goes on
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{c, sync.OnceFunc(func() { <-l.open })}, nil
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
