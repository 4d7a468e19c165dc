package proc_test

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
)

func TestAMeterIsOverWhenItsTimeIsUsedUp(t *testing.T) {
	if !proc.CanMeterCPU {
		t.Skip("there is no clock of processes here")
	}
	none, long, short := proc.MeterCPU(0), proc.MeterCPU(time.Hour), proc.MeterCPU(time.Millisecond)
	for !short.Check() { // which computes
	}
	if !short.Exceeded() || none.Check() || long.Check() || none.Exceeded() {
		t.Errorf("short %v, none %v, long %v", short.Exceeded(), none.Exceeded(), long.Exceeded())
	}
}
