package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// The first and the longest pause before a broken stream is opened again.
const (
	firstReopen = time.Second
	lastReopen  = time.Minute
)

// reopening is the growing pause between attempts to open a stream. It has jitter, so
// that the clients of a restarted server do not all reconnect at once.
type reopening struct{ pause time.Duration }

func (r *reopening) next() time.Duration {
	r.pause = min(max(2*r.pause, firstReopen), lastReopen)
	return r.pause/2 + rand.N(r.pause/2)
}

// lists are the lists of a server that can change, by capability.
var lists = []struct{ capability, filter, notification string }{
	{"tools", "toolsListChanged", "notifications/tools/list_changed"},
	{"resources", "resourcesListChanged", "notifications/resources/list_changed"},
	{"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
}

// listenToLists subscribes to changes of the lists that a modern server declares as
// changeable.
func (c *Client) listenToLists() {
	filter, missed := []Field{}, []string{}
	for _, l := range lists {
		if c.Server().Announces(l.capability) {
			filter = append(filter, Field{l.filter, json.RawMessage("true")})
			missed = append(missed, l.notification)
		}
	}
	if len(filter) > 0 {
		c.spawn(func() {
			// Without it, the lists are read anew only when something else asks for them.
			_ = c.listen(c.open, object(filter), func() {}, func() {
				for _, notification := range missed {
					c.handler.notified(nil, notification, nil)
				}
			})
		})
	}
}

// Watch replaces the resources whose changes a modern server reports. It returns when
// the server has acknowledged the subscription. If the server refuses it, the one before
// stays.
func (c *Client) Watch(ctx context.Context, uris []string) error {
	listening, stop := context.WithCancel(c.open)
	if len(uris) == 0 {
		stop()
	} else if err := c.watch(ctx, listening, uris); err != nil && ctx.Err() == nil {
		stop()
		return err
	}
	// The new stream is open first, so that no change is missed between the two.
	c.mu.Lock()
	before := c.unwatch
	c.unwatch = stop
	c.mu.Unlock()
	if before != nil {
		before()
	}
	return ctx.Err()
}

// watch listens to changes of resources until listening ends. It returns when the server
// has answered.
func (c *Client) watch(ctx, listening context.Context, uris []string) error {
	text, err := json.Marshal(uris)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	began := c.spawn(func() {
		opened := sync.OnceFunc(func() { answered <- nil })
		err := c.listen(listening, object([]Field{{"resourceSubscriptions", text}}), opened, func() {
			for _, uri := range uris {
				c.handler.notified(nil, "notifications/resources/updated", object([]Field{String("uri", uri)}))
			}
		})
		select {
		case answered <- err:
		default: // it was acknowledged
		}
	})
	if !began {
		return c.over()
	}
	select {
	case err := <-answered:
		if c.Over() {
			return c.over()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen keeps a request open with which a modern server reports the changes that
// filter names, until ctx ends or the server refuses it. The server does not report
// changes between two such requests, so listen calls missed before each further one.
func (c *Client) listen(ctx context.Context, filter json.RawMessage, opened, missed func()) error {
	var wait reopening
	for first := true; ; first = false {
		if !first {
			missed()
		}
		began := time.Now()
		_, err := c.Call(ctx, &Request{Method: "subscriptions/listen", Params: []Field{{"notifications", filter}}, opened: opened})
		if refused := (*Error)(nil); errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > lastReopen {
			wait = reopening{}
		}
		select {
		case <-time.After(wait.next()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// acknowledged handles the server's acknowledgement of a subscription.
func (c *Client) acknowledged(params json.RawMessage, origin int64) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) == nil {
		if id, err := strconv.ParseInt(string(p.Meta[MetaSubscription]), 10, 64); err == nil {
			origin = id
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.pending[origin]; waiting != nil && waiting.opened != nil {
		waiting.opened()
	}
}
