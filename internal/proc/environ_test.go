package proc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironKeepsSecretsOut(t *testing.T) {
	t.Parallel()
	base := []string{
		"PATH=/bin", "HOME=/home/ann", "LANG=C", "LC_ALL=C", "XDG_CONFIG_HOME=/c", "TZ=",
		"AWS_SECRET_ACCESS_KEY=s", "GITHUB_TOKEN=s", "SSH_AUTH_SOCK=/s", "TOOLROOM_OWNER=1-2", "OPENAI_API_KEY=s",
		"LD_PRELOAD=evil.so", "PATHS=x", "path=/x", "broken",
	}
	for _, tt := range []struct {
		name  string
		extra map[string]string
		want  []string
	}{
		{"nothing extra", nil, []string{"TOOLROOM_DEPTH=1", "PATH=/bin", "HOME=/home/ann", "LANG=C", "LC_ALL=C", "XDG_CONFIG_HOME=/c", "TZ="}},
		{
			"extra overrides, in alphabetical order",
			map[string]string{"PATH": "/mine", "B": "2=3", "A": "", "GITHUB_TOKEN": "given"},
			[]string{"TOOLROOM_DEPTH=1", "HOME=/home/ann", "LANG=C", "LC_ALL=C", "XDG_CONFIG_HOME=/c", "TZ=", "A=", "B=2=3", "GITHUB_TOKEN=given", "PATH=/mine"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Environ(base, tt.extra)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTheCaseOfNamesCountsButOnWindows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, system string
		want         bool
	}{
		{"PATH", "linux", true},
		{"Path", "linux", false},
		{"PATH", "windows", true},
		{"Path", "windows", true},
		{"ComSpec", "windows", true},
		{"GITHUB_TOKEN", "windows", false},
	} {
		if got := inherits(tt.name, tt.system); got != tt.want {
			t.Errorf("%s on %s: %t", tt.name, tt.system, got)
		}
	}
}

func TestEachToolroomKnowsHowManyAreAboveIt(t *testing.T) {
	t.Parallel()
	child := Environ(nil, nil)
	grandchild := Environ(child, nil)
	if Depth(nil) != 0 || Depth(child) != 1 || Depth(grandchild) != 2 {
		t.Errorf("got %d, %d, %d", Depth(nil), Depth(child), Depth(grandchild))
	}
	if Depth([]string{"TOOLROOM_DEPTH=many"}) != 0 {
		t.Error("a depth that is not a number is counted")
	}
}
