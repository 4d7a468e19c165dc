package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// localAPI serves the HTTP API on the socket of commands. Its clients are the operator.
type localAPI struct {
	handler        atomic.Pointer[http.Handler]
	conns          chan net.Conn
	server         *http.Server
	ended          context.Context
	cancel         context.CancelFunc
	addr           net.Addr
	lock           string                 // the file whose lock the first server of the home has; empty for another
	listenAddress  atomic.Pointer[string] // where the server listens
	reloadFunc     atomic.Pointer[func() (server.Reloaded, error)]
	logOtherServer func() // logs that another server runs on the home, if so
}

// reload reads the config again. It returns an error while the server starts.
func (l *localAPI) reload() (server.Reloaded, error) {
	if again := l.reloadFunc.Load(); again != nil {
		return (*again)()
	}
	return server.Reloaded{}, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the server is starting")
}

// setAddress records where the server listens; empty while it starts. It also writes the address
// to the lock file, for error messages of other processes.
func (l *localAPI) setAddress(address string) {
	l.listenAddress.Store(&address)
	if l.lock == "" {
		return
	}
	who := fmt.Sprintf("process %d", os.Getpid())
	if address != "" {
		who += " at " + address
	}
	_ = os.WriteFile(l.lock, []byte(who+"\n"), 0o600) // it only helps to find the server
}

// address returns where the server listens; empty while it starts.
func (l *localAPI) address() string {
	if at := l.listenAddress.Load(); at != nil {
		return *at
	}
	return ""
}

// setHandler sets the handler, once the server has started.
func (l *localAPI) setHandler(h http.Handler) { l.handler.Store(&h) }

func (l *localAPI) serve(ctx context.Context, at net.Addr) {
	l.conns, l.addr = make(chan net.Conn), at
	l.ended, l.cancel = context.WithCancel(ctx)
	l.server = auth.Server("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := l.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "the server is starting", http.StatusServiceUnavailable)
	}))
	go func() { _ = l.server.Serve(l) }() // ends with Close
}

func (l *localAPI) close() {
	l.cancel()
	l.server.Close()
}

// deliver passes a connection to the HTTP server, and reports whether it did.
func (l *localAPI) deliver(conn net.Conn) bool {
	select {
	case l.conns <- conn:
		return true
	case <-l.ended.Done():
		return false
	}
}

// Accept, Close and Addr make l the listener of its server.
func (l *localAPI) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The HTTP server calls it.
func (l *localAPI) Close() error {
	l.cancel()
	return nil
}

// Addr returns the address of the socket.
func (l *localAPI) Addr() net.Addr { return l.addr }

// peekedConn is a connection whose first bytes have been read already.
type peekedConn struct {
	net.Conn
	first []byte
}

func (b *peekedConn) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}
