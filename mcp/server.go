package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/panics"
)

// ServerOptions configure a [Server]. Only Handle is required.
type ServerOptions struct {
	// Name, Title and Version describe the server to clients.
	Name, Title, Version string
	Instructions         string
	// Capabilities is the JSON of the server's capabilities; nil means none. A server
	// that declares listChanged calls [Server.ListChanged].
	Capabilities json.RawMessage
	// DiscoverTTL is the time for which clients may cache the response to server/discover.
	DiscoverTTL time.Duration

	// Handle answers a request with the JSON of a result. An [*Error] is sent as it is;
	// any other error becomes an internal error. The context ends when the client
	// cancels the request, with [Cancelled] as the cause if it did so with a message.
	// The server itself answers initialize, server/discover, ping, logging/setLevel,
	// subscriptions/listen, resources/subscribe and resources/unsubscribe.
	Handle func(ctx context.Context, r *ServerRequest) (json.RawMessage, error)
	// Complete means that results of Handle already contain what 2026-07-28 requires:
	// resultType, and serverInfo in _meta. By default the server adds both.
	Complete bool
	// Notified, if set, receives the client's notifications, except those about
	// requests and answers in progress.
	Notified func(ctx context.Context, n *ServerRequest)
	// Subscribe, if set, begins to watch a resource for one client. The server calls
	// unsubscribe when the client unsubscribes or disconnects. Report changes with
	// [Server.ResourceUpdated].
	Subscribe func(ctx context.Context, r *ServerRequest, uri string) (unsubscribe func(), err error)

	// Prepare, if set, is called once for each request, before any other function of these
	// options. It may set [ServerRequest.Value].
	Prepare func(ctx context.Context, r *ServerRequest)
	// HeaderParams, if set, returns the parameters that the headers of a request over
	// HTTP must repeat (x-mcp-header).
	HeaderParams func(r *ServerRequest) []HeaderParam
	// Intercept, if set, may answer an HTTP request itself, and returns true if it
	// did. It receives the requests in the body, and can also read the body again.
	Intercept func(w http.ResponseWriter, r *http.Request, requests []*ServerRequest) bool
	// Owner returns the name of the caller of a request, for MaxSessions. By default
	// all callers have the same name.
	Owner func(ctx context.Context) string
	// MayUseSession reports whether the caller of an HTTP request may use a session. By
	// default only the owner of a session may. To other callers the server responds as if
	// the session did not exist.
	MayUseSession func(ctx context.Context, s *ServerSession) bool
	// SessionID returns the id of a new session, which nobody must be able to guess.
	// By default it is random.
	SessionID func() string
	// Streams reports whether the response to a request over HTTP is always a stream. A
	// client with a session can resume a stream, and [ServerRequest.Release] can end it
	// early. By default a response is a stream only if something is sent before the
	// answer, or if the answer takes more than 2 s.
	Streams func(method, version string) bool

	// MaxMessage limits the size of a message in bytes; zero means 5 MiB.
	MaxMessage int
	// MaxSessions limits the live sessions of one owner; zero means 500. A further one ends
	// the session that has been idle longest, and is refused if all are in use.
	MaxSessions int
	// Log, if set, receives the server's own failures.
	Log *slog.Logger
}

// Server serves clients of all revisions: over HTTP with [Server.HTTP] and
// [Server.SSE], and on a pair of streams with [Server.Stdio]. It is safe for concurrent
// use.
type Server struct {
	o              ServerOptions
	implementation json.RawMessage // describes the server
	events         *eventLog

	sessions      *lru.Cache[string, *ServerSession] // those over streamable HTTP, by id
	mu            sync.Mutex
	live          map[*ServerSession]bool
	sessionCounts map[string]int // live sessions over streamable HTTP, by owner
	subscriptions map[*subscription]bool
	changeTimers  map[string]*time.Timer // by method of the notification
	closed        bool
	done          chan struct{} // closed by Close
}

const (
	defaultMaxMessage  = 5 << 20
	defaultMaxSessions = 500
	// maxAllSessions limits all sessions. Beyond it, the least recently used one is ended.
	maxAllSessions = 100_000
	// maxClient limits clientInfo and capabilities of a session, in bytes.
	maxClient = 64 << 10
	// sessionTimeout is the idle time after which a session ends, because its client may
	// have gone silently.
	sessionTimeout = 30 * time.Minute
)

// NewServer returns a server.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Handle == nil {
		return nil, errors.New("mcp: ServerOptions.Handle is nil")
	}
	if len(o.Capabilities) == 0 {
		o.Capabilities = json.RawMessage("{}")
	}
	if !json.Valid(o.Capabilities) {
		return nil, errors.New("mcp: ServerOptions.Capabilities is not JSON")
	}
	if o.Owner == nil {
		o.Owner = func(context.Context) string { return "" }
	}
	if o.MayUseSession == nil {
		o.MayUseSession = func(ctx context.Context, s *ServerSession) bool { return s.owner == o.Owner(ctx) }
	}
	if o.Prepare == nil {
		o.Prepare = func(context.Context, *ServerRequest) {}
	}
	if o.Streams == nil {
		o.Streams = func(string, string) bool { return false }
	}
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMaxMessage)
	o.MaxSessions = cmp.Or(o.MaxSessions, defaultMaxSessions)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		o: o, events: &eventLog{max: maxStored}, live: map[*ServerSession]bool{}, sessionCounts: map[string]int{},
		subscriptions: map[*subscription]bool{}, changeTimers: map[string]*time.Timer{}, done: make(chan struct{}),
	}
	self := []Field{String("name", o.Name)}
	if o.Title != "" {
		self = append(self, String("title", o.Title))
	}
	s.implementation = object(append(self, String("version", o.Version)))
	var err error
	s.sessions, err = lru.NewWithEvict(maxAllSessions, func(_ string, session *ServerSession) { go session.end() })
	return s, err
}

// Info returns the JSON with which the server describes itself (an Implementation).
func (s *Server) Info() json.RawMessage { return s.implementation }

// Close ends all sessions and subscriptions. Requests in progress continue.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.done)
	for _, timer := range s.changeTimers {
		timer.Stop()
	}
	var all []*ServerSession
	for session := range s.live {
		all = append(all, session)
	}
	s.mu.Unlock()
	for _, session := range all {
		session.end()
	}
}

// Sessions returns the live sessions whose clients have been initialized.
func (s *Server) Sessions() []*ServerSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*ServerSession, 0, len(s.live))
	for session := range s.live {
		if session.Version() != "" {
			all = append(all, session)
		}
	}
	return all
}

// versions are the revisions that a server supports, the newest first.
var versions = append([]string{modernVersion}, legacyVersions...)

// serve answers a request or handles a notification.
func (s *Server) serve(ctx context.Context, m *incoming, reply responder) {
	r := &m.ServerRequest
	r.server = s
	if r.ID == nil {
		panics.Log(s.o.Log, "a notification", func() { s.prepare(ctx, m); s.handleNotification(ctx, m) })
		return
	}
	r.responder = reply
	var result json.RawMessage
	var err error
	if panicked := panics.Catch(func() { s.prepare(ctx, m); result, err = s.handle(ctx, m) }); panicked != nil {
		s.o.Log.Error("panic in a handler", "method", r.Method, "panic", panicked)
		err = &Error{Code: CodeInternal, Message: r.Method + " failed inside the server"}
	}
	if err == nil {
		reply.respond(r.ID, result, nil)
		return
	}
	s.respondError(r.ID, reply, err)
}

// respondError answers a request with an error.
func (s *Server) respondError(id json.RawMessage, reply responder, err error) {
	failed := toError(err)
	text, err := encodeResponse(id, nil, failed)
	if err != nil {
		s.o.Log.Error("cannot write an error", "error", err)
		text = errorResponse(id, CodeInternal, failed.Message)
	}
	reply.respond(id, text, failed)
}

// prepare calls ServerOptions.Prepare unless it has been called for m. It may take time, so it
// must not be called by the goroutine that reads a connection.
func (s *Server) prepare(ctx context.Context, m *incoming) {
	if !m.prepared {
		m.prepared = true
		s.o.Prepare(ctx, &m.ServerRequest)
	}
}

// identify sets version, ClientInfo and Capabilities of the client. It returns an error if a
// modern request lacks a required declaration.
func (m *incoming) identify(session *ServerSession) error {
	if m.clientMeta.version == "" || m.clientMeta.version < modernVersion || m.ID == nil {
		m.Session = session
		if session != nil {
			m.Version, m.ClientInfo, m.Capabilities = session.clientInfo()
		}
		return nil
	}
	m.Version, m.ClientInfo, m.logLevel = m.clientMeta.version, m.clientMeta.info, m.clientMeta.logLevel
	if len(m.clientMeta.info) > 0 && !isImplementation(m.clientMeta.info) {
		return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("invalid _meta field %q", metaClient)}
	}
	if len(m.clientMeta.capabilities) == 0 || m.clientMeta.capabilities[0] != '{' {
		return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("missing or invalid _meta field %q", metaCapabilities)}
	}
	if string(m.clientMeta.capabilities) != "{}" {
		m.Capabilities = m.clientMeta.capabilities
	}
	if !slices.Contains(versions, m.clientMeta.version) {
		return unsupportedVersion(versions, m.clientMeta.version, "unsupported protocol version")
	}
	return nil
}

func unsupportedVersion(supported []string, requested, message string) *Error {
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, requested}) // strings have JSON
	return &Error{Code: codeUnsupportedVersion, Message: message, Data: data}
}

// isImplementation reports whether name and version in a client's info are strings or null.
func isImplementation(info json.RawMessage) bool {
	if string(info) == "null" {
		return true
	}
	members, err := jsonx.Members(info)
	return err == nil && !slices.ContainsFunc(members, func(m jsonx.Member) bool {
		named := strings.EqualFold(m.Name, "name") || strings.EqualFold(m.Name, "version")
		return named && m.Value[0] != '"' && string(m.Value) != "null"
	})
}

// MethodNotFound returns the error for an unknown method.
func MethodNotFound(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: "method not found: " + strconv.Quote(method)}
}

// legacyMethods are methods of older revisions that 2026-07-28 has removed.
var legacyMethods = map[string]bool{"initialize": true, "ping": true, "logging/setLevel": true, "resources/subscribe": true, "resources/unsubscribe": true}

// handle answers the requests that this package serves, and passes the others to
// ServerOptions.Handle.
func (s *Server) handle(ctx context.Context, m *incoming) (json.RawMessage, error) {
	r := &m.ServerRequest
	modern := r.Modern()
	switch {
	case m.wrongType != "":
		return nil, &Error{Code: CodeInvalidParams, Message: "invalid parameters of " + r.Method + ": the member " + m.wrongType + " is not of its type"}
	case modern && legacyMethods[r.Method], !modern && (r.Method == "server/discover" || r.Method == "subscriptions/listen"):
		return nil, MethodNotFound(r.Method)
	case modern && r.Method == "server/discover":
		return s.discoverResult(), nil
	case modern && r.Method == "subscriptions/listen":
		return s.listen(ctx, r)
	case r.Method == "ping":
		return json.RawMessage("{}"), nil
	case !modern && r.Method == "initialize":
		return s.initialize(r)
	case !modern && r.Version == "":
		return nil, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("method %q is invalid before initialize", r.Method)}
	case r.Method == "logging/setLevel":
		return r.Session.setLevel(r.Params)
	case r.Method == "resources/subscribe" && s.o.Subscribe != nil:
		return s.subscribe(ctx, r)
	case r.Method == "resources/unsubscribe" && s.o.Subscribe != nil:
		r.Session.unsubscribe(r.Name)
		return json.RawMessage("{}"), nil
	}
	result, err := s.o.Handle(ctx, r)
	if err == nil && modern && !s.o.Complete {
		return s.completeResult(result)
	}
	return result, err
}

// completeResult adds the members that 2026-07-28 requires in a result.
func (s *Server) completeResult(result json.RawMessage) (json.RawMessage, error) {
	o, err := ReadObject(result)
	if err != nil {
		return nil, fmt.Errorf("the result is not an object: %w", err)
	}
	if o.Get("resultType") == nil {
		o.Set("resultType", json.RawMessage(`"complete"`))
	}
	meta := Object{}
	if raw := o.Get("_meta"); raw != nil {
		if meta, err = ReadObject(raw); err != nil {
			return nil, fmt.Errorf("_meta of the result is not an object: %w", err)
		}
	}
	meta.Set(metaServer, s.implementation)
	o.Set("_meta", meta.JSON())
	return o.JSON(), nil
}

func (s *Server) discoverResult() json.RawMessage {
	supported, _ := json.Marshal(versions) // strings have JSON
	fields := []Field{
		String("resultType", "complete"),
		{"_meta", object([]Field{{metaServer, s.implementation}})},
		{"ttlMs", strconv.AppendInt(nil, s.o.DiscoverTTL.Milliseconds(), 10)},
		String("cacheScope", "private"),
		{"supportedVersions", supported},
		{"capabilities", s.o.Capabilities},
	}
	if s.o.Instructions != "" {
		fields = append(fields, String("instructions", s.o.Instructions))
	}
	return object(fields)
}

func (s *Server) initialize(r *ServerRequest) (json.RawMessage, error) {
	var p struct {
		Version      string          `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
		Info         json.RawMessage `json:"clientInfo"`
	}
	if len(r.Params) == 0 || json.Unmarshal(r.Params, &p) != nil {
		return nil, &Error{Code: CodeInvalidParams, Message: "initialize needs protocolVersion, capabilities and clientInfo"}
	}
	if r.Session == nil {
		return nil, &Error{Code: CodeInvalidRequest, Message: "initialize begins a session: send it alone, not in a batch"}
	}
	if len(p.Info)+len(p.Capabilities) > maxClient {
		return nil, &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("clientInfo and capabilities have more than %d bytes", maxClient)}
	}
	version := legacyVersion
	if slices.Contains(legacyVersions, p.Version) {
		version = p.Version
	}
	if !r.Session.initialize(version, p.Info, p.Capabilities) {
		return nil, &Error{Code: CodeInvalidRequest, Message: "this session has been initialized"}
	}
	fields := []Field{{"capabilities", s.o.Capabilities}}
	if s.o.Instructions != "" {
		fields = append(fields, String("instructions", s.o.Instructions))
	}
	return object(append(fields, String("protocolVersion", version), Field{"serverInfo", s.implementation})), nil
}

// handleNotification handles a notification.
func (s *Server) handleNotification(ctx context.Context, m *incoming) {
	switch session := m.Session; {
	case m.Method == "notifications/cancelled" && session != nil:
		session.cancelRequest(m.cancelledID, m.Params)
	case m.Method == "notifications/progress" && session != nil:
		session.handleProgress(m.Params)
	case s.o.Notified != nil:
		s.o.Notified(ctx, &m.ServerRequest)
	}
}
