package browser

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// The timer of an idle browser may end just before a call that is over before the browser is
// ended.
func TestABrowserThatWasJustUsedIsNotIdle(t *testing.T) {
	t.Parallel()
	b := &browsers{o: Options{Idle: time.Hour, Max: 1}, open: map[key]*browser{}}
	req := &source.Request{Identity: toolroom.Identity{Subject: "ann"}}
	w, err := b.findOrCreate(req, true)
	if err != nil {
		t.Fatal(err)
	}
	w.used = time.Now()
	b.endIdle(w)
	if again, err := b.findOrCreate(req, false); again != w || w.gone {
		t.Errorf("it was ended: %v", err)
	}
	w.used = time.Now().Add(-2 * time.Hour)
	b.endIdle(w)
	if _, err := b.findOrCreate(req, false); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("an idle one: %v", err)
	}
}
