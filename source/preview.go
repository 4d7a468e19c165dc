package source

import "context"

// Previewer is implemented by sources that can say what a call would do, for
// the person who is asked to approve it.
type Previewer interface {
	// Preview changes nothing in the world. It is called once before a person is
	// asked, concurrently, and should return within a second; ctx ends with the
	// call. The zero Preview means that no more is known than the arguments say.
	Preview(ctx context.Context, req *Request) (Preview, error)
}

// Preview is what a call would do.
type Preview struct {
	// Effects are short sentences in plain words, such as "writes 3 lines to
	// notes/today.md".
	Effects []string
	// Diff is what would change in a text, as a unified diff.
	Diff string
}
