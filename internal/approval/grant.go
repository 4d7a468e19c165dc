package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// Grant is a standing permission: what a person said yes to for more than one
// call. It lets through only what policy would ask about, for the caller to
// whom it was given; what policy denies stays denied.
type Grant struct {
	ID string `json:"id"`
	// Approval is the question that it was the answer to.
	Approval string            `json:"approval"`
	Scope    Scope             `json:"scope"`
	Tool     string            `json:"tool"`
	Identity toolroom.Identity `json:"identity,omitzero"`
	// Session restricts a grant of [ThisSession], Digest one of [ThisCall].
	Session string    `json:"session,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	// Expires ends it; zero is never.
	Expires time.Time `json:"expires,omitzero"`
}

// String says who may do what by the grant, and who said so.
func (g *Grant) String() string {
	said := map[Scope]string{Always: "always", ThisSession: "in session " + g.Session, ThisCall: "this very call"}[g.Scope]
	return fmt.Sprintf("%s: %s may call %s, %s, said %s on %s", g.ID, g.Identity, g.Tool, said, g.By, g.Created.UTC().Format(time.DateOnly))
}

// grantFor is the grant that an approved approval becomes, nil where it was
// given once.
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

// Covers reports whether the grant answers a question about a call.
func (g *Grant) Covers(a *Approval) bool {
	if g.Tool != a.Tool || Caller(g.Identity) != Caller(a.Identity) {
		return false
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, g.Scope) {
		return false // the terms have become stricter since
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
