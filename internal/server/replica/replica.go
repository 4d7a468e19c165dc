// Package replica lets the servers of one home answer for one another. What a
// client has begun at one of them, a session or a call that waits for answers, is
// in that one's memory; a request that comes to another is handed on to it, so that
// a balancer may send each request where it likes.
package replica

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// Headers of a request that is handed on: the proof that a server of the home does
// so, and where the request came from and to. Before that a server shows who it is,
// by what it answers to a challenge.
const (
	proofHeader     = "Toolroom-Replica"
	remoteHeader    = "Toolroom-Remote"
	localHeader     = "Toolroom-Local"
	challengeHeader = "Toolroom-Challenge"
)

// answerTime is how long another server on this machine has to say who it is.
const answerTime = 5 * time.Second

// Replica is one server of a home. Its methods may be called concurrently.
type Replica struct {
	// ID is in what clients carry of this server.
	ID string

	dir      string
	key      []byte
	listener net.Listener
	server   *http.Server
	others   *http.Transport
	work     sync.WaitGroup
}

// Open makes a server known to the others of a home, on a loopback address of its
// own. The key is what they share. Close it.
func Open(home string, key []byte) (*Replica, error) {
	dir := filepath.Join(home, "replicas")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Replica{ID: strings.ToLower(rand.Text()[:12]), dir: dir, key: key, listener: listener, others: &http.Transport{}}
	if err := atomicfile.Write(filepath.Join(dir, r.ID), []byte(listener.Addr().String()), 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return r, nil
}

// Start serves what the others hand on, with h and until Close. The requests are as
// they came to the others. An error that ends it is told to failed.
func (r *Replica) Start(srv *http.Server, h http.Handler, failed func(error)) {
	srv.Handler = r.handedOn(h)
	r.server = srv
	r.work.Go(func() {
		if err := srv.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
}

// Close takes the server out of the home. What was handed on ends. It must not be
// called while Start is.
func (r *Replica) Close() error {
	err := os.Remove(filepath.Join(r.dir, r.ID))
	if r.server != nil {
		r.server.Close()
	}
	r.listener.Close()
	r.work.Wait()
	r.others.CloseIdleConnections()
	return err
}

// proof shows that a server of the home says something. Its parts have no spaces.
func (r *Replica) proof(parts ...string) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte("replica " + strings.Join(parts, " ")))
	return hex.EncodeToString(mac.Sum(nil))
}

func (r *Replica) handedOn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if challenge := req.Header.Get(challengeHeader); challenge != "" {
			// A client that does not read the answer has gone.
			_, _ = io.WriteString(w, r.proof("is", r.ID, strings.ReplaceAll(challenge, " ", "")))
			return
		}
		remote, remoteErr := netip.ParseAddrPort(req.Header.Get(remoteHeader))
		local, localErr := netip.ParseAddrPort(req.Header.Get(localHeader))
		if !hmac.Equal([]byte(req.Header.Get(proofHeader)), []byte(r.proof("hands", "to", r.ID))) || remoteErr != nil || localErr != nil {
			http.Error(w, "this address is for the other servers of the home", http.StatusForbidden)
			return
		}
		// Who calls, and from where, is as if the request had come here.
		came := req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(local))))
		came.Header = req.Header.Clone()
		for _, name := range []string{proofHeader, remoteHeader, localHeader} {
			came.Header.Del(name)
		}
		came.RemoteAddr = remote.String()
		next.ServeHTTP(w, came)
	})
}

// Of hands requests on to another server, nil for this one and where it is gone.
func (r *Replica) Of(id string) http.Handler {
	if id == r.ID || len(id) != len(r.ID) || strings.ContainsFunc(id, func(c rune) bool { return !('a' <= c && c <= 'z' || '2' <= c && c <= '7') }) {
		return nil // it is a client's word, and a file's name
	}
	path := filepath.Join(r.dir, id)
	address, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	switch is, err := r.is(string(address), id); {
	case errors.Is(err, syscall.ECONNREFUSED), err == nil && !is:
		os.Remove(path) // it was killed, and its address may be another program's
		return nil
	case err != nil:
		return nil
	}
	return &httputil.ReverseProxy{
		Transport: r.others, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: string(address)})
			p.Out.Host = p.In.Host
			for name, values := range p.In.Header {
				if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
					p.Out.Header[name] = values // they say that a proxy stands before us
				}
			}
			p.Out.Header.Del(challengeHeader)
			p.Out.Header.Set(proofHeader, r.proof("hands", "to", id))
			p.Out.Header.Set(remoteHeader, p.In.RemoteAddr)
			p.Out.Header.Set(localHeader, fmt.Sprint(p.In.Context().Value(http.LocalAddrContextKey)))
		},
	}
}

// is reports whether the server at an address is the one with an id: what clients
// send is for no other program.
func (r *Replica) is(address, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return false, nil // no address at all
	}
	challenge := rand.Text()
	req.Header.Set(challengeHeader, challenge)
	resp, err := r.others.RoundTrip(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	want := r.proof("is", id, challenge)
	got, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(want))+1))
	return hmac.Equal(got, []byte(want)), err
}
