package api_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
)

func TestOperatorsElevateOthersAndNeverThemselves(t *testing.T) {
	t.Parallel()
	r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	b := newBench(t, func(o *api.Options, _ *run.Options) { o.Elevator = r })
	const path = "/api/v1/policy/elevations"
	for _, tt := range []struct {
		who, body string
		status    int
	}{
		{"alice", `{"subject":"bob"}`, http.StatusForbidden},
		{"carol", `{"subject":"bob"}`, http.StatusForbidden}, // an approver is no operator
		{"olga", `{"subject":"olga"}`, http.StatusForbidden},
		{"", `{"subject":"local"}`, http.StatusForbidden},
		{"olga", `{"subject":""}`, http.StatusUnprocessableEntity},
		{"olga", `{"subject":"bob","seconds":999999999999}`, http.StatusUnprocessableEntity},
		{"olga", `{"subject":"bob","seconds":-1}`, http.StatusUnprocessableEntity},
		{"olga", `{"subject":"bob","tools":["a b"]}`, http.StatusUnprocessableEntity},
		{"olga", `{"subject":"bob","admin":true}`, http.StatusUnprocessableEntity},
		{"olga", `{"subject":"bob","tools":["shell.*"],"reason":"a release","seconds":60}`, http.StatusOK},
	} {
		if got := b.as(tt.who, http.MethodPost, path, tt.body); got.status != tt.status {
			t.Errorf("%s posts %s: %d %s", tt.who, tt.body, got.status, got.body)
		}
	}
	if got := b.as("alice", http.MethodGet, path, ""); got.status != http.StatusForbidden {
		t.Errorf("alice lists elevations: %d", got.status)
	}
	var list struct{ Elevations []policy.Elevation }
	b.as("olga", http.MethodGet, path, "").into(t, &list)
	if len(list.Elevations) != 1 || list.Elevations[0].Subject != "bob" || list.Elevations[0].By != "olga" {
		t.Fatalf("in force: %+v", list.Elevations)
	}
	one := path + "/" + list.Elevations[0].ID
	if got := b.as("bob", http.MethodDelete, one, ""); got.status != http.StatusForbidden {
		t.Errorf("bob ends it: %d", got.status)
	}
	if got := b.as("olga", http.MethodDelete, one, ""); got.status != http.StatusNoContent {
		t.Errorf("olga ends it: %d %s", got.status, got.body)
	}
	if got := b.as("olga", http.MethodGet, path, ""); !strings.Contains(got.body, `"elevations":[]`) {
		t.Errorf("after its end: %s", got.body)
	}
}
