package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// maxSubscriptions limits the resources that a session, or a request of
// subscriptions/listen, subscribes to: a template has any number of them.
const maxSubscriptions = 1000

func tooManySubscriptions() error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("a client may subscribe to at most %d resources at once", maxSubscriptions)}
}

// listen is one request of subscriptions/listen.
type listen struct {
	id    json.RawMessage
	reply replier
	lists map[string]bool // methods of notifications
	uris  map[string]bool

	// mu is held until the client has the acknowledgement, which comes before all
	// notifications.
	mu sync.Mutex
}

// notify sends a notification with the id of the subscription in _meta.
func (l *listen) notify(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := ReadObject(params)
	if err != nil {
		o = Object{}
	}
	meta, _ := ReadObject(o.Get("_meta")) // none is as good as an empty one
	meta.Set(MetaSubscription, l.id)
	o.Set("_meta", meta.JSON())
	_ = l.reply.send(notification(method, o.JSON())) // a client that has gone needs no word
}

// listen serves subscriptions/listen: it tells the client of changes until the request
// ends.
func (s *Server) listen(ctx context.Context, r *ServerRequest) (json.RawMessage, error) {
	var p struct {
		Notifications *struct {
			Tools     bool     `json:"toolsListChanged"`
			Prompts   bool     `json:"promptsListChanged"`
			Resources bool     `json:"resourcesListChanged"`
			URIs      []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if len(r.Params) == 0 || json.Unmarshal(r.Params, &p) != nil || p.Notifications == nil {
		return nil, &Error{Code: CodeInvalidParams, Message: "subscriptions/listen needs notifications"}
	}
	if len(p.Notifications.URIs) > maxSubscriptions {
		return nil, tooManySubscriptions()
	}
	var can struct {
		Tools, Prompts struct {
			ListChanged bool `json:"listChanged"`
		}
		Resources struct {
			ListChanged bool `json:"listChanged"`
			Subscribe   bool `json:"subscribe"`
		}
	}
	if err := json.Unmarshal(s.o.Capabilities, &can); err != nil {
		return nil, err
	}
	l := &listen{id: r.ID, reply: r.reply, lists: map[string]bool{}, uris: map[string]bool{}}
	var accepted []Field
	for _, list := range []struct {
		filter, method string
		wanted         bool
	}{
		{"toolsListChanged", "notifications/tools/list_changed", p.Notifications.Tools && can.Tools.ListChanged},
		{"promptsListChanged", "notifications/prompts/list_changed", p.Notifications.Prompts && can.Prompts.ListChanged},
		{"resourcesListChanged", "notifications/resources/list_changed", p.Notifications.Resources && can.Resources.ListChanged},
	} {
		if list.wanted {
			l.lists[list.method] = true
			accepted = append(accepted, Field{list.filter, json.RawMessage("true")})
		}
	}
	if can.Resources.Subscribe && s.o.Subscribe != nil && len(p.Notifications.URIs) > 0 {
		for _, uri := range p.Notifications.URIs {
			if l.uris[uri] {
				continue
			}
			l.uris[uri] = true
			unsubscribe, err := s.o.Subscribe(ctx, r, uri)
			if err != nil {
				return nil, err
			}
			defer unsubscribe()
		}
		uris, err := json.Marshal(p.Notifications.URIs)
		if err != nil {
			return nil, err
		}
		accepted = append(accepted, Field{"resourceSubscriptions", uris})
	}
	meta := object([]Field{{MetaSubscription, r.ID}})
	l.mu.Lock()
	s.mu.Lock()
	s.listens[l] = true // before the acknowledgement: the client misses no change after it
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listens, l)
	}()
	err := r.reply.send(notification("notifications/subscriptions/acknowledged", object([]Field{{"_meta", meta}, {"notifications", object(accepted)}})))
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(accepted) > 0 {
		select {
		case <-ctx.Done():
		case <-s.done:
		}
	}
	result := object([]Field{{"_meta", meta}})
	return s.complete(result)
}

// subscribe serves resources/subscribe.
func (s *Server) subscribe(ctx context.Context, r *ServerRequest) (json.RawMessage, error) {
	if r.Name == "" {
		return nil, &Error{Code: CodeInvalidParams, Message: "resources/subscribe needs uri"}
	}
	session := r.Session
	if !session.maySubscribe(r.Name) {
		return nil, tooManySubscriptions()
	}
	unsubscribe, err := s.o.Subscribe(ctx, r, r.Name)
	if err != nil {
		return nil, err
	}
	session.mu.Lock()
	over := session.over
	before := session.subs[r.Name]
	if !over {
		if session.subs == nil {
			session.subs = map[string]func(){}
		}
		session.subs[r.Name] = unsubscribe
	}
	session.mu.Unlock()
	if over {
		unsubscribe()
	}
	if before != nil {
		before()
	}
	return json.RawMessage("{}"), nil
}

func (s *ServerSession) maySubscribe(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs[uri] != nil || len(s.subs) < maxSubscriptions
}

func (s *ServerSession) unsubscribe(uri string) {
	s.mu.Lock()
	unsubscribe := s.subs[uri]
	delete(s.subs, uri)
	s.mu.Unlock()
	if unsubscribe != nil {
		unsubscribe()
	}
}

// changeDelay gathers changes that follow one another at once.
const changeDelay = 10 * time.Millisecond

// ListChanged tells clients that a list has changed: tools, prompts or resources. It
// returns at once, and several calls within some milliseconds make one notification.
func (s *Server) ListChanged(list string) {
	method := "notifications/" + list + "/list_changed"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if timer := s.changed[method]; timer != nil {
		timer.Reset(changeDelay)
		return
	}
	s.changed[method] = time.AfterFunc(changeDelay, func() {
		together(s.Sessions(), func(session *ServerSession) {
			_ = session.Notify(method, json.RawMessage("{}")) // a client that has gone needs no word
		})
		together(s.listening(func(l *listen) bool { return l.lists[method] }), func(l *listen) { l.notify(method, nil) })
	})
}

// notifiedAtOnce is how many clients are written to at once, so that one that reads slowly
// does not delay the others.
const notifiedAtOnce = 32

// together calls do for all, and returns when it has.
func together[T any](all []T, do func(T)) {
	var work sync.WaitGroup
	slots := make(chan struct{}, notifiedAtOnce)
	for _, one := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			do(one)
		})
	}
	work.Wait()
}

// ResourceUpdated tells the clients that have subscribed to a resource that it has
// changed. Params are those of notifications/resources/updated, with uri; nil means
// that they have only that.
func (s *Server) ResourceUpdated(uri string, params json.RawMessage) {
	if params == nil {
		params = object([]Field{String("uri", uri)})
	}
	const method = "notifications/resources/updated"
	together(s.Sessions(), func(session *ServerSession) {
		session.mu.Lock()
		subscribed := session.subs[uri] != nil
		session.mu.Unlock()
		if subscribed {
			_ = session.Notify(method, params) // a client that has gone needs no word
		}
	})
	together(s.listening(func(l *listen) bool { return l.uris[uri] }), func(l *listen) { l.notify(method, params) })
}

// listening returns the subscriptions that match.
func (s *Server) listening(match func(*listen) bool) []*listen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*listen
	for l := range s.listens {
		if match(l) {
			all = append(all, l)
		}
	}
	return all
}
