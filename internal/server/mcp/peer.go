//lint:file-ignore SA1019 sampling, roots and logging are deprecated and still served

package mcpserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// peer is the client behind a request.
type peer struct {
	version string
	// session is the id of its session, empty where there is none.
	session string
	// can says which questions the client answers.
	can map[string]bool
	// says are its capabilities, as it has them; nil where they are none.
	says json.RawMessage
	// tasks says that it knows tasks.
	tasks bool
	// progress is its token, nil where it wants to hear of none.
	progress any
	// logs says that it may want to hear log lines.
	logs bool
	// speak gives the way to tell it something before the answer. It is false
	// where nobody hears.
	speak func() (voice, bool)
}

// voice is how a client is spoken to while its request is served: what is said
// with this context on this session belongs to the request.
type voice struct {
	ctx     context.Context
	session *mcp.ServerSession
}

// modern reports whether the client has no session.
func (p *peer) modern() bool { return p.version >= firstModern }

// peerOf is the client of a request that the SDK has read.
func peerOf(ctx context.Context, session *mcp.ServerSession, caps *mcp.ClientCapabilities, progress any) peer {
	p := peer{
		version: speaksVersion(session), session: session.ID(), progress: progress, logs: true,
		speak: func() (voice, bool) { return voice{ctx, session}, true },
	}
	p.take(caps)
	return p
}

func (p *peer) take(caps *mcp.ClientCapabilities) {
	if caps == nil {
		return
	}
	if p.says == nil {
		p.says, _ = jsonx.Marshal(caps) // what came as JSON has JSON
	}
	p.tasks = knowsTasks(caps)
	p.can = abilities(caps.Elicitation != nil, caps.Sampling != nil, caps.RootsV2 != nil)
}

func abilities(elicits, samples, roots bool) map[string]bool {
	if !elicits && !samples && !roots {
		return nil
	}
	can := map[string]bool{}
	for method, declared := range map[string]bool{source.MethodElicit: elicits, source.MethodSample: samples, source.MethodRoots: roots} {
		if declared {
			can[method] = true
		}
	}
	return can
}

// modernPeer is the client of a request of 2026-07-28, which says in itself what
// its client can do. It is false where it does not say that as it must.
func modernPeer(m *incoming) (peer, bool) {
	if m.version != firstModern || len(m.capabilities) == 0 {
		return peer{}, false
	}
	p := peer{version: m.version, logs: m.logLevel != "", progress: progressOf(m)}
	if len(m.info) > 0 && !namesItself(m.info) {
		return peer{}, false
	}
	if string(m.capabilities) == "{}" {
		return p, true
	}
	var caps mcp.ClientCapabilities
	var roots struct {
		Roots *struct{} `json:"roots"`
	}
	if json.Unmarshal(m.capabilities, &caps) != nil || json.Unmarshal(m.capabilities, &roots) != nil {
		return peer{}, false
	}
	p.says = m.capabilities
	p.take(&caps)
	if roots.Roots != nil {
		p.can = abilities(p.can[source.MethodElicit], p.can[source.MethodSample], true)
	}
	return p, true
}

// namesItself reports whether what a client says of itself has the form that it
// must have.
func namesItself(info json.RawMessage) bool {
	members, err := jsonx.Members(info)
	return err == nil && !slices.ContainsFunc(members, func(m jsonx.Member) bool {
		return (m.Name == "name" || m.Name == "version") && m.Value[0] != '"' && string(m.Value) != "null"
	})
}

func progressOf(m *incoming) any {
	if len(m.progress) == 0 || string(m.progress) == "null" {
		return nil
	}
	return m.progress
}
