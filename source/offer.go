package source

import "github.com/toolroom/toolroom"

// Offer is a tool as one source offers it.
type Offer struct {
	// Source is the name of the source; functions of this program are from "go".
	Source string
	Tool   toolroom.Tool
}

// Status is the status of a source.
type Status struct {
	Name string              `json:"name"`
	Kind toolroom.SourceKind `json:"kind"`
	// State is the state in words: ready, idle, connecting, backing off, waiting for
	// authorisation, broken, draining, failing, disabled.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Listed reports whether the tools are known, from this run or an earlier one.
	Listed bool `json:"listed"`
	Tools  int  `json:"tools"`
	// Stale reports that the tools are those of an earlier list, because the last attempt
	// failed.
	Stale bool `json:"stale,omitempty"`
	// Process is the source's running program; nil if there is none.
	Process *Process `json:"process,omitempty"`
	// Output is the end of what its program has written to stderr, also of one that has
	// ended.
	Output string `json:"output,omitempty"`
	// Sandbox is where its program runs, for example "process, standard"; "none" is with the
	// rights of this user. It is empty if the source has no program.
	Sandbox string `json:"sandbox,omitempty"`
	// Error is why the last attempt to list the tools failed.
	Error string `json:"error,omitempty"`
}
