package oauth

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Transport puts the tokens into the requests to the server that base carries.
// A refused request is made once more with a new token, if one can be had; else
// it fails with [*Needed] or [*Refused], and so where the new token is refused too. Requests to other hosts go through as
// they are, so that a redirect takes no token along.
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
	if !t.c.owns(req.URL) {
		return t.base.RoundTrip(req)
	}
	g, err := t.c.token(req.Context())
	if err != nil {
		return nil, err
	}
	// Most servers want no token: then there is nothing to put into a copy.
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
		return resp, nil // what no token changes
	}
	if req.Body != nil && req.GetBody == nil {
		return resp, nil // it cannot be sent twice
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDocument)
	resp.Body.Close()
	if g, err = t.c.challenged(req.Context(), g, ch); err != nil {
		return nil, err
	}
	if resp, err = t.send(req, g); err != nil || g == nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	ch = readChallenge(resp)
	resp.Body.Close()
	return nil, t.c.unwelcome(req.Context(), g, ch)
}

// send sends a request with a token. A server that wants a nonce in the proof
// is asked once more.
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
		fresh := t.c.dpop.note(resp)
		if !again || !fresh || resp.StatusCode != http.StatusUnauthorized || readChallenge(resp).err != "use_dpop_nonce" {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxDocument)
		resp.Body.Close()
	}
}

// authorise is a copy of the request that bears a token, and the proof that it
// is bound to.
func (c *Client) authorise(req *http.Request, g *grant) (*http.Request, error) {
	out := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
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

// owns reports whether an address is on the server that the tokens are for.
func (c *Client) owns(u *url.URL) bool {
	return c.server != nil && u.Scheme == c.server.Scheme && strings.EqualFold(u.Host, c.server.Host)
}
