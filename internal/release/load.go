package release

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
)

// Load reads the table of all releases.
func Load(ctx context.Context, s Store) (*Table, error) {
	t := &Table{tools: map[string]map[string]Release{}, newest: map[string]int{}, named: map[string][]toolroom.ID{}, released: map[string]map[int][]string{}, began: map[string]Entry{}, sources: map[string]string{}}
	var err error
	// The revision is read first: a change meanwhile is found at the next comparison.
	if t.Revision, err = s.ReleaseRevision(ctx); err != nil {
		return nil, err
	}
	releases, err := s.Releases(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range releases {
		if t.tools[r.Tool] == nil {
			t.tools[r.Tool] = map[string]Release{}
		}
		t.tools[r.Tool][r.Environment] = r
	}
	heads, err := s.VersionedTools(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		t.ids = append(t.ids, h.Tool)
		t.newest[h.Tool] = h.Number
		if id, err := toolroom.ParseID(h.Tool); err == nil {
			t.named[id.Name] = append(t.named[id.Name], id)
		}
		if h.Source != "" {
			t.sources[h.Tool] = h.Source
		}
	}
	log, err := s.ReleaseLog(ctx, "", -1)
	if err != nil {
		return nil, err
	}
	for _, e := range log {
		if e.Environment == "" {
			continue
		}
		if at := e.Tool + "\x00" + e.Environment; t.began[at].Tool == "" { // the log begins with the newest
			t.began[at] = e
		}
		if t.released[e.Tool] == nil {
			t.released[e.Tool] = map[int][]string{}
		}
		for _, number := range []int{e.Version, e.Previous, e.Canary} {
			if where := t.released[e.Tool][number]; !slices.Contains(where, e.Environment) {
				t.released[e.Tool][number] = append(where, e.Environment)
			}
		}
	}
	return t, nil
}
