package source

import "context"

// Previewer is implemented by sources that can describe what a call would do to
// the person who decides about its approval.
type Previewer interface {
	// Preview describes what the call would do, without changing anything. It is
	// called once before a person is asked, concurrently, and should return within
	// a second; ctx ends with the call. The zero Preview means that nothing is
	// known beyond the arguments.
	Preview(ctx context.Context, req *Request) (Preview, error)
}

// Preview describes what a call would do.
type Preview struct {
	// Effects are short sentences in plain words, such as "writes 3 lines to
	// notes/today.md".
	Effects []string
	// Diff is a unified diff of the text that the call would change.
	Diff string
}
