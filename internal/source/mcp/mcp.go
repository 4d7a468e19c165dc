// Package mcpsource makes the tools of an MCP server tools of Toolroom. It
// speaks to the server through package wire, in whichever revision of the
// protocol and over whichever transport the server knows, and hands up what
// comes byte for byte. How a connection is made, kept and given up is in
// link.go.
package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
	"github.com/toolroom/toolroom/source"
)

// Config says where the server is. Exactly one of Command and URL is set.
type Config struct {
	Namespace string

	// Command and Args start a server on stdio; Env gives its whole
	// environment and is asked at each start, so that secrets can rotate.
	Command string
	Args    []string
	Env     func(context.Context) ([]string, error)
	Dir     string
	// Owner marks the process (see package proc).
	Owner string
	// Start starts a program; nil is proc.Start.
	Start func(proc.Spec) (*proc.Process, error)

	// URL is an endpoint, of streamable HTTP or of HTTP+SSE; Header gives the
	// headers of each request, and may be nil.
	URL    string
	Header func(context.Context) (http.Header, error)
	// Egress guards the connections to URL, which is permitted on top.
	Egress *egress.Guard

	// Auth gives the tokens of an identity for the server at URL; nil sends
	// none. Each identity has a connection of its own, unless Shared says that
	// all use the tokens of the empty one.
	Auth   func(who string) *oauth.Client
	Shared bool

	// StartTimeout is how long connecting may take (60 s).
	StartTimeout time.Duration
	// Idle ends a stdio server after so long without a call; zero never does.
	Idle time.Duration
	Log  *slog.Logger
	// Version is told to the server.
	Version string
}

// Source is one MCP server. It connects at the first use.
type Source struct {
	o       Config
	client  *http.Client // of an endpoint
	changed func()
	noticed func(source.Notice) // nil where nobody listens
	calls   calls
	tools   known
	watches watches

	mu     sync.Mutex
	links  map[party]*link
	closed bool
	work   sync.WaitGroup // links that are being closed
}

// New makes a source; nothing is started until it is used.
func New(o Config) *Source {
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Start == nil {
		o.Start = proc.Start
	}
	// An address that is none fails when it is dialled.
	endpoint, _ := url.Parse(o.URL)
	return &Source{
		o:       o,
		client:  &http.Client{Transport: o.Egress.WithOwn(endpoint).Transport()},
		changed: func() {},
		links:   map[party]*link{},
	}
}

// Notify sets the function that hears of changed tools.
func (s *Source) Notify(changed func()) { s.changed = changed }

// Notices sets the function that hears what the server tells outside of calls.
func (s *Source) Notices(heard func(source.Notice)) { s.noticed = heard }

// Describe says what the server is and how it is.
func (s *Source) Describe() source.Description { return s.main().describe() }

// Tools lists all pages of the server's tools, as those see them who run
// Toolroom.
func (s *Source) Tools(ctx context.Context) (tools []toolroom.Tool, err error) {
	err = s.ask(ctx, "list its tools", func(up *upstream) error {
		tools, err = s.list(ctx, up)
		return err
	})
	return tools, err
}

// Call calls one tool. Cancelling ctx tells the server to stop.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	arguments := req.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	e := &errand{
		method: callMethod, name: req.Tool.Name,
		about: []wire.Field{wire.String("name", req.Tool.Name), {Name: "arguments", Value: arguments}},
		task:  req.Resume, sent: len(req.Resume) > 0,
	}
	raw, err := s.carry(ctx, req, e)
	switch {
	case err != nil && e.sent: // what became of it nobody knows
		return &source.Output{Failed: true, Raw: sentError(err)}, err
	case err != nil:
		return &source.Output{Unsent: true}, err
	}
	return readResult(req.Tool, raw)
}

// sentError is the server's own error behind one of ours, nil where there is none.
func sentError(err error) json.RawMessage {
	details := toolroom.AsError(err).Details
	if sent, ok := details[source.DetailRPCSent].(json.RawMessage); ok {
		return sent
	}
	code, ok := details[source.DetailRPCCode].(int64)
	if !ok {
		return nil
	}
	sent := wire.Error{Code: code}
	sent.Message, _ = details[source.DetailRPCMessage].(string)
	sent.Data, _ = details[source.DetailRPCData].(json.RawMessage)
	raw, err := jsonx.Marshal(&sent)
	if err != nil {
		return nil
	}
	return raw
}

// Stops says that calls end with their context: whatever they wait for, they wait
// for that too.
func (s *Source) Stops() bool { return true }

const callMethod = "tools/call"

// carry runs an errand on the connection of its caller, and once more where the
// first attempt cannot have reached the server.
func (s *Source) carry(ctx context.Context, req *source.Request, e *errand) (json.RawMessage, error) {
	l := s.link(s.ownerOf(req.Identity))
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
				return nil, l.fault(ctx, up, "list its tools", err)
			}
		}
		c, leave := s.calls.enter(ctx, l, req)
		raw, err := s.converse(ctx, up, c, e)
		leave()
		e.sent = e.sent || !errors.Is(err, wire.ErrNotSent)
		if rpc := (*wire.Error)(nil); errors.As(err, &rpc) && c.missed.Load() != nil {
			// The server's error only repeats ours, in other words.
			return nil, source.Unanswerable(*c.missed.Load())
		}
		switch {
		case err == nil:
			return raw, nil
		case again && (l.unheard(up, err) || s.refreshed(ctx, up, err)):
			continue
		default:
			return nil, s.errandFault(ctx, l, up, req.Tool, e, err)
		}
	}
}

// Close ends the connections and the processes behind them.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	links := s.links
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

// main is the connection of those who run Toolroom.
func (s *Source) main() *link { return s.link(s.ownerOf(toolroom.Identity{})) }

// party is who uses a connection: an identity, "" for everybody, and what its
// client can do where that is told once for the whole connection, "" for all.
type party struct{ who, can string }

// link is the connection that an identity uses.
func (s *Source) link(who string) *link { return s.linkOf(party{who: who}) }

// linkFor is the connection for a call of a client that can be asked as a says,
// where l is its owner's. An older server hears once what its client can do, and
// so each set of that has a session beside l. On stdio it would be a process, and
// there is one for all.
func (s *Source) linkFor(l *link, up *upstream, a source.Asker) *link {
	if s.o.Command != "" || l.can != "" || up.session.Server().Modern() {
		return l
	}
	if can := abilitiesOf(a).lasting(); can != forAll {
		return s.linkOf(party{l.who, can})
	}
	return l
}

// serves reports whether calls of a client that can be asked as a says are made on
// this connection.
func (l *link) serves(a source.Asker) bool {
	can := abilitiesOf(a).lasting()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	_, own := l.s.links[party{l.who, can}]
	return l.can == can || l.can == "" && !own
}

func (s *Source) linkOf(p party) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[p]
	if l == nil {
		s.trim()
		l = newLink(s, p)
		if s.closed {
			l.state = closed
		}
		s.links[p] = l
	}
	l.used = time.Now()
	return l
}

// Connections of single identities that nobody has used for leftAfter are closed
// when another identity comes and there are maxLinks.
const (
	maxLinks  = 256
	leftAfter = 10 * time.Minute
)

// trim closes links that are not used. The caller holds the lock.
func (s *Source) trim() {
	if len(s.links) < maxLinks {
		return
	}
	for p, l := range s.links {
		if p != (party{}) && time.Since(l.used) >= leftAfter && l.unused() {
			delete(s.links, p)
			s.work.Go(l.close)
		}
	}
}

// unheard reports whether a request failed before the server can have carried
// it out, so that it may be made again, once, on a new connection.
func (l *link) unheard(up *upstream, err error) bool {
	if !errors.Is(err, wire.ErrSessionGone) && !errors.Is(err, wire.ErrNotSent) {
		return false
	}
	l.lose(up, err.Error())
	return true
}
