// Package httpcall sends the HTTP requests of sources. It limits their time and size,
// returns a distinct error for each kind of failure, and keeps secrets out of messages
// and away from other hosts.
package httpcall

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// Defaults of a Client.
const (
	DefaultTimeout     = 120 * time.Second // like the HTTP dispatcher of AgentFlow
	DefaultMaxResponse = 16 << 20
)

// Options are options of a [Client]. The zero value is ready to use.
type Options struct {
	// Timeout limits one exchange. The default is DefaultTimeout. The context may end it
	// earlier.
	Timeout time.Duration
	// MaxResponse limits the size of a body in bytes after decompression. The default is
	// DefaultMaxResponse.
	MaxResponse int64
	// RedirectHosts are the hosts, as host or host:port, to which a response may redirect
	// besides its own. They receive no headers except Accept, Content-Type and
	// User-Agent.
	RedirectHosts []string
	// Egress guards the connections; nil permits public addresses only.
	Egress *egress.Guard
	// Transport, if set, sends the requests in place of connections through Egress.
	Transport http.RoundTripper
}

// Client sends requests for one source. Its methods may be called concurrently.
type Client struct {
	options Options
	http    *http.Client
	calls   deadline.Calls
}

// NewClient returns a client, which must be closed.
func NewClient(options Options) *Client {
	options.Timeout = cmp.Or(options.Timeout, DefaultTimeout)
	options.MaxResponse = cmp.Or(options.MaxResponse, DefaultMaxResponse)
	if options.Transport == nil {
		options.Transport = options.Egress.WithOwn().Transport()
	}
	c := &Client{options: options}
	c.http = &http.Client{Transport: options.Transport, CheckRedirect: c.checkRedirect}
	return c
}

// Close ends the exchanges in flight and returns when they have ended. It is
// idempotent.
func (c *Client) Close() error {
	c.calls.Close()
	c.http.CloseIdleConnections()
	return nil
}

// Request is one exchange to make.
type Request struct {
	// HTTP is the request; its context is replaced.
	HTTP *http.Request
	// Secrets are the secrets in the request, which are kept out of messages. It may be
	// nil.
	Secrets *secretref.Secrets
	// Timeout, if not zero, replaces the client's.
	Timeout time.Duration
	// JSON means that the body must be JSON.
	JSON bool
	// Raw returns the undecoded body in Reply.Body only.
	Raw bool
}

// Reply is the result of an exchange. After a failure only Effects and Unsent are set in
// Output.
type Reply struct {
	source.Output
	Header http.Header
	Body   []byte
}

// Do makes the exchange. It returns an error if the status is 400 or more or if there is
// no valid response. The codes are upstream_unavailable,
// upstream_error, rate_limited, timeout, cancelled, resource_limit and
// invalid_output. The reply is never nil.
func (c *Client) Do(ctx context.Context, req Request) (*Reply, error) {
	ctx, done, err := c.calls.Begin(ctx)
	if err != nil {
		return &Reply{Output: source.Output{Effects: toolroom.EffectsNone, Unsent: true}}, err
	}
	defer done()

	timeout := c.options.Timeout
	if req.Timeout > 0 {
		timeout = req.Timeout
	}
	x := &exchange{client: c, secrets: req.Secrets, method: req.HTTP.Method, host: req.HTTP.URL.Host, json: req.JSON}
	if x.secrets == nil {
		x.secrets = secretref.New(nil)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, x.timeoutError(timeout))
	defer cancel()

	// A request that was not sent had no effect.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	if req.HTTP.Header.Get("User-Agent") == "" {
		req.HTTP.Header.Set("User-Agent", "toolroom")
	}
	response, err := c.http.Do(req.HTTP.WithContext(ctx))
	if err != nil {
		output := source.Output{Effects: toolroom.EffectsNone, Unsent: true}
		if sent.Load() {
			output = source.Output{Effects: toolroom.EffectsUnknown}
		}
		return &Reply{Output: output}, x.failure(ctx, err)
	}
	// Closing a body before its end closes the connection, which stops an endless
	// response.
	defer response.Body.Close()
	reply := &Reply{Header: response.Header}
	reply.Body, reply.Output, err = x.read(ctx, response)
	if err == nil && !req.Raw {
		reply.Output, err = x.decode(response, reply.Body)
	}
	return reply, err
}

// IsUnauthorized reports whether err is a response with status 401: the service did nothing,
// because it refused the credentials.
func IsUnauthorized(err error) bool {
	var typed *toolroom.Error
	return errors.As(err, &typed) && typed.HTTPStatus == http.StatusUnauthorized
}

// exchange holds the state of one request.
type exchange struct {
	client  *Client
	secrets *secretref.Secrets
	method  string
	host    string
	json    bool
}

const maxRedirects = 5

// checkRedirect permits redirects to the request's host and to the hosts in the
// configuration. The standard client would send headers such as X-Api-Key to any host,
// and Authorization to sub-domains.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s redirects more than %d times", first.Host, maxRedirects).
			WithHint("set the source's URL to the final one")
	}
	if req.URL.Host == first.Host && req.URL.Scheme == first.Scheme {
		return nil
	}
	if req.URL.Host == first.Host && req.URL.Scheme == "https" {
		return nil
	}
	if (req.URL.Scheme == "https" || req.URL.Scheme == first.Scheme) && c.allowsHost(req.URL.Host, req.URL.Hostname()) {
		for name := range req.Header {
			if !slices.Contains([]string{"Accept", "Content-Type", "User-Agent"}, name) {
				req.Header.Del(name)
			}
		}
		return nil
	}
	return toolroom.Errorf(toolroom.CodeUpstreamError, "%s redirects to %s://%s, which is another host", first.Host, req.URL.Scheme, req.URL.Host).
		WithHint("set the source's URL to the final one; if you know the other host, redirect_hosts can allow it")
}

func (c *Client) allowsHost(host, hostname string) bool {
	return slices.ContainsFunc(c.options.RedirectHosts, func(allowed string) bool {
		return strings.EqualFold(allowed, host) || strings.EqualFold(allowed, hostname)
	})
}
