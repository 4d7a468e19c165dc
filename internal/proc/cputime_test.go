package proc_test

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
)

func TestAMeterIsOverWhenItsTimeIsUsedUp(t *testing.T) {
	if !proc.MetersCPU {
		t.Skip("there is no clock of processes here")
	}
	none, long, short := proc.MeterCPU(0), proc.MeterCPU(time.Hour), proc.MeterCPU(time.Millisecond)
	for !short.Look() { // which computes
	}
	if !short.Over() || none.Look() || long.Look() || none.Over() {
		t.Errorf("short %v, none %v, long %v", short.Over(), none.Over(), long.Over())
	}
}
