// Package artifact keeps bytes outside the context under a handle: whole
// results that were cut, and files that tools made. Begin with [Open]; what is
// kept is read on with [Store.Read].
//
// The bytes are files, one folder per owner; an [Index] knows what there is.
package artifact

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/taint"
)

// Kind says what an artifact is; each kind has its own limits.
type Kind string

// The kinds.
const (
	// Result is a whole result, of which a call showed a part.
	Result Kind = "result"
	// File is what a tool made or was given.
	File Kind = "file"
)

// Entry is what the index knows of one artifact.
type Entry struct {
	Handle string
	// Owner is the owner name of the identity that made it; see [identity.Owner].
	Owner    string
	Kind     Kind
	Name     string
	MIMEType string
	Size     int64
	Created  time.Time
	Expires  time.Time
	// Labels are the taint labels of the bytes.
	Labels []taint.Label
}

// Artifact is the entry as callers see it.
func (e *Entry) Artifact() toolroom.Artifact {
	return toolroom.Artifact{Handle: e.Handle, Name: e.Name, MIMEType: e.MIMEType, Size: e.Size, Expires: e.Expires}
}

// Index knows which artifacts there are. Its methods are safe for concurrent
// use, also by several processes on one index. An entry whose Expires is not
// after now does not exist for any of them but SweepArtifacts. Owners are names as of
// [identity.Owner], who see what they reach; their subject has the limits.
type Index interface {
	// AddArtifact stores an entry, durably, if [Limits.Admit] agrees to what
	// its subject then has of its kind; else it returns that error. It is exact
	// under concurrent use.
	AddArtifact(ctx context.Context, e *Entry, limits Limits) error
	// ArtifactUsage is what the subject of an owner has of a kind.
	ArtifactUsage(ctx context.Context, owner string, kind Kind, now time.Time) (Usage, error)
	// Artifact is one entry that an owner reaches, or an error with code not_found.
	Artifact(ctx context.Context, owner, handle string, now time.Time) (*Entry, error)
	// Artifacts lists what an owner reaches, oldest first.
	Artifacts(ctx context.Context, owner string, now time.Time) ([]*Entry, error)
	// DeleteArtifact removes an entry that an owner reaches, or reports not_found.
	DeleteArtifact(ctx context.Context, owner, handle string, now time.Time) error
	// SweepArtifacts removes and returns the entries that have expired.
	SweepArtifacts(ctx context.Context, now time.Time) ([]*Entry, error)
	// ArtifactHandles returns the handles of all entries, expired ones too.
	ArtifactHandles(ctx context.Context) (map[string]bool, error)
}

// Limits are what one subject may keep of one kind.
type Limits struct {
	Entries int           // how many
	Total   int64         // bytes in all
	Each    int64         // bytes of one
	TTL     time.Duration // how long each is kept
}

// Usage is what one subject has of one kind.
type Usage struct {
	Entries int
	Bytes   int64
}

// DefaultLimits are the limits of a kind, unless configured otherwise.
func DefaultLimits(kind Kind) Limits {
	if kind == Result {
		return Limits{Entries: 64, Total: 32 << 20, Each: 8 << 20, TTL: time.Hour}
	}
	return Limits{Entries: 32, Total: 256 << 20, Each: 64 << 20, TTL: time.Hour}
}

// withDefaults fills in the limits that are not set.
func (l Limits) withDefaults(kind Kind) Limits {
	d := DefaultLimits(kind)
	if l.Entries > 0 {
		d.Entries = l.Entries
	}
	if l.Total > 0 {
		d.Total = l.Total
	}
	if l.Each > 0 {
		d.Each = l.Each
	}
	if l.TTL > 0 {
		d.TTL = l.TTL
	}
	return d
}

// Admit is nil when an owner who has used may add size bytes more as one entry,
// and else an error with code resource_limit that says how to make room.
// A file holds until it expires; the oldest results give way to new ones, see
// [Store.PutResult].
func (l Limits) Admit(kind Kind, used Usage, size int64) error {
	var message string
	switch {
	case size > l.Each:
		return &toolroom.Error{
			Code:    toolroom.CodeResourceLimit,
			Phase:   toolroom.PhaseShape,
			Message: fmt.Sprintf("the %s is larger than %d bytes, which is the limit for one", kind, l.Each),
			Hint:    "ask the tool for less at once: a page, a filter, a part",
		}
	case used.Entries >= l.Entries:
		message = fmt.Sprintf("there are %d %ss already, which is the limit", used.Entries, kind)
	case used.Bytes+size > l.Total:
		message = fmt.Sprintf("the %ss that are there take %d of %d bytes, which leaves too little room for this one", kind, used.Bytes, l.Total)
	default:
		return nil
	}
	return &toolroom.Error{
		Code:    toolroom.CodeResourceLimit,
		Phase:   toolroom.PhaseShape,
		Message: message,
		Hint:    fmt.Sprintf("delete what is not needed, or wait: each is kept for %v", l.TTL),
		CLIHint: "toolroom artifact list, toolroom artifact delete HANDLE",
	}
}

func newHandle(kind Kind) string {
	prefix := "art_"
	if kind == Result {
		prefix = "res_"
	}
	return prefix + strings.ToLower(rand.Text())
}

// isHandle keeps what is not a handle away from the file system.
func isHandle(s string) bool {
	rest, ok := strings.CutPrefix(s, "art_")
	if !ok {
		rest, ok = strings.CutPrefix(s, "res_")
	}
	return ok && rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// NotFound is the error for a handle that its owner does not have.
func NotFound(handle string) *toolroom.Error {
	return &toolroom.Error{
		Code:    toolroom.CodeNotFound,
		Message: fmt.Sprintf("there is no artifact %q", handle),
		Hint:    "artifacts belong to who made them and expire: repeat the call that made it",
		CLIHint: "toolroom artifact list",
	}
}
