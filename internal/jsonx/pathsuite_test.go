package jsonx

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The suite is github.com/jsonpath-standard/jsonpath-compliance-test-suite at
// commit 7be7c1f; its licence is beside it. Tests tagged function are of the
// extensions that this package leaves out: their paths must not parse.
func TestPathsKeepToTheComplianceSuite(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/jsonpath/cts.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests []struct {
			Name            string
			Selector        string
			Document        json.RawMessage
			Result          []json.RawMessage
			Results         [][]json.RawMessage
			InvalidSelector bool `json:"invalid_selector"`
			Tags            []string
		}
	}
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	if len(suite.Tests) < 700 {
		t.Fatalf("%d tests in the suite: it is not whole", len(suite.Tests))
	}
	for _, test := range suite.Tests {
		t.Run(test.Name, func(t *testing.T) {
			path, err := ParsePath(test.Selector)
			if test.InvalidSelector || slices.Contains(test.Tags, "function") {
				if err == nil {
					t.Fatalf("%s parsed", test.Selector)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []json.RawMessage
			err = path.Select(t.Context(), test.Document, func(part []byte) bool {
				got = append(got, part)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			allowed := test.Results
			if allowed == nil {
				allowed = [][]json.RawMessage{test.Result}
			}
			// The text keeps the order of members, so of the results that the
			// suite allows for unordered objects one must match exactly.
			var diff string
			for _, want := range allowed {
				if diff = cmp.Diff(decoded(t, want), decoded(t, got)); diff == "" {
					return
				}
			}
			t.Errorf("%s of %s (-want +got):\n%s", test.Selector, test.Document, diff)
		})
	}
}

func decoded(t *testing.T, parts []json.RawMessage) []any {
	t.Helper()
	values := make([]any, len(parts))
	for i, part := range parts {
		if err := json.Unmarshal(part, &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return values
}
