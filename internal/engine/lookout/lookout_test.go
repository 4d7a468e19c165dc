package lookout

import (
	"errors"
	"io"
	"testing"
	"time"
)

// scripted is a source whose next bytes come at a time, by a clock of its own.
type scripted struct {
	now, due time.Duration
	looks    int
	slept    bool
	err      error
}

func (s *scripted) Try(b []byte) (int, error) {
	s.looks++
	if s.now < s.due {
		return 0, nil
	}
	return s.give(b)
}

func (s *scripted) Read(b []byte) (int, error) {
	s.slept = true
	s.now = max(s.now, s.due) + Longest // of which the waking is
	return s.give(b)
}

func (s *scripted) give(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return copy(b, "x"), nil
}

func newScripted() (*scripted, *Reader) {
	s := &scripted{}
	return s, &Reader{source: s, pause: func() { s.now += time.Microsecond }, now: func() time.Time { return time.Time{}.Add(s.now) }}
}

// wait has one wait that is over after a time.
func wait(t *testing.T, s *scripted, r *Reader, h *Habit, after time.Duration) {
	t.Helper()
	s.looks, s.slept, s.due = 0, false, s.now+after
	r.Expect(h)
	if n, err := r.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Fatalf("read %d bytes, %v", n, err)
	}
}

func TestWhatComesSoonIsLookedForOnceThatIsKnown(t *testing.T) {
	t.Parallel()
	s, r := newScripted()
	var h Habit
	wait(t, s, r, &h, 40*time.Microsecond)
	if s.looks > 0 {
		t.Error("it was looked for before anything was known")
	}
	for range 10 {
		wait(t, s, r, &h, 40*time.Microsecond)
	}
	if s.slept || s.looks == 0 {
		t.Errorf("slept %v, after %d looks", s.slept, s.looks)
	}
}

func TestWhatTakesLongIsNotLookedFor(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{150 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, time.Minute} {
		s, r := newScripted()
		var h Habit
		for range 100 {
			wait(t, s, r, &h, after)
			if s.looks > 0 {
				t.Errorf("what takes %s was looked for", after)
			}
		}
	}
}

func TestOneLongWaitEndsTheLookingAndShortOnesBeginItAnew(t *testing.T) {
	t.Parallel()
	s, r := newScripted()
	var h Habit
	for range 10 {
		wait(t, s, r, &h, 40*time.Microsecond)
	}
	before := s.now
	wait(t, s, r, &h, 5*time.Millisecond)
	if !s.slept || s.looks > int(Longest/time.Microsecond)+2 {
		t.Errorf("slept %v after %d looks, %s", s.slept, s.looks, s.now-before)
	}
	wait(t, s, r, &h, 40*time.Microsecond)
	if s.looks > 0 {
		t.Error("it looked right after a miss")
	}
	for range 10 {
		wait(t, s, r, &h, 40*time.Microsecond)
	}
	if s.slept {
		t.Error("it sleeps for ever after one miss")
	}
}

func TestOnlyTheReadThatWasSpokenOfLooks(t *testing.T) {
	t.Parallel()
	s, r := newScripted()
	var h Habit
	for range 10 {
		wait(t, s, r, &h, 40*time.Microsecond)
	}
	s.looks, s.due = 0, s.now+10*time.Microsecond
	if _, err := r.Read(make([]byte, 1)); err != nil || s.looks > 0 || !s.slept {
		t.Errorf("it looked %d times, slept %v, %v", s.looks, s.slept, err)
	}
	wait(t, s, r, nil, 10*time.Microsecond)
	if s.looks > 0 {
		t.Error("it looked, and nothing is expected")
	}
}

func TestTheEndOfAStreamEndsTheLooking(t *testing.T) {
	t.Parallel()
	s, r := newScripted()
	h := Habit{average: 1}
	s.err = io.EOF
	r.Expect(&h)
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || s.slept {
		t.Errorf("%v, slept %v", err, s.slept)
	}
}
