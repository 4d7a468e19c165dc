package examples

import (
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
)

func TestThePolicyOfTheExampleDecidesAsItsCasesSay(t *testing.T) {
	t.Parallel()
	r, err := app.Open(t.Context(), app.Options{ConfigFile: filepath.Join("policy", "toolroom.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cases, err := policy.ReadCases(filepath.Join("policy", "policy_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := r.TryPolicy(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if !o.OK {
			t.Errorf("%s: %q by %s", o.Case, o.Differences, o.Decision.Rule)
		}
	}
}
