package oauth

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Transport returns a transport that adds the tokens to requests to the server, which
// base carries. It repeats a refused request once with a new token, if it can obtain
// one. If it cannot, or if the server refuses the new token as well, the request fails
// with [*Needed] or [*Refused]. Requests to other hosts are unchanged, so that no token
// follows a redirect.
func (c *Client) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{c, base}
}

type transport struct {
	c    *Client
	base http.RoundTripper
}

// RoundTrip makes one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.c.isServer(req.URL) {
		return t.base.RoundTrip(req)
	}
	g, err := t.c.currentGrant(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	// Most servers require no token, so no copy of the request is needed.
	send := t.base.RoundTrip
	if g != nil {
		send = func(req *http.Request) (*http.Response, error) { return t.send(req, g) }
	}
	resp, err := send(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	ch := readChallenge(resp)
	if ch.status == http.StatusForbidden && !ch.insufficient {
		return resp, nil // another token would not help
	}
	if req.Body != nil && req.GetBody == nil {
		return resp, nil // the body cannot be sent twice
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDocument)
	resp.Body.Close()
	if g, err = t.c.handleChallenge(req.Context(), g, ch); err != nil {
		return nil, err
	}
	if resp, err = t.send(req, g); err != nil || g == nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	ch = readChallenge(resp)
	resp.Body.Close()
	return nil, t.c.refusedAgain(req.Context(), g, ch)
}

// send sends a request with a token. It repeats the request once if the server requires
// a nonce in the proof.
func (t *transport) send(req *http.Request, g *grant) (*http.Response, error) {
	for again := true; ; again = false {
		out, err := t.c.authorise(req, g)
		if err != nil {
			return nil, err
		}
		resp, err := t.base.RoundTrip(out)
		if err != nil {
			return nil, err
		}
		fresh := t.c.dpop.store(resp)
		if !again || !fresh || resp.StatusCode != http.StatusUnauthorized || readChallenge(resp).err != "use_dpop_nonce" {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxDocument)
		resp.Body.Close()
	}
}

// closeBody closes the body of a request that is not sent, as a transport must.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// authorise returns a copy of the request with a token, and with a proof if the token
// is bound to a key. If it returns an error, it has closed the body.
func (c *Client) authorise(req *http.Request, g *grant) (_ *http.Request, err error) {
	out := req.Clone(req.Context())
	defer func() {
		if err != nil {
			closeBody(out)
		}
	}()
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		closeBody(req) // the copy is sent instead
		out.Body = body
	}
	if g == nil {
		return out, nil
	}
	if !strings.EqualFold(g.TokenType, "DPoP") {
		out.Header.Set("Authorization", "Bearer "+g.AccessToken)
		return out, nil
	}
	key, err := g.signer()
	if err != nil {
		return nil, err
	}
	proof, err := key.proof(out, g.AccessToken, c.dpop.get(out.URL), c.now())
	if err != nil {
		return nil, err
	}
	out.Header.Set("Authorization", "DPoP "+g.AccessToken)
	out.Header.Set("DPoP", proof)
	return out, nil
}

// isServer reports whether an address is on the server that the tokens are for.
func (c *Client) isServer(u *url.URL) bool {
	return c.server != nil && u.Scheme == c.server.Scheme && strings.EqualFold(u.Host, c.server.Host)
}
