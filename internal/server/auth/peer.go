package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/proc"
)

type peerKey struct{}

// peerCheck returns nil if the client of a connection is the user of this server. The check is
// made at the first call, because most connections send tokens and need none.
type peerCheck func() error

// ConnContext is the ConnContext of the HTTP servers that serve [Middleware]. It lets the
// middleware find out which user is at the other end of a connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if tls, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = tls.NetConn()
	}
	return context.WithValue(ctx, peerKey{}, peerCheck(sync.OnceValue(func() error { return proc.CheckLocalPeer(c) })))
}

// checkPeer returns nil if the client of a request with this context is the user of this
// server or root, and an error that wraps [proc.ErrUnknownPeer] if the system does not tell.
func checkPeer(ctx context.Context) error {
	if check, ok := ctx.Value(peerKey{}).(peerCheck); ok {
		return check()
	}
	return errors.New("the server does not know whose connection it is")
}

// Peer returns the result of the check of a request's client, as text for [WithPeer] in another
// server of the same home to which the request is forwarded.
func Peer(ctx context.Context) string {
	switch err := checkPeer(ctx); {
	case err == nil:
		return peerSame
	case errors.Is(err, proc.ErrUnknownPeer):
		return peerUnknown
	default:
		return strings.Join(strings.Fields(err.Error()), " ")
	}
}

// Texts of [Peer] for clients that are not known to be another user.
const (
	peerSame    = "same"
	peerUnknown = "unknown"
)

// WithPeer returns a context for a request from another server, whose [Peer] returned found.
func WithPeer(ctx context.Context, found string) context.Context {
	var err error
	switch found {
	case peerSame:
	case peerUnknown:
		err = proc.ErrUnknownPeer
	default:
		err = errors.New(found)
	}
	return context.WithValue(ctx, peerKey{}, peerCheck(func() error { return err }))
}

// checkLocalOperator returns nil if a request without a token comes from the local operator.
func (o *Options) checkLocalOperator(r *http.Request) error {
	if !isLocal(r) {
		return unauthenticated("this server requires a token")
	}
	err := checkPeer(r.Context())
	switch {
	case err == nil:
		return o.checkHost(r)
	case !errors.Is(err, proc.ErrUnknownPeer):
		return unauthenticated("this server requires a token: " + err.Error())
	case isChange(r) && isBelow(r.URL.Path, o.Privileged):
		return unauthenticated("this change requires a token: " + err.Error())
	}
	return o.checkHost(r)
}
