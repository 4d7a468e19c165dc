// Package session keeps what programs leave behind for the next run: the state
// of a session, as the engine that made it gives it. A session belongs to one
// owner; that of another is not found. Begin with [Open] and [Store.Begin].
package session

import (
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// Info describes a session.
type Info struct {
	// ID is the name that its owner gave it.
	ID string `json:"id"`
	// Language is that of the last run; Engine made the state, and alone can
	// read it.
	Language string `json:"language"`
	Engine   string `json:"engine"`
	// Bytes is the size of the state.
	Bytes int64 `json:"bytes"`
	// Runs counts the runs that it has taken part in and kept.
	Runs    int       `json:"runs"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	// Expires is when it is forgotten, unless it is used before.
	Expires time.Time `json:"expires"`
}

var idForm = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkID refuses names that are none of a session.
func checkID(id string) error {
	if idForm().MatchString(id) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%.80q is no name of a session", id).
		WithHint("a name is 1 to 64 letters, digits, dots, underscores and hyphens, and begins with a letter or digit")
}

func notFound(id string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "there is no session %s", id).
		WithHint("toolroom session list shows those that there are; idle ones are forgotten")
}

// Limits bound what is kept. Zero fields have the defaults named.
type Limits struct {
	Sessions int           // of one owner, 32
	Bytes    int64         // of one owner, 512 MiB
	Total    int64         // bytes of all owners, 4 GiB
	Each     int64         // bytes of one session, 64 MiB, which is the most
	Idle     time.Duration // how long an unused one is kept, 24 h
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

// usage is what is kept, without the session that is asked about.
type usage struct {
	sessions int
	bytes    int64
	total    int64
}

// admit refuses what there is no room for; nothing is given up for it.
func (l Limits) admit(u usage, size int64) error {
	const free = "free space with toolroom session delete ID (toolroom session list shows them), or raise code.sessions in the config"
	switch {
	case size > l.Each:
		return full("one session may take %s, this one would take %s", amount(l.Each), amount(size)).
			WithHint("let the program give up what it needs no more, keep large data with artifacts.put, or raise code.sessions.entry_bytes in the config")
	case u.sessions+1 > l.Sessions:
		return full("there are %d sessions already, the most that one caller may have", u.sessions).WithHint(free)
	case u.bytes+size > l.Bytes:
		return full("the sessions of one caller may take %d MiB in all, with this one they would take %d", l.Bytes>>20, mib(u.bytes+size)).WithHint(free)
	case u.total+size > l.Total:
		return full("the sessions of all callers may take %d MiB, with this one they would take %d", l.Total>>20, mib(u.total+size)).WithHint(free)
	}
	return nil
}

func full(format string, args ...any) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeResourceLimit, format, args...)
	e.Details = map[string]any{"limit": "session"}
	return e
}

// mib rounds up, so that what is too much never reads as if it fitted.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

func amount(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", mib(n))
}
