package monty_test

import (
	"context"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// silent is a host with one tool, which gives back its argument.
type silent struct{ bridge.Handler }

func (silent) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	return arguments.Get("n"), nil
}

func (silent) Print(string, string) {}

var numbers = []bridge.Tool{{
	ID: "number:same", Path: []string{"number", "same"}, Kind: "go",
	Parameters: []bridge.Parameter{{Name: "n", Type: "number", Required: true}},
}}

func job(source string, limits bridge.Limits) engine.Job {
	return engine.Job{Owner: "tester", Program: bridge.Program{Language: "python", Name: "main.py", Source: source, Tools: numbers, Limits: limits}}
}
