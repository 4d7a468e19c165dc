package jsonx_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
)

type embeddedPart struct {
	Inner string `json:"inner"`
}

type document struct {
	embeddedPart
	Approve *bool                      `json:"approve"`
	Steps   []struct{ Tool string }    `json:"steps,omitempty"`
	Named   map[string]struct{ X int } `json:"named,omitempty"`
	Raw     json.RawMessage            `json:"raw,omitempty"`
	Any     any                        `json:"any"`
	Plain   int
	Hidden  string `json:"-"`
}

func TestADocumentIsReadInOneWayOrNotAtAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"approve": true, "steps": [{"Tool": "a"}], "named": {"a": {"X": 1}, "A": {"X": 2}}, "raw": {"a": 1, "A": 2}, "Plain": 1, "inner": "x", "any": {"a": [{}]}}`: "",
		`{"approve": null} ` + "\n":              "",
		"{\"raw\": {\"a\": 1, \"a\": \"\xff\"}}": "", // its reader's
		`{"hidden": 1}`:                          "unknown field",
		`{"steps": [{"other": 1}]}`:              `in "steps": in element 0: unknown field "other": the fields are Tool`,

		`{"approve": false, "Approve": true}`:               "in case",
		`{"Approve": true}`:                                 "in case",
		`{"APPROVE": true}`:                                 "in case",
		`{"a\u0050prove": true}`:                            "in case",
		`{"INNER": "x"}`:                                    "in case",
		`{"plain": 1}`:                                      "in case",
		`{"\u017fteps": []}`:                                "in case", // the long s
		`{"steps": [{"tool": "a"}]}`:                        "in case",
		`{"named": {"a": {"x": 1}}}`:                        "in case",
		`{"approve": false, "approve": true}`:               "duplicate",
		`{"approve": false, "\u0061pprove": true}`:          "duplicate",
		`{"steps": [{"Tool": "a", "Tool": "b"}]}`:           "duplicate",
		`{"steps": [{"Tool": "a", "x": {"a": 1, "a": 2}}]}`: "duplicate",
		`{"named": {"a": {"X": 1}, "a": {"X": 2}}}`:         "duplicate",
		`{"any": {"a": [{"b": 1, "b": 1}]}}`:                "duplicate",
		`{"unknown": {"a": [{"b": 1, "b": 1}]}}`:            "duplicate",
		`{"approve": true}}`:                                "after",
		`{"approve": true}]`:                                "after",
		`{"approve": true} {}`:                              "after",
		`{"approve": true} x`:                               "after",
		`{"approve": true,}`:                                "comma",
		"{\"approve\": true}\x00":                           "after",
		"\xef\xbb\xbf{}":                                    "invalid",
		"{\"inner\": \"\xff\"}":                             "UTF-8",
		``:                                                  "empty",
	} {
		var v document
		err := jsonx.UnmarshalKnown([]byte(text), &v, jsonx.Limits{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
		if err := jsonx.Unmarshal([]byte(text), &v, jsonx.Limits{}); (err == nil) != (want == "" || strings.Contains(want, "unknown field")) {
			t.Errorf("%s, where unknown members are skipped: %v", text, err)
		}
	}
}

func TestWhatIsPassedOnHasEachMemberOnce(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"a": 1, "A": 2}`:  true,
		`{"a": "\ud800"}`:   true,
		"{\"a\": \"\xff\"}": true,
		strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500): true,
		` [{"a": 1}, {"a": 1}] `:                            true,
		`{"a": 1, "a": 1}`:                                  false,
		`{"a": 1, "\u0061": 1}`:                             false,
		`[[{"b": {"a": 1, "a": 1}}]]`:                       false,
		`{"a": 1}}`:                                         false,
		`{} {}`:                                             false,
		`{`:                                                 false,
		``:                                                  false,
	} {
		if err := jsonx.CheckMembers([]byte(text)); (err == nil) != good {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}
