package mcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// keepAlivePeriod is the interval of comments on an idle stream: proxies cut streams that
	// are idle for a minute.
	keepAlivePeriod = 15 * time.Second
	// writeTimeout limits the wait for a client that does not read its stream.
	writeTimeout = 10 * time.Second
)

// stream is a sequence of server-sent events to one client. The events of a stream with a log
// are stored, so that a client can resume the stream after its connection has broken.
type stream struct {
	id  string    // unique in its session; empty for the one that belongs to no request
	log *eventLog // nil if the stream cannot be resumed

	mu       sync.Mutex
	receiver *receiver // the connected response, or nil
	next     int       // number of the next event
	unsent   int       // number of the first event that was written to no response
	done     bool      // the last event has been sent

	journal journal // guarded by the log
}

// receiver is a response that a stream is connected to.
type receiver struct {
	w     http.ResponseWriter
	gone  chan struct{} // closed when the stream is no longer connected to it
	timer *time.Timer   // writes a comment
}

// errNotConnected means that a stream without a log has no receiver.
var errNotConnected = errors.New("the client does not listen")

func newStream(log *eventLog) *stream { return &stream{id: rand.Text(), log: log} }

// connect writes the header of a stream to w, and from then on sends its events there. After is
// the number of the last event that the client has received. If it is -1, the client receives
// the events that were written to no response yet.
func (s *stream) connect(w http.ResponseWriter, after int) (*receiver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missed []string
	first := 0 // number of the first of missed
	if s.log != nil {
		from := after + 1
		if after < 0 {
			from = s.unsent
		}
		missed, first = s.log.from(&s.journal, from)
		if after >= 0 && first > from {
			return nil, errEventsDropped
		}
	}
	h := w.Header()
	h["Content-Type"] = streamType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
	if s.receiver != nil {
		s.disconnectLocked()
	}
	k := &receiver{w: w, gone: make(chan struct{})}
	s.receiver = k
	k.timer = time.AfterFunc(keepAlivePeriod, func() { s.keepAlive(k) })
	if s.id == "" && s.log != nil {
		_ = s.write(": ok\n\n") // some proxies hold back headers until the body begins
	} else {
		_ = flush(http.NewResponseController(w)) // if the client has gone, the writes below fail
	}
	for i, text := range missed {
		if s.receiver == k && text != "" {
			_ = s.write(s.formatEvent(text, first+i))
		}
	}
	s.unsent = s.next
	if s.done && s.receiver == k {
		s.disconnectLocked()
	}
	return k, nil
}

// flush sends what has been written. It ignores writers that cannot flush, which tests use.
func flush(c *http.ResponseController) error {
	if err := c.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

var (
	streamType  = []string{"text/event-stream"}
	jsonType    = []string{"application/json"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
)

// disconnect ends the use of a response. Later events are stored if s has a log.
func (s *stream) disconnect(k *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver == k {
		s.disconnectLocked()
	}
}

func (s *stream) disconnectLocked() {
	s.receiver.timer.Stop()
	close(s.receiver.gone)
	s.receiver = nil
}

func (s *stream) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiver != nil
}

// sendPrimingEvent sends an event without a message, so that the client can resume the stream
// from its beginning (2025-11-25).
func (s *stream) sendPrimingEvent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done { // the session has ended
		return
	}
	s.log.add(&s.journal, "")
	if s.receiver != nil {
		_ = s.write("event: prime\nid: " + s.eventID(s.next) + "\ndata: \n\n")
		s.unsent++
	}
	s.next++
}

// send sends a message. If last is set, it then ends the stream.
func (s *stream) send(text []byte, last bool) error {
	text, err := oneLine(text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return errNotConnected
	}
	s.done = last
	message := string(text)
	if s.log != nil {
		s.log.add(&s.journal, message)
	}
	if s.receiver != nil {
		if err = s.write(s.formatEvent(message, s.next)); err == nil {
			s.unsent = s.next + 1
		}
	} else if s.log == nil {
		err = errNotConnected
	}
	s.next++
	if last && s.receiver != nil {
		s.disconnectLocked()
	}
	if s.log != nil {
		return nil // the event is stored
	}
	return err
}

// writePart writes a part of the stream that is not a message.
func (s *stream) writePart(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver == nil {
		return errNotConnected
	}
	return s.write(text)
}

// end ends the connected response without a message.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.receiver != nil {
		s.disconnectLocked()
	}
}

// release ends the connected response, and tells the client to reconnect after retry
// milliseconds.
func (s *stream) release(retry int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver != nil {
		k := s.receiver
		_ = s.write("event: close\nretry: " + strconv.Itoa(retry) + "\ndata: \n\n")
		if s.receiver == k {
			s.disconnectLocked()
		}
	}
}

func (s *stream) eventID(number int) string { return s.id + "_" + strconv.Itoa(number) }

func (s *stream) formatEvent(text string, number int) string {
	id := ""
	if s.log != nil {
		id = "id: " + s.eventID(number) + "\n"
	}
	return "event: message\n" + id + "data: " + text + "\n\n"
}

// write writes a part of the stream and flushes it. It disconnects a client that does not read
// for writeTimeout.
func (s *stream) write(text string) error {
	k := s.receiver
	k.timer.Reset(keepAlivePeriod)
	c := http.NewResponseController(k.w)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only for writers of tests
	_, err := io.WriteString(k.w, text)
	if err == nil {
		err = flush(c)
	}
	_ = c.SetWriteDeadline(time.Time{})
	if err != nil && s.receiver == k {
		s.disconnectLocked()
	}
	return err
}

func (s *stream) keepAlive(k *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver == k {
		_ = s.write(": alive\n\n") // disconnects a client that has gone
	}
}

// streams are the streams of one session.
type streams struct {
	log *eventLog
	// standalone is the stream for messages that belong to no request.
	standalone *stream

	mu   sync.Mutex
	byID map[string]*stream
}

func newStreams(log *eventLog) *streams {
	return &streams{log: log, standalone: &stream{log: log}, byID: map[string]*stream{}}
}

// open begins a stream for a request.
func (ss *streams) open() *stream {
	s := newStream(ss.log)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	// Now and then, forget ended streams without stored events.
	if len(ss.byID) > 0 && len(ss.byID)%64 == 0 {
		for id, old := range ss.byID {
			if ss.log.empty(&old.journal) && old.isDone() {
				delete(ss.byID, id)
			}
		}
	}
	ss.byID[s.id] = s
	return s
}

func (s *stream) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// find returns the stream and the number of an event id.
func (ss *streams) find(eventID string) (*stream, int, error) {
	id, text, ok := strings.Cut(eventID, "_")
	number, err := strconv.Atoi(text)
	if !ok || err != nil || number < 0 {
		return nil, 0, fmt.Errorf("malformed Last-Event-ID %q", eventID)
	}
	if id == "" {
		return ss.standalone, number, nil
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[id]
	if s == nil {
		return nil, 0, errEventsDropped
	}
	return s, number, nil
}

// listening reports whether the client is connected to a stream.
func (ss *streams) listening() bool {
	ss.mu.Lock()
	all := append(slices.Collect(maps.Values(ss.byID)), ss.standalone)
	ss.mu.Unlock() // a stream that is being written to holds its own lock
	return slices.ContainsFunc(all, (*stream).connected)
}

// dropAll ends all streams and removes their events.
func (ss *streams) dropAll() {
	ss.mu.Lock()
	all := append(slices.Collect(maps.Values(ss.byID)), ss.standalone)
	ss.byID = map[string]*stream{}
	ss.mu.Unlock()
	for _, s := range all {
		s.end()
		ss.log.forget(&s.journal)
	}
}

// errEventsDropped means that events are no longer stored.
var errEventsDropped = errors.New("these events are not kept any more: make the request again")
