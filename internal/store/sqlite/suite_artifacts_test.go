package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/identity"
)

var roomy = artifact.Limits{Entries: 100, Total: 1000, Each: 100, TTL: time.Hour}

var artifactTests = []test{
	{"an entry comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		want := newEntry("art_1", 10)
		must(t, s.AddArtifact(t.Context(), want, roomy))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Artifact(t.Context(), "ann", "art_1", start)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}},
	{"an entry is there for its owner only", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AddArtifact(t.Context(), newEntry("art_1", 10), roomy))
		_, err := s.Artifact(t.Context(), "bob", "art_1", start)
		wantCode(t, "Artifact", err, toolroom.CodeNotFound)
		wantCode(t, "DeleteArtifact", s.DeleteArtifact(t.Context(), "bob", "art_1", start), toolroom.CodeNotFound)
		wantHandles(t, s, "bob", start)
		wantHandles(t, s, "ann", start, "art_1")
	}},
	{"who is narrowed reaches only what those narrowed as much have made", func(t *testing.T, d database) {
		s := d.open(t)
		narrow := identity.Owner(toolroom.Identity{Subject: "ann", Agent: "fast"})
		must(t, s.AddArtifact(t.Context(), newEntry("art_1", 10), roomy))
		made := newEntry("art_2", 10)
		made.Owner = narrow
		must(t, s.AddArtifact(t.Context(), made, roomy))
		wantHandles(t, s, narrow, start, "art_2")
		wantHandles(t, s, "ann", start, "art_1", "art_2")
		wantHandles(t, s, identity.All("ann"), start, "art_1", "art_2")
		wantHandles(t, s, "an", start)
		_, err := s.Artifact(t.Context(), narrow, "art_1", start)
		wantCode(t, "Artifact", err, toolroom.CodeNotFound)
		wantCode(t, "DeleteArtifact", s.DeleteArtifact(t.Context(), narrow, "art_1", start), toolroom.CodeNotFound)
		wantUsage(t, s, start, artifact.Usage{Entries: 2, Bytes: 20}) // both count for ann
		must(t, s.DeleteArtifact(t.Context(), "ann", "art_2", start))
	}},
	{"an unknown entry is not found", func(t *testing.T, d database) {
		s := d.open(t)
		_, err := s.Artifact(t.Context(), "ann", "none", start)
		wantCode(t, "Artifact", err, toolroom.CodeNotFound)
		wantCode(t, "DeleteArtifact", s.DeleteArtifact(t.Context(), "ann", "none", start), toolroom.CodeNotFound)
	}},
	{"a handle that is taken is a conflict", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AddArtifact(t.Context(), newEntry("art_1", 10), roomy))
		wantCode(t, "AddArtifact", s.AddArtifact(t.Context(), newEntry("art_1", 10), roomy), toolroom.CodeConflict)
	}},
	{"lists are oldest first", func(t *testing.T, d database) {
		s := d.open(t)
		for _, handle := range []string{"art_3", "art_1", "art_2"} {
			must(t, s.AddArtifact(t.Context(), newEntry(handle, 1), roomy))
		}
		wantHandles(t, s, "ann", start, "art_3", "art_1", "art_2")
	}},
	{"a deleted entry is gone", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AddArtifact(t.Context(), newEntry("art_1", 10), roomy))
		must(t, s.DeleteArtifact(t.Context(), "ann", "art_1", start))
		wantHandles(t, s, "ann", start)
		wantCode(t, "again", s.DeleteArtifact(t.Context(), "ann", "art_1", start), toolroom.CodeNotFound)
	}},
	{"an entry ends with its time", func(t *testing.T, d database) {
		s := d.open(t)
		e := newEntry("art_1", 10)
		must(t, s.AddArtifact(t.Context(), e, roomy))
		just := e.Expires.Add(-time.Microsecond)
		wantHandles(t, s, "ann", just, "art_1")
		wantHandles(t, s, "ann", e.Expires)
		_, err := s.Artifact(t.Context(), "ann", "art_1", e.Expires)
		wantCode(t, "Artifact", err, toolroom.CodeNotFound)
		wantCode(t, "DeleteArtifact", s.DeleteArtifact(t.Context(), "ann", "art_1", e.Expires), toolroom.CodeNotFound)
		wantUsage(t, s, just, artifact.Usage{Entries: 1, Bytes: 10})
		wantUsage(t, s, e.Expires, artifact.Usage{})
	}},
	{"sweeping removes and returns what has expired", func(t *testing.T, d database) {
		s := d.open(t)
		early, late := newEntry("art_1", 10), newEntry("art_2", 10)
		late.Expires = late.Expires.Add(time.Hour)
		must(t, s.AddArtifact(t.Context(), early, roomy))
		must(t, s.AddArtifact(t.Context(), late, roomy))
		if swept, err := s.SweepArtifacts(t.Context(), start); err != nil || len(swept) != 0 {
			t.Errorf("too early: swept %d, %v", len(swept), err)
		}
		swept, err := s.SweepArtifacts(t.Context(), early.Expires)
		if diff := cmp.Diff([]*artifact.Entry{early}, swept); err != nil || diff != "" {
			t.Errorf("swept: %v (-want +got):\n%s", err, diff)
		}
		handles, err := s.ArtifactHandles(t.Context())
		if diff := cmp.Diff(map[string]bool{"art_2": true}, handles); err != nil || diff != "" {
			t.Errorf("handles: %v (-want +got):\n%s", err, diff)
		}
	}},
	{"handles are those of all owners, expired or not", func(t *testing.T, d database) {
		s := d.open(t)
		expired, other := newEntry("art_1", 1), newEntry("art_2", 1)
		expired.Expires = start
		other.Owner = "bob"
		must(t, s.AddArtifact(t.Context(), expired, roomy))
		must(t, s.AddArtifact(t.Context(), other, roomy))
		handles, err := s.ArtifactHandles(t.Context())
		if diff := cmp.Diff(map[string]bool{"art_1": true, "art_2": true}, handles); err != nil || diff != "" {
			t.Errorf("handles: %v (-want +got):\n%s", err, diff)
		}
	}},
	{"limits hold per owner and kind, without what has expired", func(t *testing.T, d database) {
		s := d.open(t)
		one := artifact.Limits{Entries: 1, Total: 100, Each: 100, TTL: time.Hour}
		must(t, s.AddArtifact(t.Context(), newEntry("art_1", 1), one))
		wantCode(t, "a second", s.AddArtifact(t.Context(), newEntry("art_2", 1), one), toolroom.CodeResourceLimit)
		other := newEntry("art_3", 1)
		other.Owner = "bob"
		must(t, s.AddArtifact(t.Context(), other, one))
		result := newEntry("res_1", 1)
		result.Kind = artifact.Result
		must(t, s.AddArtifact(t.Context(), result, one))
		later := newEntry("art_4", 1)
		later.Created = start.Add(time.Hour)
		later.Expires = start.Add(2 * time.Hour)
		must(t, s.AddArtifact(t.Context(), later, one))
		wantHandles(t, s, "ann", start, "art_1", "res_1", "art_4")
	}},
	{"limits hold for bytes in all and for one", func(t *testing.T, d database) {
		s := d.open(t)
		tight := artifact.Limits{Entries: 10, Total: 10, Each: 6, TTL: time.Hour}
		wantCode(t, "too large", s.AddArtifact(t.Context(), newEntry("art_1", 7), tight), toolroom.CodeResourceLimit)
		must(t, s.AddArtifact(t.Context(), newEntry("art_2", 6), tight))
		wantCode(t, "too much", s.AddArtifact(t.Context(), newEntry("art_3", 5), tight), toolroom.CodeResourceLimit)
		must(t, s.AddArtifact(t.Context(), newEntry("art_4", 4), tight))
		wantUsage(t, s, start, artifact.Usage{Entries: 2, Bytes: 10})
	}},
	{"of many who add at once, as many succeed as fit", func(t *testing.T, d database) {
		five := artifact.Limits{Entries: 100, Total: 50, Each: 10, TTL: time.Hour}
		wins := race(t, d, func(s *Store, racer int) bool {
			err := s.AddArtifact(t.Context(), newEntry(fmt.Sprintf("art_%d", racer), 10), five)
			if err != nil {
				wantCode(t, "losing", err, toolroom.CodeResourceLimit)
			}
			return err == nil
		})
		if wins != 5 {
			t.Errorf("%d entries of 10 bytes fit into 50", wins)
		}
	}},
}

func newEntry(handle string, size int64) *artifact.Entry {
	return &artifact.Entry{
		Handle: handle, Owner: "ann", Kind: artifact.File, Name: "é.txt", MIMEType: "text/plain", Size: size,
		Created: start, Expires: start.Add(time.Hour),
	}
}

func wantHandles(t *testing.T, s *Store, owner string, now time.Time, want ...string) {
	t.Helper()
	list, err := s.Artifacts(t.Context(), owner, now)
	must(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Handle)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts of %s (-want +got):\n%s", owner, diff)
	}
}

func wantUsage(t *testing.T, s *Store, now time.Time, want artifact.Usage) {
	t.Helper()
	got, err := s.ArtifactUsage(t.Context(), "ann", artifact.File, now)
	if err != nil || got != want {
		t.Errorf("usage %+v, %v; want %+v", got, err, want)
	}
}
