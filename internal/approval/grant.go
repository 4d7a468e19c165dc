package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// Grant is an approval that holds for more than one call. It covers only calls
// that policy would ask about, by the caller that it was granted to; calls that
// policy denies stay denied.
type Grant struct {
	ID string `json:"id"`
	// Approval is the id of the approval that became the grant.
	Approval string            `json:"approval"`
	Scope    Scope             `json:"scope"`
	Tool     string            `json:"tool"`
	Identity toolroom.Identity `json:"identity,omitzero"`
	// Session restricts a grant with scope [ThisSession], Digest one with [ThisCall].
	Session string    `json:"session,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	// Expires is when the grant ends; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// String describes the grant: who may call what, and who granted it.
func (g *Grant) String() string {
	said := map[Scope]string{Always: "always", ThisSession: "in session " + g.Session, ThisCall: "this very call"}[g.Scope]
	return fmt.Sprintf("%s: %s may call %s, %s, said %s on %s", g.ID, g.Identity, g.Tool, said, g.By, g.Created.UTC().Format(time.DateOnly))
}

// grantFor returns the grant that an approval becomes, or nil if it covers one
// call only.
func grantFor(a *Approval, id string, sessionTTL time.Duration) *Grant {
	if a.State != Approved || a.Scope == "" || a.Scope == Once {
		return nil
	}
	g := &Grant{ID: id, Approval: a.ID, Scope: a.Scope, Tool: a.Tool, Identity: a.Identity, By: a.By, Created: a.Answered}
	switch a.Scope {
	case ThisSession:
		g.Session, g.Expires = a.Session, a.Answered.Add(sessionTTL)
	case ThisCall:
		g.Digest = a.Digest
	}
	return g
}

// Covers reports whether the grant covers the call of a.
func (g *Grant) Covers(a *Approval) bool {
	if g.Tool != a.Tool || Caller(g.Identity) != Caller(a.Identity) {
		return false
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, g.Scope) {
		return false // the terms are stricter now
	}
	switch g.Scope {
	case Always:
		return true
	case ThisSession:
		return g.Session != "" && g.Session == a.Session
	case ThisCall:
		return g.Digest == a.Digest
	default:
		return false
	}
}
