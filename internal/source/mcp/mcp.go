// Package mcp implements a source for the tools of an MCP server. It uses package
// mcp, which speaks all revisions and transports of the protocol, and returns the
// server's results byte for byte. The file link.go manages connections.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// Config configures a source. Exactly one of Command and URL is set.
type Config struct {
	Namespace string

	// Command and Args start a stdio server. Env returns its whole environment and
	// is called at each start, so that secrets can rotate.
	Command string
	Args    []string
	Env     func(context.Context) ([]string, error)
	Dir     string
	// Owner marks the process (see package proc).
	Owner string
	// Start starts a program. The default is proc.Start.
	Start func(context.Context, proc.Spec) (*proc.Process, error)

	// URL is an endpoint of streamable HTTP or HTTP+SSE. Header returns the headers
	// of each request, and may be nil.
	URL    string
	Header func(context.Context) (http.Header, error)
	// Egress guards the connections. It permits URL in addition to its own rules.
	Egress *egress.Guard

	// Auth returns the OAuth client of an identity for the server at URL; nil means that
	// no tokens are sent. Each identity has its own connection, unless Shared is set: then
	// all use the tokens of the empty identity.
	Auth   func(who string) *oauth.Client
	Shared bool

	// StartTimeout limits the time to connect, and that to read a list. The default is 60 s.
	StartTimeout time.Duration
	// Idle is the time without a call after which a stdio server is stopped; zero
	// means never.
	Idle time.Duration
	Log  *slog.Logger
	// Version is Toolroom's version, which the server receives.
	Version string
}

// Source is one MCP server. It connects on the first use.
type Source struct {
	o             Config
	client        *http.Client // of an endpoint
	toolsChanged  func()
	notifyClients func(source.Notification) // may be nil
	calls         calls
	tools         toolFacts
	watches       watches

	mu     sync.Mutex
	links  map[linkKey]*link
	closed bool
	work   sync.WaitGroup // links that are being closed
}

// New returns a source. It starts nothing until the source is used.
func New(o Config) *Source {
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Start == nil {
		o.Start = func(_ context.Context, s proc.Spec) (*proc.Process, error) { return proc.Start(s) }
	}
	// If the URL is invalid, connecting fails.
	endpoint, _ := url.Parse(o.URL)
	return &Source{
		o:            o,
		client:       &http.Client{Transport: o.Egress.WithOwn(endpoint).Transport()},
		toolsChanged: func() {},
		watches:      watches{turn: make(chan struct{}, 1)},
		links:        map[linkKey]*link{},
	}
}

// Source implements the optional interfaces for everything that an MCP server may offer.
var (
	_ source.Describer = (*Source)(nil)
	_ source.Notifier  = (*Source)(nil)
	_ source.Library   = (*Source)(nil)
)

// Notify sets the functions that the source calls when the server reports something
// outside of calls.
func (s *Source) Notify(e source.Events) {
	s.toolsChanged, s.notifyClients = e.ToolsChanged, e.Notified
	s.watches.onUpdate(e.ResourceChanged)
}

// Describe returns the server's description and its state. CancelsPromptly is set, because a call
// never waits without also waiting for the end of its context.
func (s *Source) Describe() source.Description {
	d := s.mainLink().describe()
	d.CancelsPromptly, d.LeftOut = true, s.tools.leftOutDefinitions()
	return d
}

// Tools lists all pages of the server's tools, on the operator's connection.
func (s *Source) Tools(ctx context.Context) (tools []toolroom.Tool, err error) {
	err = s.withUpstream(ctx, "list its tools", func(up *upstream) error {
		tools, err = s.list(ctx, up)
		return err
	})
	return tools, err
}

// Call calls one tool. If ctx is cancelled, it asks the server to stop.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	arguments := req.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	e := &serverRequest{
		method: callMethod, name: req.Tool.Name,
		params: []mcp.Field{mcp.String("name", req.Tool.Name), {Name: "arguments", Value: arguments}},
		task:   req.Resume, sent: len(req.Resume) > 0,
	}
	raw, err := s.requestWithRetry(ctx, req, e)
	switch {
	case err != nil && e.sent: // the outcome is unknown
		return &source.Output{Failed: true, Raw: sentError(err)}, err
	case err != nil:
		return &source.Output{Unsent: true}, err
	}
	return readResult(req.Tool, raw, e.members)
}

// sentError returns the server's own error behind one of ours, or nil.
func sentError(err error) json.RawMessage {
	rpc := toolroom.AsError(err).RPC
	switch {
	case rpc == nil:
		return nil
	case rpc.Sent != nil:
		return rpc.Sent
	}
	raw, err := jsonx.Marshal(&mcp.Error{Code: rpc.Code, Message: rpc.Message, Data: rpc.Data})
	if err != nil {
		return nil
	}
	return raw
}

const callMethod = "tools/call"

// requestWithRetry makes a request on the caller's connection. If the server cannot have carried
// out the first attempt, requestWithRetry repeats it once.
func (s *Source) requestWithRetry(ctx context.Context, req *source.Request, e *serverRequest) (json.RawMessage, error) {
	l := s.linkOf(s.ownerOf(req.Identity))
	for again := true; ; again = false {
		up, err := l.use(ctx)
		if err != nil {
			return nil, err
		}
		if own := s.linkFor(l, up, req.Ask); own != l {
			l = own
			if up, err = l.use(ctx); err != nil {
				return nil, err
			}
		}
		if e.method == callMethod {
			if e.header, err = s.paramHeaders(ctx, up, req); err != nil {
				return nil, l.handleError(ctx, up, "list its tools", err)
			}
		}
		c, leave := s.calls.add(ctx, l, req)
		raw, err := s.exchangeRounds(ctx, up, c, e)
		leave()
		e.sent = e.sent || !errors.Is(err, mcp.ErrNotSent)
		if rpc := (*mcp.Error)(nil); errors.As(err, &rpc) && c.unsupported.Load() != nil {
			// The server failed because we refused its question: return our own error.
			return nil, source.Unanswerable(*c.unsupported.Load())
		}
		switch {
		case err == nil:
			return raw, nil
		case again && (l.dropIfNotSent(up, err) || s.refreshDefinitions(ctx, up, err)):
			continue
		default:
			return nil, s.handleRequestError(ctx, l, up, req.Tool, e, err)
		}
	}
}

// Close ends the connections and their processes.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	links := slices.Collect(maps.Values(s.links)) // linkByKey may still be called
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(l.close)
	}
	all.Wait()
	s.work.Wait()
	s.client.CloseIdleConnections()
	return nil
}

// mainLink returns the operator's connection.
func (s *Source) mainLink() *link { return s.linkOf(s.ownerOf(toolroom.Identity{})) }

// linkKey identifies the users of a connection. owner is an identity, or "" for everybody.
// capabilities are those of their client if the server receives them once for the whole
// connection, or "" for all.
type linkKey struct{ owner, capabilities string }

// linkOf returns the connection of an identity, for clients with any capabilities.
func (s *Source) linkOf(who string) *link { return s.linkByKey(linkKey{owner: who}) }

// linkFor returns the connection for a call of a client with the capabilities of a; l is its
// owner's connection. An older server receives capabilities once per session, so each set of
// capabilities that differs from sharedCapabilities has a separate session. A stdio server has one
// process for all, because it would need one for each set.
func (s *Source) linkFor(l *link, up *upstream, a source.Asker) *link {
	if s.o.Command != "" || l.capabilities != "" || up.session.Server().Modern() {
		return l
	}
	if can := capabilitiesOf(a).forLegacy(); can != sharedCapabilities {
		return s.linkByKey(linkKey{l.owner, can})
	}
	return l
}

// servesClient reports whether this is the connection for calls of a client with the capabilities
// of a.
func (l *link) servesClient(a source.Asker) bool {
	can := capabilitiesOf(a).forLegacy()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	_, own := l.s.links[linkKey{l.owner, can}]
	return l.capabilities == can || l.capabilities == "" && !own
}

func (s *Source) linkByKey(p linkKey) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[p]
	if l == nil {
		l = newLink(s, p)
		if s.closed {
			l.state = closed
			return l
		}
		s.closeUnusedLinks()
		s.links[p] = l
	}
	l.lastUsed = time.Now()
	return l
}

// If there are maxLinks connections when another one is needed, connections of single identities
// that were unused for unusedAfter are closed.
const (
	maxLinks    = 256
	unusedAfter = 10 * time.Minute
)

// closeUnusedLinks closes unused links. The caller holds the lock.
func (s *Source) closeUnusedLinks() {
	if len(s.links) < maxLinks {
		return
	}
	for p, l := range s.links {
		if p != (linkKey{}) && time.Since(l.lastUsed) >= unusedAfter && l.isUnused(unusedAfter) {
			delete(s.links, p)
			s.work.Go(l.close)
		}
	}
}

// dropIfNotSent reports whether a request failed before the server can have carried it out, so
// that it may be repeated on a new connection. If so, it drops the connection.
func (l *link) dropIfNotSent(up *upstream, err error) bool {
	if !errors.Is(err, mcp.ErrSessionGone) && !errors.Is(err, mcp.ErrNotSent) {
		return false
	}
	l.drop(up, err.Error())
	return true
}
