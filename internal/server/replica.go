package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
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
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Headers of a forwarded request: the proof that a server of the home forwards it, the
// addresses from and to which the client sent it, and whether the client is the operator's
// process. Before a request is forwarded, a server
// proves its identity by its response to a challenge.
const (
	proofHeader     = "Toolroom-Replica"
	remoteHeader    = "Toolroom-Remote"
	localHeader     = "Toolroom-Local"
	schemeHeader    = "Toolroom-Scheme"
	peerHeader      = "Toolroom-Peer"
	challengeHeader = "Toolroom-Challenge"
)

// challengeTimeout limits the challenge of another server on this machine.
const challengeTimeout = 5 * time.Second

// Replica is one server of a home. Its methods are safe for concurrent use.
type Replica struct {
	// ID identifies this server in the tokens and session ids that it issues.
	ID string

	dir      string
	key      []byte
	listener net.Listener
	server   *http.Server
	others   *http.Transport
	work     sync.WaitGroup
}

// OpenReplica registers a server with the others of a home, at a loopback address of its own.
// All servers of a home share the key. Close removes the server.
func OpenReplica(home string, key []byte) (*Replica, error) {
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

// Start serves forwarded requests with h until Close. h sees each request as the client
// sent it to the other server. If serving fails, Start calls failed with the error.
func (r *Replica) Start(srv *http.Server, h http.Handler, failed func(error)) {
	srv.Handler = r.forwarded(h)
	r.server = srv
	r.work.Go(func() {
		if err := srv.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
}

// Close removes the server from the home and ends forwarded requests. It must not be
// called concurrently with Start.
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

// proof returns a proof that a server of the home sent parts, which must not contain
// spaces.
func (r *Replica) proof(parts ...string) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte("replica " + strings.Join(parts, " ")))
	return hex.EncodeToString(mac.Sum(nil))
}

func (r *Replica) forwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if challenge := req.Header.Get(challengeHeader); challenge != "" && req.Host == r.listener.Addr().String() {
			// An error means that the client has gone.
			_, _ = io.WriteString(w, r.proof("is", r.ID, strings.ReplaceAll(challenge, " ", "")))
			return
		}
		remote, remoteErr := netip.ParseAddrPort(req.Header.Get(remoteHeader))
		local, localErr := netip.ParseAddrPort(req.Header.Get(localHeader))
		if !hmac.Equal([]byte(req.Header.Get(proofHeader)), []byte(r.proof("hands", "to", r.ID))) || remoteErr != nil || localErr != nil {
			http.Error(w, "this address is for the other servers of the home", http.StatusForbidden)
			return
		}
		// Restore the addresses, as if the client had sent the request here.
		ctx := auth.WithPeer(req.Context(), req.Header.Get(peerHeader))
		came := req.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(local))))
		came.Header = req.Header.Clone()
		for _, name := range []string{proofHeader, remoteHeader, localHeader, schemeHeader, peerHeader} {
			came.Header.Del(name)
		}
		came.RemoteAddr = remote.String()
		if req.Header.Get(schemeHeader) == "https" {
			came.TLS = &tls.ConnectionState{} // its origin is https
		}
		next.ServeHTTP(w, came)
	})
}

// Of returns a handler that forwards requests to another server. It returns nil for
// this server, and if the other server is gone.
func (r *Replica) Of(id string) http.Handler {
	if id == r.ID || len(id) != len(r.ID) || strings.ContainsFunc(id, func(c rune) bool { return !('a' <= c && c <= 'z' || '2' <= c && c <= '7') }) {
		return nil // clients send ids, which are used as file names
	}
	path := filepath.Join(r.dir, id)
	address, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	switch is, err := r.is(string(address), id); {
	case errors.Is(err, syscall.ECONNREFUSED), err == nil && !is:
		os.Remove(path) // it was killed, and another program may use its address
		return nil
	case err != nil:
		return nil
	}
	proxy := httputil.ReverseProxy{
		Transport: r.others, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: string(address)})
			p.Out.Host = p.In.Host
			for name, values := range p.In.Header {
				if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
					p.Out.Header[name] = values // they show that the request passed a proxy
				}
			}
			p.Out.Header.Del(challengeHeader)
			p.Out.Header.Set(proofHeader, r.proof("hands", "to", id))
			p.Out.Header.Set(remoteHeader, p.In.RemoteAddr)
			p.Out.Header.Set(peerHeader, auth.Peer(p.In.Context()))
			p.Out.Header.Del(schemeHeader)
			if p.In.TLS != nil {
				p.Out.Header.Set(schemeHeader, "https")
			}
			p.Out.Header.Set(localHeader, fmt.Sprint(p.In.Context().Value(http.LocalAddrContextKey)))
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		proxy := proxy
		proxy.ModifyResponse = func(answer *http.Response) error {
			for name := range w.Header() {
				answer.Header.Del(name) // both servers set it
			}
			return nil
		}
		proxy.ServeHTTP(w, req)
	})
}

// is reports whether the server at an address has an id. Requests of clients must not
// be sent to any other program.
func (r *Replica) is(address, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), challengeTimeout)
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
