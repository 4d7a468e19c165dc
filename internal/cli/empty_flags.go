package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	// mayBeEmpty are the flags whose text may be empty.
	mayBeEmpty = []string{"arg", "comment", "description", "error", "expect", "input", "message", "stdin"}
	// mayBeZero are the flags for which zero is an ordinary number, not the default.
	mayBeZero = []string{"context", "cursor", "max-per-secret", "offset", "port", "sample", "uses"}
)

// rejectEmptyFlags returns an error if a flag was given an empty text, most often from an unset
// variable of a shell, or a zero that stands for the default. An empty restriction would
// restrict nothing.
func rejectEmptyFlags(c *cobra.Command) error {
	var wrong []error
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case isTextFlag(f) && isEmptyFlag(f) && !slices.Contains(mayBeEmpty, f.Name):
			wrong = append(wrong, usage("leave --"+f.Name+" out, or give it a value", "--%s is empty", f.Name))
		case slices.Contains([]string{"0", "0s"}, f.DefValue) && f.Value.String() == f.DefValue && !slices.Contains(mayBeZero, f.Name):
			wrong = append(wrong, usage("leave --"+f.Name+" out for the default", "--%s must be more than 0", f.Name))
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	return wrong[0]
}

func isTextFlag(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice", "stringArray"}, f.Value.Type())
}

// isEmptyFlag reports whether a flag's text, or one in its list of texts, is empty.
func isEmptyFlag(f *pflag.Flag) bool {
	texts := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		texts = list.GetSlice()
	}
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.TrimSpace(text) == "" })
}
