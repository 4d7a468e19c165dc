// Package session stores code sessions: the state that one run leaves for the next. The
// engine that made a state encodes it. A session belongs to one owner; for others it is
// not found. Start at [Open] and [Store.Begin].
//
// A [Journal] records the answers that a program got, so that the program can be
// restarted, on another engine or in another process, without doing anything twice.
package session

import (
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/taint"
)

// Info describes a session.
type Info struct {
	// ID is the session's name, which its owner chose.
	ID string `json:"id"`
	// Language is that of the last run. Engine made the state; no other engine can
	// read it.
	Language string `json:"language"`
	Engine   string `json:"engine"`
	// Bytes is the size of the state.
	Bytes int64 `json:"bytes"`
	// Runs is the number of runs that have saved their state in the session.
	Runs    int       `json:"runs"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	// Expires is when the session is deleted, unless it is used before.
	Expires time.Time `json:"expires"`
	// Labels are the taint labels of the state.
	Labels []taint.Label `json:"labels,omitempty"`
}

var idForm = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkID returns an error if id is not a valid name of a session.
func checkID(id string) error {
	if idForm().MatchString(id) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%.80q is not a valid name of a session", id).
		WithHint("use 1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter or digit")
}

func errNotFound(id string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "session %s not found", id).
		WithHint("idle sessions are deleted").WithCLIHint("list sessions: toolroom session list")
}

// Limits limit the stored sessions. Zero fields have the defaults named.
type Limits struct {
	Sessions int           // sessions of one owner; default 32
	Bytes    int64         // bytes of one owner; default 512 MiB
	Total    int64         // bytes of all owners; default 4 GiB
	Each     int64         // bytes of one session; default and maximum 64 MiB
	Idle     time.Duration // how long an unused session is kept; default 24 h
}

func (l Limits) withDefaults() Limits {
	if l.Sessions == 0 {
		l.Sessions = 32
	}
	if l.Bytes == 0 {
		l.Bytes = 512 << 20
	}
	if l.Total == 0 {
		l.Total = 4 << 30
	}
	if l.Each == 0 || l.Each > maxState {
		l.Each = maxState
	}
	if l.Idle == 0 {
		l.Idle = 24 * time.Hour
	}
	return l
}

// usage is the space that all sessions but the one in question use.
type usage struct {
	sessions int
	bytes    int64
	total    int64
}

// admit returns an error if a session of a size exceeds a limit. No other session is
// deleted for it.
func (l Limits) admit(u usage, size int64) error {
	const free = "delete sessions that are not needed, or raise code.sessions in the config"
	const command = "toolroom session list, toolroom session delete ID"
	switch {
	case size > l.Each:
		return errFull("one session may take %s, this one would take %s", amount(l.Each), amount(size)).
			WithHint("let the program delete variables that it no longer needs, keep large data with artifacts.put, or raise code.sessions.entry_bytes in the config")
	case u.sessions+1 > l.Sessions:
		return errFull("the caller already has %d sessions, the maximum", u.sessions).WithHint(free).WithCLIHint(command)
	case u.bytes+size > l.Bytes:
		return errFull("the sessions of one caller may take %d MiB in all; with this one they would take %d", l.Bytes>>20, mib(u.bytes+size)).WithHint(free).WithCLIHint(command)
	case u.total+size > l.Total:
		return errFull("the sessions of all callers may take %d MiB in all; with this one they would take %d", l.Total>>20, mib(u.total+size)).WithHint(free).WithCLIHint(command)
	}
	return nil
}

func errFull(format string, args ...any) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeResourceLimit, format, args...)
	e.Limit = "session"
	return e
}

// mib converts bytes to MiB. It rounds up, so that a size over a limit never looks equal
// to the limit.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

func amount(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", mib(n))
}
