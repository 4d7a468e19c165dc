package app

import (
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/source"
)

// OnChange calls f with the changes of the room's tools, in order, until stop is called.
// Changes that come within 150 ms of one another come together. f is not called
// concurrently; while it runs, later changes wait.
func (a *App) OnChange(f func([]toolroom.Change)) (stop func()) {
	return a.catalog.Subscribe(func(group []toolroom.Change) {
		panics.Log(a.log, "a subscriber of changes", func() { f(slices.Clone(group)) })
	})
}

// selector returns the catalog's selector for [Options.Select], or nil for nil.
func selector(choose func([]source.Offer) int) catalog.Selector {
	if choose == nil {
		return nil
	}
	return func(entries []*catalog.Entry) *catalog.Entry {
		if len(entries) == 1 {
			return entries[0]
		}
		offers := make([]source.Offer, len(entries))
		for i, e := range entries {
			offers[i] = source.Offer{Source: e.Provider, Tool: e.Tool}
		}
		chosen := -1
		if panics.Catch(func() { chosen = choose(offers) }) != nil || chosen < 0 || chosen >= len(entries) {
			return catalog.LocalFirst(entries)
		}
		return entries[chosen]
	}
}
