package app

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

func TestDoctorSaysHowToConfigureRuntimesElsewhere(t *testing.T) {
	t.Parallel()
	checks := unconfiguredRuntimes(config.Runtimes{})
	if len(checks) != 3 {
		t.Fatalf("%d runtimes are listed, want 3", len(checks))
	}
	for _, c := range checks {
		line, _ := strings.CutPrefix(c.Fix, "write ")
		parsed, err := config.Parse("toolroom.yaml", []byte(line))
		if err != nil {
			t.Errorf("the line of %s is not valid: %v", c.Name, err)
			continue
		}
		for _, left := range unconfiguredRuntimes(parsed.Code.Runtimes) {
			if left.Name == c.Name {
				t.Errorf("%s is not configured by its own line", c.Name)
			}
		}
	}
}
