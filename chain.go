package toolroom

import (
	"encoding/json"
	"time"
)

// Step is one call of a chain.
type Step struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// UsePrevious passes the value of the previous step as the argument "previous". For the
	// first step it is null.
	UsePrevious bool `json:"use_previous,omitempty"`
	// Map sets arguments from Expr expressions over previous (the value of the previous
	// step) and steps (the values of all previous steps).
	Map map[string]string `json:"map,omitempty"`
	// If is an Expr condition over the same variables. If it is false, the step is skipped
	// and previous does not change.
	If string `json:"if,omitempty"`
	// Retry is how often a failed step is repeated, whatever the guarantee of its tool: the
	// author of the chain is responsible.
	Retry int `json:"retry,omitempty"`
	// ContinueOnError continues the chain after a failure, with previous as null.
	ContinueOnError bool          `json:"continue_on_error,omitempty"`
	Timeout         time.Duration `json:"timeout,omitempty"`
}

// ChainResult is the outcome of a chain.
type ChainResult struct {
	Status Status `json:"status"`
	// Value is the value of the last step that ran.
	Value json.RawMessage `json:"value,omitempty"`
	Steps []StepResult    `json:"steps"`
	// Failed is the index of the step that ended the chain, and Error is the reason.
	Failed *int   `json:"failed,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// StepResult is the outcome of one step. Result is nil if the step was skipped.
type StepResult struct {
	Tool    string  `json:"tool"`
	Skipped bool    `json:"skipped,omitempty"`
	Result  *Result `json:"result,omitempty"`
}
