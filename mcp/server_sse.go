package mcp

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
)

// SSE returns the handler of HTTP+SSE for clients that support only the transport of
// 2024-11-05: they read one stream and post their messages to an address that it names. Like
// the handler of [Server.HTTP], it does not check Host, Origin or credentials.
func (s *Server) SSE() http.Handler {
	h := &sseHandler{s: s, clients: map[string]*pipe{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			h.listen(w, r)
		case http.MethodPost:
			h.post(w, r)
		default:
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "GET opens the stream, POST sends a message", http.StatusMethodNotAllowed)
		}
	})
}

type sseHandler struct {
	s       *Server
	mu      sync.Mutex
	clients map[string]*pipe
}

// listen serves a stream until its client disconnects.
func (h *sseHandler) listen(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	out := &stream{}
	p := h.s.newPipe(r.Context(), func(text []byte) error { return out.send(text, false) })
	h.mu.Lock()
	h.clients[id] = p
	h.mu.Unlock()
	defer p.end()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.clients, id)
	}()
	receiver, err := out.connect(w, -1)
	if err != nil {
		return
	}
	defer out.disconnect(receiver)
	if out.writePart("event: endpoint\ndata: "+r.URL.Path+"?session="+id+"\n\n") != nil {
		return
	}
	select {
	case <-receiver.gone:
	case <-r.Context().Done():
	case <-h.s.done:
	}
}

// post handles a message. All responses go to the stream.
func (h *sseHandler) post(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	p := h.clients[r.URL.Query().Get("session")]
	h.mu.Unlock()
	// Knowing the address is not enough: the caller must be the session's owner.
	if p == nil || !h.s.o.MayUseSession(r.Context(), p.session) {
		http.Error(w, "session not found: open the stream again", http.StatusNotFound)
		return
	}
	// Browsers let pages of other origins post text without a preflight request.
	if !isJSON(r.Header) {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := h.s.readAll(w, r)
	if err != nil {
		refuseBody(w, err)
		return
	}
	if _, _, _, err := readBody(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.accepting.Lock() // the client's next message, such as a cancellation, must not overtake this one
	defer p.accepting.Unlock()
	w.WriteHeader(http.StatusAccepted)
	_ = flush(http.NewResponseController(w)) // if the client has gone, its stream ends as well
	p.handleText(context.WithoutCancel(r.Context()), body)
}
