package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The revisions of MCP that this client speaks. From 2026-07-28 on there are no
// sessions and every request says which revision it is of.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

var legacyVersions = []string{legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}

// Keys of what each modern request says of its sender.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// MetaNames are the names in _meta that say something of the sender of a message,
// or to its receiver alone.
func MetaNames() []string {
	return []string{metaVersion, metaClient, metaCapabilities, metaLogLevel, metaServer, MetaSubscription}
}

// logLevel has servers tell everything: what of it is wanted, the client behind
// the call says.
const logLevel = "debug"

// probeTimeout is how long a server on stdio may leave server/discover without
// an answer: some of the older ones ignore what they do not know.
const probeTimeout = 5 * time.Second

// Server is what a server says of itself.
type Server struct {
	// Version is the revision of the protocol that was agreed on.
	Version      string
	Name, Title  string
	Instructions string
	// Capabilities are the server's, by name and raw.
	Capabilities map[string]json.RawMessage
}

// Modern reports whether the server speaks 2026-07-28 or newer.
func (s Server) Modern() bool { return s.Version >= modernVersion }

// Announces reports whether the server tells when a list has changed.
func (s Server) Announces(capability string) bool {
	var c struct {
		ListChanged bool `json:"listChanged"`
	}
	return json.Unmarshal(s.Capabilities[capability], &c) == nil && c.ListChanged
}

// Subscribes reports whether the server tells when a resource has changed.
func (s Server) Subscribes() bool {
	var c struct {
		Subscribe bool `json:"subscribe"`
	}
	return json.Unmarshal(s.Capabilities["resources"], &c) == nil && c.Subscribe
}

// Options are how to open a session.
type Options struct {
	Handler Handler
	// Name and Version are told to the server.
	Name, Version string
	// Capabilities is the JSON of the client's capabilities; nil is none.
	Capabilities json.RawMessage
	// Legacy says that the server was older than 2026-07-28 when it was last spoken
	// to: the older handshake comes first.
	Legacy bool
}

// Open agrees on the protocol with a server: it tries the newest revision, then
// the older handshake, on any answer that a modern server would not give, then,
// over HTTP, the transport of 2024-11-05. It closes the transport when nothing
// works.
func Open(ctx context.Context, t Transport, o Options) (*Session, error) {
	if len(o.Capabilities) == 0 {
		o.Capabilities = json.RawMessage("{}")
	}
	s, err := open(ctx, t, o)
	var status *StatusError
	if streamable, ok := t.(*httpTransport); ok && errors.As(err, &status) && fallsBack(err) {
		o.Legacy = true
		if s, sseErr := open(ctx, newSSE(streamable), o); sseErr == nil {
			return s, nil
		}
	}
	return s, err
}

func open(ctx context.Context, t Transport, o Options) (*Session, error) {
	s := newSession(t, o.Handler)
	if err := s.agree(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	t.ready()
	if s.Server().Modern() {
		s.listenToLists()
	}
	return s, nil
}

func (s *Session) agree(ctx context.Context, o Options) error {
	silent := false
	if !o.Legacy {
		err := s.discover(ctx, o)
		silent = errors.Is(err, context.DeadlineExceeded)
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.offers(modernVersion) {
			err = s.discover(ctx, o)
		}
		if err == nil || !fallsBack(err) || s.open.Err() != nil || ctx.Err() != nil {
			return err
		}
	}
	err := s.initialize(ctx, o)
	// One that was only slow to start has read the first question by now, and is
	// held to the era of it. One that was older may be so no longer.
	if refused := (*Error)(nil); (silent || o.Legacy) && errors.As(err, &refused) && s.discover(ctx, o) == nil {
		return nil
	}
	return err
}

// errOlder says that the server answered server/discover as only one that is
// older than 2026-07-28 would.
var errOlder = errors.New("the server speaks no revision of 2026-07-28 or newer")

// fallsBack reports whether an error of discover may come from an old server:
// any refusal, whatever its code, and silence on stdio.
func fallsBack(err error) bool {
	var refused *Error
	var status *StatusError
	return errors.As(err, &refused) || errors.Is(err, errOlder) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &status) && status.Code >= 400 && status.Code < 500 && status.Code != 401 && status.Code != 403 && status.Code != 429
}

// offers reports whether a server that refused a revision names one in its
// place that is spoken here.
func (e *Error) offers(version string) bool {
	var data struct {
		Supported []string `json:"supported"`
	}
	return e.Code == codeUnsupportedVersion && json.Unmarshal(e.Data, &data) == nil && slices.Contains(data.Supported, version)
}

func (s *Session) discover(ctx context.Context, o Options) error {
	s.server.Store(&Server{Version: modernVersion})
	s.meta = []Field{
		String(metaVersion, modernVersion),
		{metaClient, implementation(o)},
		{metaCapabilities, o.Capabilities},
		String(metaLogLevel, logLevel),
	}
	probe := ctx
	if _, overHTTP := s.transport.(*httpTransport); !overHTTP {
		var cancel context.CancelFunc
		probe, cancel = context.WithTimeout(ctx, probeTimeout)
		defer cancel()
	}
	raw, err := s.Call(probe, &Request{Method: "server/discover"})
	if err == nil {
		err = s.readDiscovery(raw)
	}
	if err != nil {
		s.meta = nil
		s.server.Store(&Server{})
	}
	return err
}

func (s *Session) readDiscovery(raw json.RawMessage) error {
	var d struct {
		Versions     []string                   `json:"supportedVersions"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
		Instructions string                     `json:"instructions"`
		Meta         map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &d); err != nil || !slices.Contains(d.Versions, modernVersion) {
		return errOlder
	}
	server := Server{Version: modernVersion, Capabilities: d.Capabilities, Instructions: d.Instructions}
	server.name(d.Meta[metaServer])
	s.server.Store(&server)
	return nil
}

func (s *Server) name(info json.RawMessage) {
	var i struct{ Name, Title string }
	if json.Unmarshal(info, &i) == nil {
		s.Name, s.Title = i.Name, i.Title
	}
}

func (s *Session) initialize(ctx context.Context, o Options) error {
	raw, err := s.Call(ctx, &Request{Method: "initialize", Params: []Field{
		String("protocolVersion", legacyVersion),
		{"capabilities", o.Capabilities},
		{"clientInfo", implementation(o)},
	}})
	if err != nil {
		return err
	}
	var i struct {
		Version      string                     `json:"protocolVersion"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
		Instructions string                     `json:"instructions"`
		Info         json.RawMessage            `json:"serverInfo"`
	}
	if err := json.Unmarshal(raw, &i); err != nil {
		return fmt.Errorf("its answer to initialize cannot be read: %w", err)
	}
	if !slices.Contains(legacyVersions, i.Version) {
		return fmt.Errorf("it speaks the revision %q of the protocol, which is not known here", i.Version)
	}
	server := Server{Version: i.Version, Capabilities: i.Capabilities, Instructions: i.Instructions}
	server.name(i.Info)
	s.server.Store(&server)
	if err := s.Notify(ctx, "notifications/initialized"); err != nil {
		return err
	}
	if _, logs := i.Capabilities["logging"]; logs {
		s.Tell(&Request{Method: "logging/setLevel", Params: []Field{String("level", logLevel)}})
	}
	return nil
}

func implementation(o Options) json.RawMessage {
	version := o.Version
	if version == "" {
		version = "0"
	}
	return object([]Field{String("name", o.Name), String("version", version)})
}

// object is the JSON of fields whose values are known to be JSON of one line.
func object(fields []Field) json.RawMessage {
	var b bytes.Buffer
	b.Grow(sizeOf(fields))
	_ = writeObject(&b, fields)
	return b.Bytes()
}
