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

// backoff is the growing pause between attempts to open a stream. It has jitter, so
// that the clients of a restarted server do not all reconnect at once.
type backoff struct{ pause time.Duration }

func (r *backoff) next() time.Duration {
	r.pause = min(max(2*r.pause, firstReopen), lastReopen)
	return r.pause/2 + rand.N(r.pause/2)
}

// changeableLists are the lists of a server that can change, by capability.
var changeableLists = []struct{ capability, filter, notification string }{
	{"tools", "toolsListChanged", "notifications/tools/list_changed"},
	{"resources", "resourcesListChanged", "notifications/resources/list_changed"},
	{"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
}

// listenToLists subscribes to changes of the lists that a modern server declares as
// changeable.
func (c *Client) listenToLists() {
	filter, missed := []Field{}, []string{}
	for _, l := range changeableLists {
		if c.Server().AnnouncesChanges(l.capability) {
			filter = append(filter, Field{l.filter, json.RawMessage("true")})
			missed = append(missed, l.notification)
		}
	}
	if len(filter) > 0 {
		c.spawn(func() {
			// Ignore the error: the lists are then read again only when they are needed.
			_ = c.listen(c.ctx, object(filter), func() {}, func() {
				for _, notification := range missed {
					c.handler.notified(nil, notification, nil)
				}
			})
		})
	}
}

// Watch replaces the resources whose changes a modern server reports. It returns when
// the server has acknowledged the subscription. If the server refuses it, the previous
// subscription continues.
func (c *Client) Watch(ctx context.Context, uris []string) error {
	listening, stop := context.WithCancel(c.ctx)
	if len(uris) == 0 {
		stop()
	} else if err := c.watch(ctx, listening, uris); err != nil && ctx.Err() == nil {
		stop()
		return err
	}
	// Open the new stream before closing the old one, so that no change is missed.
	c.mu.Lock()
	before := c.stopWatching
	c.stopWatching = stop
	c.mu.Unlock()
	if before != nil {
		before()
	}
	return ctx.Err()
}

// watch subscribes to changes of resources until listening ends. It returns when the server has
// acknowledged or refused the subscription.
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
		return c.endedError()
	}
	select {
	case err := <-answered:
		if c.HasEnded() {
			return c.endedError()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen keeps a request subscriptions/listen open until ctx ends or the server refuses it. A
// modern server reports the changes that filter names while it is open. Changes between two
// such requests are not reported, so listen calls missed before each further one.
func (c *Client) listen(ctx context.Context, filter json.RawMessage, opened, missed func()) error {
	var wait backoff
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
			wait = backoff{}
		}
		select {
		case <-time.After(wait.next()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handleAcknowledged handles the server's acknowledgement of a subscription.
func (c *Client) handleAcknowledged(params json.RawMessage, origin int64) {
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
