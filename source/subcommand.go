package source

import "encoding/json"

// Commander is implemented by sources of command-line programs, which may have
// more sub-commands than they tell of.
type Commander interface {
	// Subcommand gives the tool and the arguments by which a sub-command runs
	// that has no tool of its own; ok is false for what can be none. It starts
	// nothing.
	Subcommand(name string, arguments json.RawMessage) (tool string, changed json.RawMessage, ok bool)
}
