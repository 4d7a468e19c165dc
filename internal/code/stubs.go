package code

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code/stub"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/reserved"
)

// Stubs returns TypeScript or Python declarations of tools as programs see them;
// python-await is for programs that await. Patterns, in which * matches anything, restrict
// it to tools with matching ids. The error is not_found if a pattern matches none.
func Stubs(language string, entries []*catalog.Entry, patterns []string) (string, error) {
	render, taken := stub.TypeScript, reserved.Words("javascript")
	switch language {
	case "", "ts", "typescript":
	case "py", "python", "python-await":
		render, taken = func(tools []stub.Tool) string { return stub.Python(tools, language == "python-await") }, reserved.Words("python")
	default:
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown language for stubs: %q", language).WithHint("use ts, python, or python-await for programs that await")
	}
	fits := make([]bool, len(patterns))
	byPath := map[string][]stub.Tool{}
	for _, e := range entries {
		wanted := len(patterns) == 0
		for i, pattern := range patterns {
			if pattern == e.Tool.ID.Namespace || policy.MatchesGlob([]string{pattern}, e.ID) {
				wanted, fits[i] = true, true
			}
		}
		if !wanted || e.ID == Tool {
			continue
		}
		t := stubTool(e)
		_, collides := taken[t.Namespace]
		t.Global = !collides
		byPath[t.Namespace+"."+t.Name] = append(byPath[t.Namespace+"."+t.Name], t)
	}
	for i, pattern := range patterns {
		if !fits[i] {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "no visible tool matches %q", pattern).
				WithHint("a pattern is a namespace, or an id with * for anything").WithCLIHint("toolroom tools lists them")
		}
	}
	var tools []stub.Tool
	for _, same := range byPath {
		if len(same) > 1 { // neither has the name; see newView
			continue
		}
		tools = append(tools, same[0])
	}
	return render(tools), nil
}

// stubTool returns the description of a tool for package stub, without Global.
func stubTool(e *catalog.Entry) stub.Tool {
	return stub.Tool{
		ID: e.ID, Namespace: identifier(e.Tool.ID.Namespace), Name: identifier(e.Tool.ID.Name), Command: e.Tool.Source == toolroom.SourceCLI, Server: e.Tool.Source == toolroom.SourceMCP,
		Doc: e.Tool.Description, Input: e.Tool.InputSchema, Output: e.Tool.OutputSchema,
	}
}

// declareUsedTools returns Python declarations of the view's tools that a program mentions.
func (v *view) declareUsedTools(source string, awaits bool) string {
	var tools []stub.Tool
	for i, e := range v.entries {
		if t := stubTool(e); strings.Contains(source, t.Name) {
			t.Global = slices.ContainsFunc(v.tools[i].Globals, func(path []string) bool { return len(path) == 2 })
			tools = append(tools, t)
		}
	}
	return stub.Python(tools, awaits)
}
