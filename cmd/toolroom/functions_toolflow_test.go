package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/toolflow"
)

func TestAnImportFromToolFlowTakesWhatRunsAndNamesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	tools, err := toolflow.Read(t.Context(), "../../internal/toolflow/testdata/dump.sql")
	if err != nil {
		t.Fatal(err)
	}
	count := func(dry bool) map[string]int {
		t.Helper()
		steps, err := toolflow.Import(t.Context(), w.Parts().Releases, tools, "ada", dry)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, s := range steps {
			n[s.Action]++
		}
		return n
	}
	if n := count(true); n[toolflow.StepVersion] != 3 || n[toolflow.StepSkip] != 3 || n[toolflow.StepRename] != 1 {
		t.Errorf("the plan is %v", n)
	}
	if list, err := w.Parts().Releases.List(t.Context(), release.Filter{}); err != nil || len(list) != 0 {
		t.Fatalf("a dry run stored %v, %v", list, err)
	}
	if n := count(false); n[toolflow.StepVersion] != 3 || n[toolflow.StepRelease] != 2 || n[toolflow.StepDeprecate] != 1 || n[toolflow.StepCase] != 1 || n[toolflow.StepSkip] != 4 {
		t.Errorf("the import did %v", n)
	}
	w.wantValue("fn:double", `{"x": 21}`, `{"result":42}`)
	d, err := w.Parts().Releases.Show(t.Context(), "fn:double")
	if err != nil || len(d.Versions) != 2 || d.Versions[0].Status != release.StatusActive || d.Versions[1].Status != release.StatusDeprecated || len(d.Cases) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if n := count(false); n[toolflow.StepVersion] != 0 || n[toolflow.StepRelease] != 0 || n[toolflow.StepNothing] != 5 || n[toolflow.StepDeprecate] != 0 {
		t.Errorf("the second import did %v", n)
	}
	for i := range tools {
		tools[i].Versions = tools[i].Versions[:min(1, len(tools[i].Versions))]
	}
	w2 := newWorkshop(t, "")
	w2.serve("double.py", "def double(x: int) -> int:\n    return x\n")
	steps, err := toolflow.Import(t.Context(), w2.Parts().Releases, tools, "ada", true)
	if err != nil || steps[0].Action != toolflow.StepRename || steps[0].Tool != "fn:double_2" {
		t.Errorf("%+v, %v", steps, err)
	}
}

func TestCodeCallsNoToolsWhileItIsImported(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("double.py", "def double(x: int) -> int:\n    return x * 2\n")
	code := `import sys
def main(args):
    try:
        sys._getframe(1).f_locals["_toolroom"].call_tool("fn:double", {"x": 1})
    except Exception as e:
        return {"refused": type(e).__name__}
    return {"called": True}
`
	tool := toolflow.Tool{
		ID: "curious", Versions: []toolflow.Version{{Number: 1, Code: code, Status: "active"}},
		Runs: []toolflow.Run{{ID: "1", Version: 1, Input: json.RawMessage(`{}`), Output: json.RawMessage(`{"refused": "ToolError"}`)}},
	}
	steps, err := toolflow.Import(t.Context(), w.Parts().Releases, []toolflow.Tool{tool}, "ada", false)
	if err != nil || len(steps) != 2 || steps[1].Action != toolflow.StepCase {
		t.Errorf("%+v, %v", steps, err)
	}
}

func TestAToolWhoseFirstVersionCannotBeImportedIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	code := "def main(args):\n    return args\n"
	tool := toolflow.Tool{ID: "late", Prod: 2, Versions: []toolflow.Version{
		{Number: 1, Code: code, Entry: "no name", Status: "draft"}, {Number: 2, Code: code, Status: "active"},
	}}
	for range 2 {
		if _, err := toolflow.Import(t.Context(), w.Parts().Releases, []toolflow.Tool{tool}, "ada", false); err != nil {
			t.Fatal(err)
		}
	}
	list, err := w.Parts().Releases.List(t.Context(), release.Filter{})
	if err != nil || len(list) != 1 || list[0].Newest != 1 {
		t.Errorf("the second import stored it again: %+v, %v", list, err)
	}
}

func TestAReleaseThatIsRefusedDoesNotStopAnImport(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	code := "def main(args):\n    return %s\n"
	tools := []toolflow.Tool{
		{ID: "a", Prod: 1, Versions: []toolflow.Version{{Number: 1, Code: fmt.Sprintf(code, "1"), Status: "active"}}},
		{ID: "b", Prod: 1, Versions: []toolflow.Version{{Number: 1, Code: fmt.Sprintf(code, "2"), Status: "active"}}},
	}
	s := w.Parts().Releases
	if _, err := toolflow.Import(t.Context(), s, tools[:1], "ada", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback(t.Context(), "fn:a", "", 0, "", "ada"); err != nil {
		t.Fatal(err)
	}
	steps, err := toolflow.Import(t.Context(), s, tools, "ada", false)
	if err != nil || len(steps) != 4 || steps[1].Action != toolflow.StepNothing || steps[3].Action != toolflow.StepRelease {
		t.Errorf("after a rollback here: %+v, %v", steps, err)
	}
	if err := s.Deprecate(t.Context(), "fn:a", 1, "it lies", false, "ada"); err != nil {
		t.Fatal(err)
	}
	tools[0].Test = 1
	steps, err = toolflow.Import(t.Context(), s, tools, "ada", false)
	if err != nil || len(steps) != 5 || steps[1].Action != toolflow.StepSkip || steps[4].Action != toolflow.StepNothing {
		t.Errorf("of a deprecated version: %+v, %v", steps, err)
	}
}
