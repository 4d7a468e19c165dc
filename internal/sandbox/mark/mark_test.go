package mark_test

import (
	"maps"
	"testing"

	"github.com/toolroom/toolroom/internal/sandbox/mark"
)

func TestOnlyLabelsOfDeadProcessesOfThisMachineAreAbandoned(t *testing.T) {
	t.Parallel()
	own := mark.Labels("run")
	with := func(key, value string) map[string]string {
		labels := maps.Clone(own)
		labels[key] = value
		return labels
	}
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   bool
	}{
		{"ours", own, false},
		{"of a dead process", with(mark.Owner, "2-1"), true},
		{"of a dead process of another machine", map[string]string{mark.Owner: "2-1", mark.Machine: "another"}, false},
		{"without an owner", with(mark.Owner, ""), false},
		{"without labels", nil, false},
	} {
		if got := mark.Abandoned(tt.labels); got != tt.want {
			t.Errorf("%s: abandoned is %v", tt.name, got)
		}
	}
}
