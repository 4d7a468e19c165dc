package mcp

import (
	"encoding/json"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// What servers tell outside of calls goes to older clients alone: modern ones hear
// what they have asked for, and there is no way to ask for what nobody knows.
const (
	logMethod      = "notifications/message"
	completeMethod = "notifications/elicitation/complete"
)

// maxNotices is how many wait to be told; what comes beyond is dropped.
const maxNotices = 256

// notices are told one after the other, without holding up who tells them.
type notices struct {
	mu      sync.Mutex
	waiting []notice
	telling bool
}

// notice is something that clients are told outside of calls.
type notice struct {
	key  string // equal for notices of which one is enough; empty for all others
	tell func()
}

// add lets a notice wait until those before it have been told.
func (ns *notices) add(n notice) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	same := func(other notice) bool { return n.key != "" && other.key == n.key }
	if len(ns.waiting) == maxNotices || slices.ContainsFunc(ns.waiting, same) {
		return
	}
	ns.waiting = append(ns.waiting, n)
	if !ns.telling {
		ns.telling = true
		go ns.tellAll()
	}
}

func (ns *notices) tellAll() {
	for {
		ns.mu.Lock()
		waiting := ns.waiting
		ns.waiting = nil
		ns.telling = len(waiting) > 0
		ns.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, n := range waiting {
			n.tell()
		}
	}
}

// noticed takes in what a server told.
func (s *Server) noticed(n catalog.Notification) {
	s.notices.add(notice{tell: func() {
		panics.Log(s.o.Log, "telling clients a notice", func() { s.tell(n) })
	}})
}

// resourceUpdated takes in that a resource has changed.
func (s *Server) resourceUpdated(u catalog.Update) {
	params := u.Params
	if params != nil && u.Shown != u.URI {
		params = withMember(params, "uri", u.Shown)
	}
	s.notices.add(notice{key: u.Shown + "\n" + string(params), tell: func() {
		panics.Log(s.o.Log, "telling clients of a changed resource", func() { s.wire.ResourceUpdated(u.Shown, params) })
	}})
}

// tell tells a notice to the clients that it is for.
func (s *Server) tell(n catalog.Notification) {
	if n.Method == completeMethod {
		if session, ok := s.sentPages.take(n.Provider, n.Params); ok {
			_ = session.Notify(n.Method, n.Params) // a client that cannot be told has gone
		}
		return
	}
	allowed := map[string]bool{}
	for _, session := range s.wire.Sessions() {
		who := s.o.Identity(session.Context())
		owner := identity.Owner(who)
		if !n.Everybody && n.To != owner {
			continue
		}
		may, asked := allowed[owner]
		if !asked {
			may = s.mayUse(who, n.Provider)
			allowed[owner] = may
		}
		if may && (n.For == nil || n.For(&request{can: abilitiesOf(session.Capabilities())})) {
			_ = session.Notify(n.Method, n.Params) // a client that cannot be told has gone
		}
	}
}

// mayUse reports whether a caller may call anything of a source.
func (s *Server) mayUse(who toolroom.Identity, provider string) bool {
	visible := s.visible(who)
	return len(s.o.Runner.Catalog.All(func(e *catalog.Entry) bool { return e.Tool.ID.Namespace == provider && visible(e) })) > 0
}

// maxSentPages is the maximum number of open questions with a URL that are remembered.
const maxSentPages = 1000

// sentPages remembers which older client was sent to which page, because the server of the
// page reports when the user is done there, and only that client may receive the report.
type sentPages struct {
	bySource *lru.Cache[sentPage, *mcp.ServerSession]
}

// sentPage is one such question. Its id is unique in its source.
type sentPage struct{ source, id string }

func newSentPages() sentPages {
	bySource, err := lru.New[sentPage, *mcp.ServerSession](maxSentPages)
	if err != nil { // only a size below one is an error
		panic(err)
	}
	return sentPages{bySource}
}

func elicitationID(params json.RawMessage) string {
	var p struct {
		ID string `json:"elicitationId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return p.ID
}

// put remembers who is asked a question.
func (p sentPages) put(q source.Question, session *mcp.ServerSession) {
	if id := elicitationID(q.Params); id != "" {
		p.bySource.Add(sentPage{q.Source, id}, session)
	}
}

// take returns the session that was asked the question of a notice, and forgets it.
func (p sentPages) take(provider string, params json.RawMessage) (*mcp.ServerSession, bool) {
	key := sentPage{provider, elicitationID(params)}
	session, ok := p.bySource.Get(key)
	p.bySource.Remove(key)
	return session, ok
}
