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

// Methods of notifications of MCP servers that belong to no call. Only older clients receive
// such notifications: modern clients receive what they have subscribed to, and they cannot
// subscribe to these.
const (
	logMethod      = "notifications/message"
	completeMethod = "notifications/elicitation/complete"
)

// maxQueuedNotifications limits a notificationQueue. Further notifications are dropped.
const maxQueuedNotifications = 256

// notificationQueue sends notifications to clients one after the other, so that a slow client
// does not block the source that sent them. The zero value is ready to use.
type notificationQueue struct {
	mu      sync.Mutex
	waiting []queuedNotification
	sending bool
}

// queuedNotification is a notification that belongs to no call.
type queuedNotification struct {
	key  string // one of several with the same key is enough; empty means that all are sent
	send func()
}

// add queues a notification, unless one with the same key is queued or the queue is full.
func (ns *notificationQueue) add(n queuedNotification) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	same := func(other queuedNotification) bool { return n.key != "" && other.key == n.key }
	if len(ns.waiting) == maxQueuedNotifications || slices.ContainsFunc(ns.waiting, same) {
		return
	}
	ns.waiting = append(ns.waiting, n)
	if !ns.sending {
		ns.sending = true
		go ns.sendAll()
	}
}

func (ns *notificationQueue) sendAll() {
	for {
		ns.mu.Lock()
		waiting := ns.waiting
		ns.waiting = nil
		ns.sending = len(waiting) > 0
		ns.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, n := range waiting {
			n.send()
		}
	}
}

// notificationReceived queues a notification of an MCP server for the clients.
func (s *Server) notificationReceived(n catalog.Notification) {
	s.queue.add(queuedNotification{send: func() {
		panics.Log(s.o.Log, "telling clients a notice", func() { s.sendNotification(n) })
	}})
}

// resourceUpdated queues a notification that a resource has changed.
func (s *Server) resourceUpdated(u catalog.Update) {
	params := u.Params
	if params != nil && u.Shown != u.URI {
		params = withMember(params, "uri", u.Shown)
	}
	s.queue.add(queuedNotification{key: u.Shown + "\n" + string(params), send: func() {
		panics.Log(s.o.Log, "telling clients of a changed resource", func() { s.wire.ResourceUpdated(u.Shown, params) })
	}})
}

// sendNotification sends a notification of an MCP server to the clients that may receive it.
func (s *Server) sendNotification(n catalog.Notification) {
	if n.Method == completeMethod {
		if session, ok := s.urlQuestions.take(n.Provider, n.Params); ok {
			_ = session.Notify(n.Method, n.Params) // an error means that the client has gone
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
		if may && (n.For == nil || n.For(&request{can: readCapabilities(session.Capabilities())})) {
			_ = session.Notify(n.Method, n.Params) // an error means that the client has gone
		}
	}
}

// mayUse reports whether a caller may call any tool of a source.
func (s *Server) mayUse(who toolroom.Identity, provider string) bool {
	visible := s.visibleTo(who)
	return len(s.o.Runner.Catalog.All(func(e *catalog.Entry) bool { return e.Tool.ID.Namespace == provider && visible(e) })) > 0
}

// maxURLQuestions limits the open questions in urlQuestions.
const maxURLQuestions = 1000

// urlQuestions holds the sessions of older clients that were asked to open a URL. The MCP
// server that asked reports when the user has finished there, and only the client that was
// asked may receive the report.
type urlQuestions struct {
	bySource *lru.Cache[urlQuestion, *mcp.ServerSession]
}

// urlQuestion identifies a question. Its id is unique in its source.
type urlQuestion struct{ source, id string }

func newURLQuestions() urlQuestions {
	bySource, err := lru.New[urlQuestion, *mcp.ServerSession](maxURLQuestions)
	if err != nil { // only a size below one is an error
		panic(err)
	}
	return urlQuestions{bySource}
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

// put stores the session that is asked a question.
func (p urlQuestions) put(q source.Question, session *mcp.ServerSession) {
	if id := elicitationID(q.Params); id != "" {
		p.bySource.Add(urlQuestion{q.Source, id}, session)
	}
}

// take removes and returns the session that was asked the question in a notification.
func (p urlQuestions) take(provider string, params json.RawMessage) (*mcp.ServerSession, bool) {
	key := urlQuestion{provider, elicitationID(params)}
	session, ok := p.bySource.Get(key)
	p.bySource.Remove(key)
	return session, ok
}
