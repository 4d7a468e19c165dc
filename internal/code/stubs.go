package code

import (
	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code/stub"
	"github.com/toolroom/toolroom/internal/policy"
)

// Stubs declares tools in typescript or python, as programs have them. With
// patterns, in which * stands for anything, only those whose id fits one; a
// pattern that fits none is not_found.
func Stubs(language string, entries []*catalog.Entry, patterns []string) (string, error) {
	render, ok := map[string]func([]stub.Tool) string{
		"": stub.TypeScript, "ts": stub.TypeScript, "typescript": stub.TypeScript, "py": stub.Python, "python": stub.Python,
	}[language]
	if !ok {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "there are no stubs in %q", language).WithHint("take ts or python")
	}
	fits := make([]bool, len(patterns))
	byPath := map[string][]stub.Tool{}
	taken := reserved("javascript")
	if language == "py" || language == "python" {
		taken = reserved("python")
	}
	for _, e := range entries {
		wanted := len(patterns) == 0
		for i, pattern := range patterns {
			if pattern == e.Tool.ID.Namespace || policy.MatchAny([]string{pattern}, e.ID) {
				wanted, fits[i] = true, true
			}
		}
		if !wanted || e.ID == Tool {
			continue
		}
		t := stub.Tool{
			ID: e.ID, Namespace: identifier(e.Tool.ID.Namespace), Name: identifier(e.Tool.ID.Name), Command: e.Tool.Source == toolroom.SourceCLI, Server: e.Tool.Source == toolroom.SourceMCP,
			Doc: e.Tool.Description, Input: e.Tool.InputSchema, Output: e.Tool.OutputSchema,
		}
		_, collides := taken[t.Namespace]
		t.Global = !collides
		byPath[t.Namespace+"."+t.Name] = append(byPath[t.Namespace+"."+t.Name], t)
	}
	for i, pattern := range patterns {
		if !fits[i] {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "no tool that you may see fits %q", pattern).
				WithHint("toolroom tools lists them; a pattern is a namespace, or an id with * for anything")
		}
	}
	var tools []stub.Tool
	for _, same := range byPath {
		if len(same) > 1 { // neither has the name; see viewFor
			continue
		}
		tools = append(tools, same[0])
	}
	return render(tools), nil
}
