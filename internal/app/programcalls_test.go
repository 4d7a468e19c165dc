package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

const addChain = `run_chain([{"tool": "math:add", "arguments": {"a": 1, "b": 2}}]*%d)`

func TestChainsOfAProgramCountEachOfTheirCalls(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	for _, c := range []struct {
		language, code string
		made           int
		exceeded       bool
	}{
		{"python", fmt.Sprintf(addChain, 5), 0, true},
		{"python", fmt.Sprintf(addChain+"\n"+addChain, 2, 1), 2, true},
		{"python", fmt.Sprintf(addChain+"\n"+addChain, 1, 1), 2, false},
		{"python", fmt.Sprintf(addChain+"\nmath.add(a=1, b=2)", 2), 2, true},
		{"javascript", `const s = {tool: "math:add", arguments: {a: 1, b: 2}}; await run_chain([s, s, s])`, 0, true},
		{"javascript", `const s = {tool: "math:add", arguments: {a: 1, b: 2}}; await Promise.allSettled([run_chain([s, s]), run_chain([s, s])]); return 1`, 2, false},
		{"javascript", `const s = {tool: "math:add", arguments: {a: 1, b: 2}}; await run_chain([s, {...s, if: "false"}]); return await math.add({a: 1, b: 2})`, 2, false},
		{"javascript", `for (;;) await math.add({a: 1, b: 2})`, 2, true},
	} {
		result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: c.language, Code: c.code, MaxCalls: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Execution.Calls) != c.made {
			t.Errorf("%s\nmade %d calls, want %d", c.code, len(result.Execution.Calls), c.made)
		}
		if exceeded := toolroom.CodeOf(result.Err()) == toolroom.CodeBudgetExceeded; exceeded != c.exceeded || !exceeded && result.Error != nil {
			t.Errorf("%s\nended with %v", c.code, result.Error)
		}
	}
}

func TestAProgramKeepsToTheBudgetOfItsCaller(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	budget, err := toolroom.NewBudget(toolroom.BudgetLimits{Calls: 3})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Execute(t.Context(), toolroom.Call{Budget: budget}, toolroom.Program{Language: "javascript", Code: `
		const s = {tool: "math:add", arguments: {a: 1, b: 2}}
		await run_chain([s, s])
		try { await run_chain([s, s]) } catch (e) { if (e.code != "budget_exceeded") throw e }
		await math.add({a: 1, b: 2})
		await math.add({a: 1, b: 2})`})
	if err != nil || toolroom.CodeOf(result.Err()) != toolroom.CodeBudgetExceeded || len(result.Execution.Calls) != 3 {
		t.Errorf("%v, %+v", err, result)
	}
}

func TestAProgramLearnsWhatAChainDidBeforeItFailed(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	for _, p := range []toolroom.Program{
		{Language: "javascript", Code: `try { await run_chain([{tool: "math:add", arguments: {a: 1, b: 2}}, {tool: "math:add", arguments: {a: "x"}}, {tool: "math:add"}]) } catch (e) { return [e.details.failed, e.details.steps] }`},
		{Language: "python", Engine: "py", Code: `
try:
    run_chain([{"tool": "math:add", "arguments": {"a": 1, "b": 2}}, {"tool": "math:add", "arguments": {"a": "x"}}, {"tool": "math:add"}])
except ToolError as e:
    got = [e.details["failed"], e.details["steps"]]
got`},
	} {
		result, err := r.Execute(t.Context(), toolroom.Call{}, p)
		if err != nil || result.Error != nil {
			t.Errorf("%s: %v, %v", p.Language, err, result.Error)
			continue
		}
		var got []json.RawMessage
		var steps []struct {
			Tool, Status string
			Value        int
			Error        *toolroom.Error
		}
		if err := json.Unmarshal(result.Value, &got); err != nil || len(got) != 2 || string(got[0]) != "1" || json.Unmarshal(got[1], &steps) != nil ||
			len(steps) != 2 || steps[0].Value != 3 || steps[0].Status != "ok" || steps[1].Error == nil || steps[1].Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %s, %v", p.Language, result.Value, err)
		}
		p.Code = strings.NewReplacer("try {", "{", "catch (e) {", "{ const e = {details: {}};", "try:", "if True:", "except ToolError as e:", "else:").Replace(p.Code)
		result, err = r.Execute(t.Context(), toolroom.Call{}, p)
		if err != nil || result.Error == nil || result.Error.Details["steps"] == nil || result.Error.Details["failed"] == nil {
			t.Errorf("%s, not caught: %v, %+v", p.Language, err, result.Error)
		}
	}
}

func TestACommandThatIsRefusedACallEndsAsOverItsBudget(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{
		Language: "shell", Runtime: "process", BestEffort: true, MaxCalls: 1, Code: "tool math:add a=1 b=2\ntool math:add a=1 b=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	if toolroom.CodeOf(result.Err()) == toolroom.CodeSandboxUnavailable {
		if os.Getenv("CI") == "true" {
			t.Fatal(result.Error)
		}
		t.Skip(result.Error)
	}
	if toolroom.CodeOf(result.Err()) != toolroom.CodeBudgetExceeded {
		t.Errorf("got %v", result.Error)
	}
}
