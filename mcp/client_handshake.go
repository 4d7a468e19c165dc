package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The revisions of MCP that this client supports. From 2026-07-28 on there are no
// sessions, and every request names its revision.
const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

var legacyVersions = []string{legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}

// Keys in the _meta of modern messages.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// MetaNames returns the names in _meta that describe the sender of a message or
// concern its receiver only.
func MetaNames() []string {
	return []string{metaVersion, metaClient, metaCapabilities, metaLogLevel, metaServer, MetaSubscription}
}

// logLevel requests all log messages, because the caller's client filters them.
const logLevel = "debug"

// probeTimeout limits the wait for a stdio server's response to server/discover,
// because some older servers ignore unknown requests.
const probeTimeout = 5 * time.Second

// ServerInfo describes a server in its own words.
type ServerInfo struct {
	// Version is the negotiated revision of the protocol.
	Version      string
	Name, Title  string
	Instructions string
	// Capabilities are the server's raw capabilities by name.
	Capabilities map[string]json.RawMessage
}

// Modern reports whether the server speaks 2026-07-28 or newer.
func (s ServerInfo) Modern() bool { return s.Version >= modernVersion }

// AnnouncesChanges reports whether the server announces changes of a list.
func (s ServerInfo) AnnouncesChanges(capability string) bool {
	var c struct {
		ListChanged bool `json:"listChanged"`
	}
	return json.Unmarshal(s.Capabilities[capability], &c) == nil && c.ListChanged
}

// Subscribes reports whether the server supports subscriptions to resources.
func (s ServerInfo) Subscribes() bool {
	var c struct {
		Subscribe bool `json:"subscribe"`
	}
	return json.Unmarshal(s.Capabilities["resources"], &c) == nil && c.Subscribe
}

// ClientOptions are options of [Connect].
type ClientOptions struct {
	Handler ClientHandler
	// Name and Version are the client's, which the server receives.
	Name, Version string
	// Capabilities is the JSON of the client's capabilities; nil means none.
	Capabilities json.RawMessage
	// Legacy means that the server was older than 2026-07-28 at the last connection.
	// Connect then tries the older handshake first.
	Legacy bool
}

// Connect negotiates the protocol with a server. It tries the newest revision; then, on
// any response that a modern server would not send, the older handshake; then, over
// HTTP, the transport of 2024-11-05. It closes the transport if all fail.
func Connect(ctx context.Context, t Transport, o ClientOptions) (*Client, error) {
	if len(o.Capabilities) == 0 {
		o.Capabilities = json.RawMessage("{}")
	}
	s, err := connect(ctx, t, o)
	var status *StatusError
	if streamable, ok := t.(*httpTransport); ok && errors.As(err, &status) && mayBeLegacy(err) {
		o.Legacy = true
		if s, sseErr := connect(ctx, newSSE(streamable), o); sseErr == nil {
			return s, nil
		}
	}
	return s, err
}

func connect(ctx context.Context, t Transport, o ClientOptions) (*Client, error) {
	s := newClient(t, o.Handler)
	if err := s.negotiate(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	t.ready()
	if s.Server().Modern() {
		s.listenToLists()
	}
	return s, nil
}

// negotiate negotiates the revision of the protocol.
func (c *Client) negotiate(ctx context.Context, o ClientOptions) error {
	silent := false
	if !o.Legacy {
		err := c.discover(ctx, o)
		silent = errors.Is(err, context.DeadlineExceeded)
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.offersVersion(modernVersion) {
			err = c.discover(ctx, o)
		}
		if err == nil || !mayBeLegacy(err) || c.ctx.Err() != nil || ctx.Err() != nil {
			return err
		}
	}
	err := c.initialize(ctx, o)
	// A modern server that was slow to start has read server/discover by now, and refuses
	// initialize. A server that was older at the last connection may have been updated.
	if refused := (*Error)(nil); (silent || o.Legacy) && errors.As(err, &refused) && c.discover(ctx, o) == nil {
		return nil
	}
	return err
}

// errLegacyServer means that the server answered server/discover as one older than 2026-07-28
// would.
var errLegacyServer = errors.New("the server does not support revision 2026-07-28 or newer")

// mayBeLegacy reports whether an error of discover may come from a server older than 2026-07-28:
// any error response, whatever its code, or no response on stdio.
func mayBeLegacy(err error) bool {
	var refused *Error
	var status *StatusError
	return errors.As(err, &refused) || errors.Is(err, errLegacyServer) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &status) && status.Code >= 400 && status.Code < 500 && status.Code != 401 && status.Code != 403 && status.Code != 429
}

// offersVersion reports whether a server that refused a revision supports the given one.
func (e *Error) offersVersion(version string) bool {
	var data struct {
		Supported []string `json:"supported"`
	}
	return e.Code == codeUnsupportedVersion && json.Unmarshal(e.Data, &data) == nil && slices.Contains(data.Supported, version)
}

func (c *Client) discover(ctx context.Context, o ClientOptions) error {
	c.server.Store(&ServerInfo{Version: modernVersion})
	c.meta = []Field{
		String(metaVersion, modernVersion),
		{metaClient, implementation(o)},
		{metaCapabilities, o.Capabilities},
		String(metaLogLevel, logLevel),
	}
	probe := ctx
	if _, overHTTP := c.transport.(*httpTransport); !overHTTP {
		var cancel context.CancelFunc
		probe, cancel = context.WithTimeout(ctx, probeTimeout)
		defer cancel()
	}
	raw, err := c.Call(probe, &Request{Method: "server/discover"})
	if err == nil {
		err = c.readDiscovery(raw)
	}
	if err != nil {
		c.meta = nil
		c.server.Store(&ServerInfo{})
	}
	return err
}

func (c *Client) readDiscovery(raw json.RawMessage) error {
	var d struct {
		Versions     []string                   `json:"supportedVersions"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
		Instructions string                     `json:"instructions"`
		Meta         map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &d); err != nil || !slices.Contains(d.Versions, modernVersion) {
		return errLegacyServer
	}
	server := ServerInfo{Version: modernVersion, Capabilities: d.Capabilities, Instructions: d.Instructions}
	server.readImplementation(d.Meta[metaServer])
	c.server.Store(&server)
	return nil
}

// readImplementation sets the name and title from the server's Implementation.
func (s *ServerInfo) readImplementation(info json.RawMessage) {
	var i struct{ Name, Title string }
	if json.Unmarshal(info, &i) == nil {
		s.Name, s.Title = i.Name, i.Title
	}
}

func (c *Client) initialize(ctx context.Context, o ClientOptions) error {
	raw, err := c.Call(ctx, &Request{Method: "initialize", Params: []Field{
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
		return fmt.Errorf("it speaks revision %q of the protocol, which is not supported", i.Version)
	}
	server := ServerInfo{Version: i.Version, Capabilities: i.Capabilities, Instructions: i.Instructions}
	server.readImplementation(i.Info)
	c.server.Store(&server)
	if err := c.Notify(ctx, "notifications/initialized"); err != nil {
		return err
	}
	if _, logs := i.Capabilities["logging"]; logs {
		c.CallInBackground(&Request{Method: "logging/setLevel", Params: []Field{String("level", logLevel)}})
	}
	return nil
}

func implementation(o ClientOptions) json.RawMessage {
	version := cmp.Or(o.Version, "0")
	return object([]Field{String("name", o.Name), String("version", version)})
}

// object returns a JSON object of fields whose values are JSON on one line.
func object(fields []Field) json.RawMessage {
	var b bytes.Buffer
	b.Grow(sizeOf(fields))
	_ = writeObject(&b, fields)
	return b.Bytes()
}
