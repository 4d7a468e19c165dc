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
			c.listen(c.open, object(filter), func() {}, func() {
				for _, notification := range missed {
					c.handler.notified(nil, notification, nil)
				}
			})
		})
	}
}

// Watch replaces the resources whose changes a modern server reports. It returns when
// the server has acknowledged or refused the subscription.
func (c *Client) Watch(ctx context.Context, uris []string) error {
	listening, stop := context.WithCancel(c.open)
	c.mu.Lock()
	before := c.unwatch
	c.unwatch = stop
	c.mu.Unlock()
	if before != nil {
		// Open the new stream first, so that no change is missed between the two.
		defer before()
	}
	if len(uris) == 0 {
		stop()
		return nil
	}
	text, err := json.Marshal(uris)
	if err != nil {
		stop()
		return err
	}
	opened := make(chan struct{})
	isOpen := sync.OnceFunc(func() { close(opened) })
	began := c.spawn(func() {
		defer isOpen()
		c.listen(listening, object([]Field{{"resourceSubscriptions", text}}), isOpen, func() {
			for _, uri := range uris {
				c.handler.notified(nil, "notifications/resources/updated", object([]Field{String("uri", uri)}))
			}
		})
	})
	if !began {
		stop()
		return c.over()
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen keeps a request open with which a modern server reports the changes that
// filter names, until ctx ends. The server does not report changes between two such
// requests, so listen calls missed before each further one.
func (c *Client) listen(ctx context.Context, filter json.RawMessage, opened, missed func()) {
	var wait reopening
	for first := true; ; first = false {
		if !first {
			missed()
		}
		began := time.Now()
		_, err := c.Call(ctx, &Request{Method: "subscriptions/listen", Params: []Field{{"notifications", filter}}, opened: opened})
		if refused := (*Error)(nil); errors.As(err, &refused) || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastReopen {
			wait = reopening{}
		}
		select {
		case <-time.After(wait.next()):
		case <-ctx.Done():
			return
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
