package mcpsource

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
)

// stopGrace is how long a server on stdio has to end by itself.
const stopGrace = 2 * time.Second

// maxMessage is the largest message of a server on stdio.
const maxMessage = 64 << 20

// upstream is one connection.
type upstream struct {
	session *mcp.ClientSession
	tap     *tap
	process *proc.Process // nil over HTTP
	stderr  *tailBuffer
	lastUse atomic.Int64 // Unix nanoseconds
	busy    atomic.Int64
	seq     atomic.Int64
}

// dial connects, in the era that the server speaks.
func (s *Source) dial(ctx context.Context) (*upstream, error) {
	up := &upstream{stderr: &tailBuffer{}}
	up.lastUse.Store(time.Now().UnixNano())
	var transport mcp.Transport
	if s.o.Command != "" {
		env, err := s.o.Env(ctx)
		if err != nil {
			return nil, err
		}
		up.process, err = proc.Start(proc.Spec{
			Command: s.o.Command, Args: s.o.Args, Env: env, Dir: s.o.Dir, Owner: s.o.Owner, Stderr: up.stderr,
		})
		if err != nil {
			return nil, err
		}
		transport = &mcp.IOTransport{Reader: newMessageLines(up.process.Stdout, up.stderr), Writer: up.process.Stdin, MaxLineLength: maxMessage}
	} else {
		transport = &mcp.StreamableClientTransport{Endpoint: s.o.URL, HTTPClient: s.client}
	}
	up.tap = &tap{Transport: transport, heard: s.calls.hear}

	client := mcp.NewClient(&mcp.Implementation{Name: "toolroom", Version: s.o.Version}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { s.changed() },
	})
	session, err := client.Connect(ctx, up.tap, nil)
	if err != nil {
		if up.process != nil {
			up.process.Stop(stopGrace)
			return nil, startFailure(up, err)
		}
		return nil, err
	}
	up.session = session
	return up, nil
}

// startFailure explains a server that did not begin to speak.
func startFailure(up *upstream, err error) error {
	if exit := (*exec.ExitError)(nil); up.process.Err() != nil && asExit(up.process.Err(), &exit) {
		err = fmt.Errorf("it ended with %s", exit.ProcessState)
	}
	if tail := up.stderr.tail(); tail != "" {
		return fmt.Errorf("%w; it wrote: %s", err, tail)
	}
	return err
}

func asExit(err error, target **exec.ExitError) bool {
	exit, ok := err.(*exec.ExitError)
	*target = exit
	return ok
}

// close ends the session and the process. It is idempotent.
func (up *upstream) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = up.session.Close()
	}()
	if up.process != nil {
		up.process.Stop(stopGrace)
	}
	select {
	case <-closed:
	case <-time.After(stopGrace): // an HTTP server that does not answer the farewell
	}
}

func (up *upstream) idleSince(now time.Time) time.Duration {
	if up.busy.Load() > 0 {
		return 0
	}
	return now.Sub(time.Unix(0, up.lastUse.Load()))
}

func (up *upstream) offersTools() bool {
	r := up.session.InitializeResult()
	return r == nil || r.Capabilities == nil || r.Capabilities.Tools != nil
}

func (up *upstream) describe(namespace string) source.Description {
	d := source.Description{Kind: toolroom.SourceMCP, Title: namespace, State: "ready"}
	r := up.session.InitializeResult()
	if r == nil {
		return d
	}
	d.Text = r.Instructions
	if info := r.ServerInfo; info != nil {
		d.Title = info.Name
		if info.Title != "" {
			d.Title = info.Title
		}
	}
	d.Reason = "protocol " + r.ProtocolVersion
	return d
}

// request makes a typed request and gives its raw result, also where the SDK
// could not read the result.
func (up *upstream) request(token string, send func() error) (json.RawMessage, error) {
	up.busy.Add(1)
	defer func() {
		up.busy.Add(-1)
		up.lastUse.Store(time.Now().UnixNano())
	}()
	take := up.tap.expect(token)
	err := send()
	raw := take()
	if raw != nil {
		return raw, nil
	}
	if err == nil {
		err = fmt.Errorf("the answer had no result")
	}
	return nil, err
}

// token names one request on this connection.
func (up *upstream) token() string { return strconv.FormatInt(up.seq.Add(1), 10) }

type toolsPage struct {
	Tools      []json.RawMessage `json:"tools"`
	NextCursor string            `json:"nextCursor"`
}

func (up *upstream) listTools(ctx context.Context, cursor string) (*toolsPage, error) {
	token := up.token()
	raw, err := up.request(token, func() error {
		params := &mcp.ListToolsParams{Cursor: cursor}
		params.SetProgressToken(token)
		_, err := up.session.ListTools(ctx, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	page := &toolsPage{}
	if err := json.Unmarshal(raw, page); err != nil {
		return nil, fmt.Errorf("its tool list cannot be read: %w", err)
	}
	return page, nil
}

func (up *upstream) callTool(ctx context.Context, token string, req *source.Request) (json.RawMessage, error) {
	return up.request(token, func() error {
		params := &mcp.CallToolParams{Name: req.Tool.Name, Arguments: req.Arguments}
		params.SetProgressToken(token)
		_, err := up.session.CallTool(ctx, params)
		return err
	})
}

// headers adds the configured headers to each request, read anew each time so
// that secrets can rotate. A redirect to another host does not get them.
type headers struct {
	base   http.RoundTripper
	header func(context.Context) (http.Header, error)
}

func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	if h.header == nil || req.Response != nil { // Response is set on redirects
		return h.base.RoundTrip(req)
	}
	extra, err := h.header(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	for name, values := range extra {
		req.Header[http.CanonicalHeaderKey(strings.TrimSpace(name))] = values
	}
	return h.base.RoundTrip(req)
}
