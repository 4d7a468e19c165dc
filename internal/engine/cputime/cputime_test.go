package cputime_test

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine/cputime"
)

func TestAMeterIsOverWhenItsTimeIsUsedUp(t *testing.T) {
	if !cputime.Supported {
		t.Skip("there is no clock of processes here")
	}
	none, long, short := cputime.Start(0), cputime.Start(time.Hour), cputime.Start(time.Millisecond)
	for !short.Look() { // which computes
	}
	if !short.Over() || none.Look() || long.Look() || none.Over() {
		t.Errorf("short %v, none %v, long %v", short.Over(), none.Over(), long.Over())
	}
}
