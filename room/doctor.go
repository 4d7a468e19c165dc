package room

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Status of a check.
const (
	CheckOK   = "ok"
	CheckInfo = "info" // something that is not there, and need not be
	CheckWarn = "warn"
	CheckFail = "fail"
)

// Check is one finding of [Room.Doctor].
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Fix says what to do, when Status is not ok.
	Fix string `json:"fix,omitempty"`
	// Runtime is what was found out about an engine or sandbox.
	Runtime *EngineStatus `json:"runtime,omitempty"`
}

// testRounding is how exact durations are shown.
const testRounding = time.Millisecond

// Doctor looks at everything that a call depends on: the state folder, the
// store, the receipts, each source, which it starts, and what this system
// cannot do.
func (r *Room) Doctor(ctx context.Context) []Check {
	checks := []Check{r.checkHome(), r.checkReceipts(ctx), checkSystem()}
	checks = append(checks, r.checkKeyrings(ctx)...)
	for _, h := range r.allHosts() {
		test, err := r.TestSource(ctx, h.name)
		c := Check{Name: "source " + h.name, Status: CheckOK, Detail: fmt.Sprintf("%d tools in %s", test.Tools, test.Took.Round(testRounding))}
		switch {
		case err != nil:
			c.Status, c.Detail = CheckFail, err.Error()
		case test.Error != "":
			c.Status, c.Detail, c.Fix = CheckFail, test.Error, test.Reason
		case test.Tools == 0:
			c.Status, c.Detail, c.Fix = CheckWarn, "it offers no tools", "look at tools.include and tools.exclude of the source"
		case test.Held > 0 || len(test.Findings) > 0:
			c.Status, c.Fix = CheckWarn, "toolroom sources review "+h.name
			c.Detail += fmt.Sprintf("; %d held back; %d findings in what it says of them", test.Held, len(test.Findings))
		}
		checks = append(checks, c)
	}
	if len(r.allHosts()) == 0 {
		checks = append(checks, Check{
			Name: "sources", Status: CheckWarn, Detail: "none are configured",
			Fix: "toolroom sources add NAME -- COMMAND, or toolroom import claude",
		})
	}
	checks = append(checks, r.checkNetwork()...)
	checks = append(checks, r.checkEngines(ctx)...)
	return append(checks, r.checkWarm(ctx)...)
}

func (r *Room) checkHome() Check {
	c := Check{Name: "home", Status: CheckOK, Detail: r.home}
	probe, err := os.CreateTemp(r.home, ".doctor-*")
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "make the folder writable, or choose another with --home"
		return c
	}
	probe.Close()
	os.Remove(probe.Name())
	if info, err := os.Stat(r.home); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		c.Status, c.Fix = CheckWarn, "chmod 700 "+filepath.Clean(r.home)
		c.Detail += ": others may look into it"
	}
	return c
}

func (r *Room) checkReceipts(ctx context.Context) Check {
	c := Check{Name: "receipts", Status: CheckOK}
	if err := r.recorder.Ready(); err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "free the disk or the database; calls are refused until then"
		return c
	}
	n, err := r.VerifyReceipts(ctx)
	c.Detail = fmt.Sprintf("%d, and their chain is whole", n)
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "somebody changed the store; keep a copy and look into it"
	}
	return c
}

func checkSystem() Check {
	c := Check{Name: "system", Status: CheckOK, Detail: runtime.GOOS + "/" + runtime.GOARCH}
	if runtime.GOOS != "linux" {
		c.Status = CheckWarn
		c.Detail += ": a server that is killed may leave the processes of its sources behind"
		c.Fix = "run it on Linux where that matters"
	}
	return c
}
