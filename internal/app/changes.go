package app

import (
	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/panics"
)

// ChangeKind is the kind of a [Change].
type ChangeKind string

// The kinds of changes.
const (
	ChangeRegistered ChangeKind = "registered"
	ChangeUpdated    ChangeKind = "updated"
	ChangeRemoved    ChangeKind = "removed"
)

// Change says that a tool was added, replaced or removed.
type Change struct {
	Kind ChangeKind
	ID   toolroom.ID
}

// OnChange calls f with the changes of the room's tools, in order, until stop is called.
// Changes that come within 150 ms of one another come together. f is not called
// concurrently; while it runs, later changes wait.
func (r *App) OnChange(f func([]Change)) (stop func()) {
	return r.catalog.Subscribe(func(group []catalog.Change) {
		changes := make([]Change, len(group))
		for i, c := range group {
			changes[i] = Change{Kind: ChangeKind(c.Kind), ID: c.ID}
		}
		panics.Log(r.log, "a subscriber of changes", func() { f(changes) })
	})
}

// selector returns the catalog's selector for a function of [Options], nil for nil.
func selector(choose func([]Offer) int) catalog.Selector {
	if choose == nil {
		return nil
	}
	return func(entries []*catalog.Entry) *catalog.Entry {
		if len(entries) == 1 {
			return entries[0]
		}
		offers := make([]Offer, len(entries))
		for i, e := range entries {
			offers[i] = Offer{Source: e.Provider, Tool: e.Tool}
		}
		chosen := -1
		if panics.Catch(func() { chosen = choose(offers) }) != nil || chosen < 0 || chosen >= len(entries) {
			return catalog.LocalFirst(entries)
		}
		return entries[chosen]
	}
}
