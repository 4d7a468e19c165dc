package sqlite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/token"
)

var tokenTests = []test{
	{"a token comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		want := newToken("a")
		must(t, s.CreateToken(t.Context(), want))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Token(t.Context(), "a")
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}},
	{"an ended session stays so, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		for range 2 {
			must(t, s.EndSession(t.Context(), "a", time.Now().Add(time.Hour)))
		}
		must(t, s.EndSession(t.Context(), "b", time.Now()))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			for id, want := range map[string]bool{"a": true, "b": true, "c": false, "": false} {
				ended, err := s.SessionEnded(t.Context(), id)
				must(t, err)
				if ended != want {
					t.Errorf("%s: session %q has ended: %v", name, id, ended)
				}
			}
		}
	}},
	{"an unknown token is not found", func(t *testing.T, d database) {
		s := d.open(t)
		_, err := s.Token(t.Context(), "none")
		wantCode(t, "Token", err, toolroom.CodeNotFound)
		wantCode(t, "RevokeToken", s.RevokeToken(t.Context(), "none", start), toolroom.CodeNotFound)
		must(t, s.TouchToken(t.Context(), "none", start))
	}},
	{"an id that is taken is a conflict", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateToken(t.Context(), newToken("a")))
		wantCode(t, "CreateToken", s.CreateToken(t.Context(), newToken("a")), toolroom.CodeConflict)
	}},
	{"lists are oldest first", func(t *testing.T, d database) {
		s := d.open(t)
		want := []string{}
		for _, id := range []string{"c", "a", "b"} {
			must(t, s.CreateToken(t.Context(), newToken(id)))
			want = append(want, id)
		}
		list, err := s.Tokens(t.Context())
		must(t, err)
		got := []string{}
		for _, tok := range list {
			got = append(got, tok.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ids (-want +got):\n%s", diff)
		}
	}},
	{"revoking notes the first time only", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateToken(t.Context(), newToken("a")))
		must(t, s.RevokeToken(t.Context(), "a", start.Add(time.Minute)))
		must(t, s.RevokeToken(t.Context(), "a", start.Add(time.Hour)))
		got, err := d.open(t).Token(t.Context(), "a")
		must(t, err)
		if !got.Revoked.Equal(start.Add(time.Minute)) {
			t.Errorf("revoked at %v", got.Revoked)
		}
	}},
	{"touching notes the last time", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateToken(t.Context(), newToken("a")))
		must(t, s.TouchToken(t.Context(), "a", start.Add(time.Minute)))
		must(t, s.TouchToken(t.Context(), "a", start.Add(time.Hour)))
		got, err := s.Token(t.Context(), "a")
		must(t, err)
		if !got.LastUsed.Equal(start.Add(time.Hour)) {
			t.Errorf("last used at %v", got.LastUsed)
		}
	}},
}

func newToken(id string) *token.Token {
	return &token.Token{
		ID: id, Name: "ann's laptop", Hash: []byte{0, 1, 255}, Subject: "ann", Groups: []string{"dev"},
		Agent: "coder", Provider: "local", Skill: "review", Set: "small", Environment: "test",
		Created: start, Expires: start.Add(time.Hour),
	}
}
