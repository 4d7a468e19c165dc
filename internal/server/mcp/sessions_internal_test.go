package mcpserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

func TestACallerHasABoundedNumberOfLiveSessions(t *testing.T) {
	t.Parallel()
	ss := newSessions()
	begin := func(owner string, i int, ago time.Duration) *session {
		s := &session{who: toolroom.Identity{Subject: owner}}
		s.seen.Store(time.Now().Add(-ago).UnixNano())
		ss.add(fmt.Sprint(owner, i), s)
		return s
	}
	var last *session
	for i := range maxOwned {
		if ss.full("ann") {
			t.Fatalf("full with %d", i)
		}
		last = begin("ann", i, 0)
	}
	if !ss.full("ann") || ss.full("bob") {
		t.Errorf("ann %v, bob %v", ss.full("ann"), ss.full("bob"))
	}
	last.end() // by a DELETE
	if ss.full("ann") {
		t.Error("an ended session counts")
	}
	begin("ann", maxOwned, 2*sessionTimeout) // whose client went away
	if ss.full("ann") {
		t.Error("a session without a client counts")
	}
}
