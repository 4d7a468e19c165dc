package mcpserver

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxBody is the largest request, the runner's limit for arguments and some
	// room around them.
	maxBody = 5 << 20
	// sessionTimeout ends sessions of old clients that went away silently.
	sessionTimeout = 30 * time.Minute
	// firstModern is the first revision without sessions.
	firstModern = "2026-07-28"
	// lastLegacy is the last revision with them.
	lastLegacy = "2025-11-25"
)

// speaksModern tells the era of an HTTP request: by its protocol header, or, for
// a POST without a session, by the version in its body.
func speaksModern(r *http.Request, m *incoming, body []byte) bool {
	if version := r.Header.Get("MCP-Protocol-Version"); version != "" {
		return version >= firstModern
	}
	if r.Method != http.MethodPost || r.Header.Get(sessionHeader) != "" {
		return false
	}
	if m != nil {
		return m.version != ""
	}
	var message struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	// What is not such a message is for the handler to refuse.
	_ = json.Unmarshal(body, &message)
	_, modern := message.Params.Meta[mcp.MetaKeyProtocolVersion]
	return modern
}

// speaksVersion is the protocol revision that the client of a session speaks.
func speaksVersion(session *mcp.ServerSession) string {
	if p := session.InitializeParams(); p != nil {
		return p.ProtocolVersion
	}
	return firstModern
}
