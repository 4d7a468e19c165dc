package js

import (
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

func TestAProgramIsCheckedAgainAfterTheValuesOfAnArgumentHaveChanged(t *testing.T) {
	t.Parallel()
	c := NewCache()
	program := func(values ...string) bridge.Program {
		return bridge.Program{
			Language: "javascript", Name: "main.js", Source: `await tools.a.b({kind: "old"})`,
			Tools: []bridge.Tool{{ID: "a:b", Path: []string{"a", "b"}, Parameters: []bridge.Parameter{{Name: "kind", Type: "string", Values: values}}}},
		}
	}
	if _, failure := c.Prepare(program("old", "new")); failure != nil {
		t.Fatal(failure)
	}
	if _, failure := c.Prepare(program("new", "newer")); failure == nil {
		t.Error("a value that there is no more passes")
	}
}
