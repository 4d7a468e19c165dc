package mcp

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/source"
)

// slowLibrary counts its subscriptions. Subscribe takes some time.
type slowLibrary struct {
	source.Library
	takes           time.Duration
	made, ended     int
	failsAfterwards error
}

func (l *slowLibrary) Subscribe(context.Context, string) error {
	time.Sleep(l.takes)
	if l.failsAfterwards == nil {
		l.made++
	}
	return l.failsAfterwards
}

func (l *slowLibrary) Unsubscribe(context.Context, string) error {
	l.ended++
	return nil
}

// A client leaves while its source is made anew and takes long: its subscription must not be
// kept because the source was busy.
func TestASubscriptionEndsAlsoWhileItsSourceIsBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{o: Options{Log: slog.New(slog.DiscardHandler)}}
		quick, slow := &slowLibrary{}, &slowLibrary{takes: time.Minute}
		leave, err := s.watch(t.Context(), "a:x", quick, "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			again, err := s.watch(ctx, "a:x", slow, "x") // which takes its time
			if err == nil {
				again()
			}
		}()
		synctest.Wait()
		leave()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if slow.ended != slow.made || len(s.watches.all()) > 0 {
			t.Errorf("%d of %d subscriptions have ended, %d resources are watched", slow.ended, slow.made, len(s.watches.all()))
		}
	})
}

func TestAResourceIsSubscribedToOnceForAll(t *testing.T) {
	t.Parallel()
	s := &Server{o: Options{Log: slog.New(slog.DiscardHandler)}}
	l := &slowLibrary{}
	var leaves []func()
	for range 3 {
		leave, err := s.watch(t.Context(), "a:x", l, "x")
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for i, leave := range leaves {
		if l.ended > 0 {
			t.Errorf("the subscription ended with %d listeners left", 3-i)
		}
		leave()
	}
	if l.made != 1 || l.ended != 1 || len(s.watches.all()) > 0 {
		t.Errorf("%d subscriptions, %d ended, %d resources are watched", l.made, l.ended, len(s.watches.all()))
	}
	l.failsAfterwards = context.DeadlineExceeded
	if _, err := s.watch(t.Context(), "a:x", l, "x"); err == nil || l.ended != 1 || len(s.watches.all()) > 0 {
		t.Errorf("a subscription that fails: %v, %d ended, %d resources are watched", err, l.ended, len(s.watches.all()))
	}
}
