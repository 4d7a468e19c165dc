package policy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestMistakesInCasesAreTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "has no cases",
		"cases: []":                          "has no cases",
		"case:\n- {tool: a.b, want: allow}":  "case",
		"cases:\n- {tool: a.b, wnat: allow}": `line 2: unknown key "wnat"`,
		"cases:\n- {want: allow}":            "case 1 (): it names no tool",
		"cases:\n- {name: x, tool: a.b, want: yes}":                  `case 1 (x): want is "yes"`,
		"cases:\n- {tool: a.b, want: allow, want_isolation: gvizor}": "did you mean gvisor?",
		"cases:\n- {tool: a.b, want: allow, time: noon}":             "time",
		"cases:\n- {tool: a.b, want: allow, effects: [file.burn]}":   "effects: ",
		"cases: {tool: a.b}": "line 1",
		"cases: [":           "t.yaml",
	} {
		_, err := parseCases("t.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t.yaml") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func find(_ context.Context, spelling string) (*toolroom.Tool, error) {
	id, err := toolroom.ParseID(strings.Replace(spelling, ".", ":", 1))
	return &toolroom.Tool{ID: id}, err
}

func trial(t *testing.T, c Config) *Trial {
	t.Helper()
	p, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return NewTrial(p, find)
}

func TestACaseIsACallAndWhatIsWanted(t *testing.T) {
	t.Parallel()
	cases, err := parseCases("t.yaml", []byte(`
cases:
  - {name: passes, tool: shell.exec, elevated: true, arguments: {command: ls, n: 3}, want: allow}
  - {name: differs, tool: shell.exec, want: confirm, want_rule: tools.hooks, want_isolation: gvisor}
  - {name: by its arguments, tool: shell.exec, elevated: true, arguments: {command: "rm  -rf /"}, want: deny, want_rule: immutable}
  - {name: by a hint, tool: a.b, hints: {destructive: true}, want: deny}
  - {name: by a tag, tool: a.b, hints: {destructive: false}, tags: [beta], source: mcp, want: confirm}
`))
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := trial(t, Config{
		Rules:     Rules{Deny: []string{"hint:destructive"}, Confirm: []string{"tag:beta"}},
		Denylist:  []Denial{{Tool: "shell.exec", ArgsPattern: "rm -rf /"}},
		Sensitive: Sensitive{Tools: []string{"shell.*"}},
	}).Run(t.Context(), append(cases[:0:0], cases[3:]...))
	if err != nil || !outcomes[0].OK || !outcomes[1].OK {
		t.Errorf("%+v %v", outcomes, err)
	}
	outcomes, err = trial(t, Config{
		Denylist:  []Denial{{Tool: "shell.exec", ArgsPattern: "rm -rf /"}},
		Sensitive: Sensitive{Tools: []string{"shell.*"}},
	}).Run(t.Context(), cases[:3])
	if err != nil {
		t.Fatal(err)
	}
	if !outcomes[0].OK || !outcomes[2].OK {
		t.Errorf("%+v", outcomes)
	}
	want := []string{
		"outcome: want confirm, got deny",
		`rule: want tools.hooks, got tools.sensitive.tools[0]: "shell.*", and no elevation is in force`,
		"isolation: want gvisor, got none",
	}
	if diff := cmp.Diff(want, outcomes[1].Differences); diff != "" || outcomes[1].OK {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAReplayTellsWhatWouldHaveChanged(t *testing.T) {
	t.Parallel()
	now := trial(t, Config{
		Rules:     Rules{Deny: []string{"a.gone"}},
		Denylist:  []Denial{{Tool: "*", ArgsPattern: "secret"}},
		Sensitive: Sensitive{Tools: []string{"s.*"}},
	})
	var got ReplayResult
	elevated := []toolroom.PolicyStep{{Layer: SensitiveLayer, Effect: toolroom.VerdictAllow}}
	for _, c := range []RecordedCall{
		{ID: "same", Tool: "a:b", Was: toolroom.VerdictAllow, Arguments: json.RawMessage(`{}`)},
		{ID: "denied now", Tool: "a:gone", Was: toolroom.VerdictAllow, Rule: "old"},
		{ID: "permitted now", Tool: "a:b", Was: toolroom.VerdictDeny, Rule: "old"},
		{ID: "by its arguments", Tool: "a:b", Was: toolroom.VerdictAllow, Arguments: json.RawMessage(`{"x":"secret"}`)},
		{ID: "arguments not kept", Tool: "a:b", Was: toolroom.VerdictAllow, Arguments: json.RawMessage(`"[too large to record; see secret]"`)},
		{ID: "elevated then", Tool: "s:x", Was: toolroom.VerdictAllow, Layers: elevated},
		{ID: "not elevated then", Tool: "s:x", Was: toolroom.VerdictAllow},
		{ID: "never decided", Tool: "a:b"},
		{ID: "no name", Tool: "what is this", Was: toolroom.VerdictAllow},
	} {
		c.Started = time.Now()
		now.Replay(t.Context(), &got, c)
	}
	var changed []string
	for _, c := range got.Changes {
		changed = append(changed, c.Call+": "+string(c.Was)+" "+string(c.Now))
	}
	want := []string{"denied now: allow deny", "permitted now: deny allow", "by its arguments: allow deny", "not elevated then: allow deny"}
	if diff := cmp.Diff(want, changed); diff != "" || got.Calls != 7 || got.Unknown != 2 {
		t.Errorf("%d calls, %d unknown (-want +got)\n%s", got.Calls, got.Unknown, diff)
	}
}

// A date in YAML is the text that is written, as in the arguments of calls. The time of a case
// may be a date.
func TestDatesOfCasesStayTexts(t *testing.T) {
	t.Parallel()
	cases, err := parseCases("t.yaml", []byte("cases:\n- {tool: a.b, want: allow, time: 2026-01-31T10:00:00Z, arguments: {day: 2026-01-31, list: [2026-02-01]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(cases[0].Arguments)
	if want := `{"day":"2026-01-31","list":["2026-02-01"]}`; err != nil || string(got) != want || cases[0].Time.Hour() != 10 {
		t.Errorf("%s at %v, %v, want %s", got, cases[0].Time, err, want)
	}
}
