package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// client is an MCP client of one revision on one transport: http, stdio or sse,
// the two endpoints of 2024-11-05. It adds to a request only what its revision
// asks for.
type client struct {
	w         *world
	transport string
	revision  string
	can       string // its capabilities
	next      int
	session   string
	lines     chan string // messages on stdio and sse; closed at the end
	stdin     io.WriteCloser
	process   *exec.Cmd
	endpoint  string // of sse
	body      io.Closer
}

// modern is the first revision without sessions.
const modern = "2026-07-28"

// newClient makes a client of a name such as http/2025-11-25; none is a modern
// one over HTTP.
func newClient(w *world, name string) *client {
	if name == "" {
		name = "http/" + modern
	}
	transport, revision, _ := strings.Cut(name, "/")
	return &client{w: w, transport: transport, revision: revision, can: "{}"}
}

// step does a step of a client:
//
//	can {"elicitation":{}}        sets its capabilities
//	hello                         connects: server/discover, or initialize and what follows
//	mcp METHOD {params}           sends a request, prints all that comes until its answer
//	tell METHOD {params}          sends a notification
//	raw TEXT                      sends what may be no message, prints one answer
//
// Input of a request answers the requests of the server, in their order.
func (c *client) step(verb, rest string, input []string) string {
	method, params, _ := strings.Cut(rest, " ")
	switch verb {
	case "can":
		c.can = rest
		return ""
	case "hello":
		return c.hello()
	case "tell":
		return c.send(message(c, "", method, params), "", method, nil)
	case "raw":
		return c.send(rest, "raw", "", nil)
	}
	return c.request(method, params, input)
}

// hello connects the client, sends initialize or server/discover, and waits until all sources
// have been listed.
func (c *client) hello() string {
	if c.transport != "stdio" && c.w.server == nil {
		c.w.serve(nil)
	}
	if c.revision >= modern {
		out := c.request("server/discover", "", nil)
		c.waitForSources()
		return out
	}
	out := c.request("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"golden","version":"1"}}`, c.revision, c.can), nil)
	out += c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "", nil)
	c.waitForSources()
	return out
}

// waitForSources lists the tools, which waits for the sources: on stdio, no other
// message tells when they are ready.
func (c *client) waitForSources() {
	if c.transport == "stdio" {
		c.send(message(c, "0", "tools/list", ""), "0", "tools/list", nil)
	}
}

func (c *client) request(method, params string, replies []string) string {
	c.next++
	id := fmt.Sprint(c.next)
	return c.send(message(c, id, method, params), id, method, replies)
}

// message returns a message. That of a modern client includes the client's name and capabilities.
func message(c *client, id, method, params string) string {
	if c.revision >= modern {
		meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"golden","version":"1"}`, c.revision, c.can)
		params = strings.TrimPrefix(params, "{")
		if more, ok := strings.CutPrefix(params, `"_meta":{`); ok {
			params = "{" + meta + "," + more
		} else if params = strings.TrimSuffix(params, "}"); params == "" {
			params = "{" + meta + "}}"
		} else {
			params = "{" + meta + "}," + params + "}"
		}
	}
	if params != "" {
		params = `,"params":` + params
	}
	if id != "" {
		id = `,"id":` + id
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0"%s,"method":%q%s}`, id, method, params)
}

// send sends a text and prints what comes until the answer to the request id:
// any message for the id raw, none without an id.
func (c *client) send(text, id, method string, replies []string) string {
	c.connect()
	if c.transport == "http" {
		return c.post(text, id, method, replies)
	}
	if c.transport == "stdio" {
		fmt.Fprintln(c.stdin, text)
	} else if out := c.postTo(c.endpoint, text); out != "" {
		return out
	}
	if id == "" {
		return ""
	}
	return c.read(id, replies, func() (string, bool) {
		select {
		case m, ok := <-c.lines:
			return m, ok
		case <-time.After(stepTimeout):
			c.w.t.Errorf("nothing answers %s", text)
			return "", false
		}
	})
}

// read prints messages until the answer to a request.
func (c *client) read(id string, replies []string, next func() (string, bool)) string {
	var b strings.Builder
	for {
		text, ok := next()
		if !ok {
			return b.String() + markState + "the connection has ended\n"
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if strings.Contains(text, `/list_changed"`) {
			continue // comes at any time while sources start
		}
		b.WriteString(prefixLines(markOut, text+"\n"))
		if err := json.Unmarshal([]byte(text), &m); id == "raw" || err == nil && m.Method == "" && string(m.ID) == id {
			return b.String()
		}
		if m.Method != "" && m.ID != nil && len(replies) > 0 {
			b.WriteString(c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, replies[0]), "", "", nil))
			replies = replies[1:]
		}
	}
}

// post sends a message over streamable HTTP.
func (c *client) post(text, id, method string, replies []string) string {
	if c.w.server == nil {
		c.w.t.Error("no server was started: the scenario needs a step serve")
		return ""
	}
	ctx, cancel := context.WithTimeout(c.w.t.Context(), stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.w.server.url+"/mcp", strings.NewReader(text))
	if err != nil {
		c.w.t.Error(err)
		return ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.revision >= "2025-06-18" && method != "initialize" {
		req.Header.Set("Mcp-Protocol-Version", c.revision)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.revision >= modern && method != "" {
		var m struct {
			Params struct {
				Name   string `json:"name"`
				URI    string `json:"uri"`
				TaskID string `json:"taskId"`
			} `json:"params"`
		}
		_ = json.Unmarshal([]byte(text), &m)
		req.Header.Set("Mcp-Method", method)
		if name := m.Params.Name + m.Params.URI + m.Params.TaskID; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.w.t.Errorf("%s: %v", text, err)
		return ""
	}
	defer resp.Body.Close()
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
		c.session = s
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		out := make(chan string)
		go func() {
			defer close(out)
			for e := range readEvents(resp.Body) {
				for _, l := range strings.Split(e, "\n") {
					if data, ok := strings.CutPrefix(l, "data: "); ok && data != "" {
						out <- data
					}
				}
			}
		}()
		return c.read(id, replies, func() (string, bool) { m, ok := <-out; return m, ok })
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.w.t.Errorf("%s: %v", text, err)
	}
	status := ""
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		status = statusAndHeaders(resp)
	}
	return status + answer(resp, string(body))
}

// connect starts `toolroom serve --stdio`, or opens the stream of sse.
func (c *client) connect() {
	if c.lines != nil || c.transport == "http" {
		return
	}
	c.lines = make(chan string, 1000)
	if c.transport == "sse" {
		c.listen()
		return
	}
	c.process = exec.Command(filepath.Join(c.w.binary(), "toolroom"), "serve", "--stdio")
	c.process.Dir, c.process.Env = c.w.dir, c.w.env
	stdin, err := c.process.StdinPipe()
	if err != nil {
		c.w.t.Fatal(err)
	}
	stdout, err := c.process.StdoutPipe()
	if err == nil {
		err = c.process.Start()
	}
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.lines)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			c.lines <- lines.Text()
		}
	}()
}

func (c *client) listen() {
	resp, err := http.Get(c.w.server.url + "/sse")
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.body = resp.Body
	first := make(chan string, 1)
	go func() {
		defer close(c.lines)
		for e := range readEvents(resp.Body) {
			_, data, _ := strings.Cut(strings.TrimSuffix(e, "\n"), "data: ")
			if strings.HasPrefix(e, "event: endpoint") {
				first <- data
				continue
			}
			c.lines <- data
		}
	}()
	c.endpoint = c.w.server.url + <-first
}

func (c *client) postTo(url, text string) string {
	resp, err := http.Post(url, "application/json", strings.NewReader(text))
	if err != nil {
		c.w.t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusAccepted {
		return ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.w.t.Error(err)
	}
	return statusAndHeaders(resp) + answer(resp, string(body))
}

func (c *client) close() {
	if c.body != nil {
		c.body.Close()
	}
	if c.process != nil && c.process.Process != nil {
		c.stdin.Close()
		kill := time.AfterFunc(stepTimeout, func() { _ = c.process.Process.Kill() })
		defer kill.Stop()
		for range c.lines { // until its end
			continue
		}
		_ = c.process.Wait()
	}
}
