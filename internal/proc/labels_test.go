package proc_test

import (
	"maps"
	"testing"

	"github.com/toolroom/toolroom/internal/proc"
)

func TestOnlyLabelsOfDeadProcessesOfThisMachineAreAbandoned(t *testing.T) {
	t.Parallel()
	own := proc.Labels("run")
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
		{"of a dead process", with(proc.LabelOwner, "2-1"), true},
		{"of a dead process of another machine", map[string]string{proc.LabelOwner: "2-1", proc.LabelMachine: "another"}, false},
		{"without an owner", with(proc.LabelOwner, ""), false},
		{"without labels", nil, false},
	} {
		if got := proc.Abandoned(tt.labels); got != tt.want {
			t.Errorf("%s: abandoned is %v", tt.name, got)
		}
	}
}
