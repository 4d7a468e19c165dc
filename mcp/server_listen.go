package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// maxSubscriptions limits the resources that a session or a request subscriptions/listen
// subscribes to, because a template can have any number of resources.
const maxSubscriptions = 1000

func tooManySubscriptions() error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("a client may subscribe to at most %d resources at once", maxSubscriptions)}
}

// subscription is one request subscriptions/listen.
type subscription struct {
	id    json.RawMessage
	reply responder
	lists map[string]bool // by the method of the notification
	uris  map[string]bool

	// mu is held until the acknowledgement has been sent, which must precede all
	// notifications.
	mu sync.Mutex
}

// notify sends a notification with the id of the subscription in _meta.
func (l *subscription) notify(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := ReadObject(params)
	if err != nil {
		o = Object{}
	}
	meta, _ := ReadObject(o.Get("_meta")) // an invalid one is replaced
	meta.Set(MetaSubscription, l.id)
	o.Set("_meta", meta.JSON())
	_ = l.reply.send(encodeNotification(method, o.JSON())) // an error means that the client has gone
}

// listen serves subscriptions/listen: it notifies the client of changes until the request ends.
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
	l := &subscription{id: r.ID, reply: r.responder, lists: map[string]bool{}, uris: map[string]bool{}}
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
	s.subscriptions[l] = true // before the acknowledgement: the client misses no change after it
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscriptions, l)
	}()
	err := r.responder.send(encodeNotification("notifications/subscriptions/acknowledged", object([]Field{{"_meta", meta}, {"notifications", object(accepted)}})))
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
	return s.completeResult(result)
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
	over := session.closed
	before := session.unsubscribers[r.Name]
	if !over {
		if session.unsubscribers == nil {
			session.unsubscribers = map[string]func(){}
		}
		session.unsubscribers[r.Name] = unsubscribe
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
	return s.unsubscribers[uri] != nil || len(s.unsubscribers) < maxSubscriptions
}

func (s *ServerSession) unsubscribe(uri string) {
	s.mu.Lock()
	unsubscribe := s.unsubscribers[uri]
	delete(s.unsubscribers, uri)
	s.mu.Unlock()
	if unsubscribe != nil {
		unsubscribe()
	}
}

// changeDelay is the time for which further changes are awaited and reported together.
const changeDelay = 10 * time.Millisecond

// ListChanged notifies clients that a list has changed: tools, prompts or resources. It
// returns at once. Several calls within some milliseconds make one notification.
func (s *Server) ListChanged(list string) {
	method := "notifications/" + list + "/list_changed"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if timer := s.changeTimers[method]; timer != nil {
		timer.Reset(changeDelay)
		return
	}
	s.changeTimers[method] = time.AfterFunc(changeDelay, func() {
		forEachParallel(s.Sessions(), func(session *ServerSession) {
			_ = session.Notify(method, json.RawMessage("{}")) // an error means that the client has gone
		})
		forEachParallel(s.matchingSubscriptions(func(l *subscription) bool { return l.lists[method] }), func(l *subscription) { l.notify(method, nil) })
	})
}

// maxParallelNotifications is the number of clients that are written to at once, so that one that
// reads slowly does not delay the others.
const maxParallelNotifications = 32

// forEachParallel calls do for all elements, several at once, and returns when all calls have.
func forEachParallel[T any](all []T, do func(T)) {
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelNotifications)
	for _, one := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			do(one)
		})
	}
	work.Wait()
}

// ResourceUpdated notifies the clients that have subscribed to a resource that it has changed.
// Params are the parameters of notifications/resources/updated; nil means an object with only
// the uri.
func (s *Server) ResourceUpdated(uri string, params json.RawMessage) {
	if params == nil {
		params = object([]Field{String("uri", uri)})
	}
	const method = "notifications/resources/updated"
	forEachParallel(s.Sessions(), func(session *ServerSession) {
		session.mu.Lock()
		subscribed := session.unsubscribers[uri] != nil
		session.mu.Unlock()
		if subscribed {
			_ = session.Notify(method, params) // an error means that the client has gone
		}
	})
	forEachParallel(s.matchingSubscriptions(func(l *subscription) bool { return l.uris[uri] }), func(l *subscription) { l.notify(method, params) })
}

// matchingSubscriptions returns the subscriptions for which match is true.
func (s *Server) matchingSubscriptions(match func(*subscription) bool) []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*subscription
	for l := range s.subscriptions {
		if match(l) {
			all = append(all, l)
		}
	}
	return all
}
