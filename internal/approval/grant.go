package approval

import (
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// grantFor returns the grant that an approval becomes, or nil if it covers one
// call only.
func grantFor(a *toolroom.Approval, id string, sessionTTL time.Duration) *toolroom.Grant {
	if a.State != toolroom.ApprovalApproved || a.Scope == "" || a.Scope == toolroom.ScopeOnce {
		return nil
	}
	g := &toolroom.Grant{ID: id, Approval: a.ID, Scope: a.Scope, Tool: a.Tool, Identity: a.Identity, Environment: a.Environment, By: a.By, Created: a.Answered}
	switch a.Scope {
	case toolroom.ScopeSession:
		g.Session, g.Expires = a.Session, a.Answered.Add(sessionTTL)
	case toolroom.ScopeCall:
		g.Digest = a.Digest
	}
	return g
}

// Covers reports whether the grant covers the call of a.
func Covers(g *toolroom.Grant, a *toolroom.Approval) bool {
	if g.Tool != a.Tool || g.Environment != a.Environment || Caller(g.Identity) != Caller(a.Identity) {
		return false
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, g.Scope) {
		return false // the terms are stricter now
	}
	switch g.Scope {
	case toolroom.ScopeAlways:
		return true
	case toolroom.ScopeSession:
		return g.Session != "" && g.Session == a.Session
	case toolroom.ScopeCall:
		return g.Digest == a.Digest
	default:
		return false
	}
}
