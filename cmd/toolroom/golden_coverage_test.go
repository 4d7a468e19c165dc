package main

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolroom/toolroom"
)

// neverFail are operations that return a list to every caller that may use them.
var neverFail = []string{
	"GET /api/v1/approvals/rules", "GET /api/v1/artifacts", "GET /api/v1/policy/elevations", "GET /api/v1/sessions",
	"GET /api/v1/sources", "GET /api/v1/approvals/events", "GET /healthz", "GET /api/v1/events",
}

// TestGoldenHasEveryOperation: each operation of the API has a scenario in which
// it succeeds, and one in which it fails.
func TestGoldenHasEveryOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newKit(t), &txtar.Archive{Files: []txtar.File{{Name: "toolroom.yaml"}}}, "")
	w.serve(nil)
	resp, err := w.send(t.Context(), http.MethodGet, "/api/v1/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	var operations []string
	for path, methods := range document.Paths {
		for method := range methods {
			operations = append(operations, strings.ToUpper(method)+" "+path)
		}
	}
	if len(operations) < 30 {
		t.Fatalf("the API has %d operations", len(operations))
	}
	worked, failed := operationOutcomes(t, operations)
	for _, o := range operations {
		if !worked[o] {
			t.Errorf("no scenario has %s succeed", o)
		}
		if !failed[o] && !slices.Contains(neverFail, o) {
			t.Errorf("no scenario has %s fail", o)
		}
	}
}

// operationOutcomes returns the operations that succeed and those that fail in the scenarios.
func operationOutcomes(t *testing.T, operations []string) (worked, failed map[string]bool) {
	t.Helper()
	// Those with fewer parameters come first: /approvals/rules is no approval.
	slices.SortFunc(operations, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	parameter := regexp.MustCompile(`\\\{[a-z]+\\\}`)
	patterns := map[string]*regexp.Regexp{}
	for _, o := range operations {
		patterns[o] = regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(o), "[^/ ]+") + `(\?|$)`)
	}
	worked, failed = map[string]bool{}, map[string]bool{}
	step := regexp.MustCompile(`^(?:& |until '[^']*' |until \S+ )?(?:follow \S+ (/\S+)|((?:GET|POST|PUT|DELETE) /\S+))`)
	for _, file := range scenarioFiles(t) {
		current := ""
		for _, l := range lines(t, file) {
			if m := step.FindStringSubmatch(l); m != nil {
				request := m[2]
				if m[1] != "" {
					request = "GET " + m[1]
				}
				current = ""
				for _, o := range operations {
					if current == "" && patterns[o].MatchString(request) {
						current = o
					}
				}
			}
			if status, ok := strings.CutPrefix(l, markState); ok && current != "" && len(status) > 3 && status[3] == ' ' {
				if status < "400" {
					worked[current] = true
				} else {
					failed[current] = true
				}
				current = ""
			}
		}
	}
	return worked, failed
}

// TestGoldenHasEveryCode: each code of an error that can be had from outside is
// in a scenario.
func TestGoldenHasEveryCode(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	code := regexp.MustCompile(`"code": ?"([a-z_]+)"`)
	for _, file := range scenarioFiles(t) {
		for _, l := range lines(t, file) {
			for _, m := range code.FindAllStringSubmatch(l, -1) {
				seen[m[1]] = true
			}
		}
	}
	for _, c := range toolroom.Codes() {
		if !seen[string(c)] {
			t.Errorf("no scenario has an error with the code %s", c)
		}
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
