package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flags that may be given without a text, and numbers whose zero is one like others.
var (
	mayBeEmpty = []string{"arg", "comment", "description", "error", "expect", "input", "message", "stdin"}
	mayBeZero  = []string{"context", "cursor", "max-per-secret", "offset", "port", "sample", "uses"}
)

// checkGiven refuses flags that say nothing: an empty text, most often of an unset variable of
// a shell, and zero, if that stands for the default. A restriction that says nothing would be
// none.
func checkGiven(c *cobra.Command) error {
	var wrong []error
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case isText(f) && saysNothing(f) && !slices.Contains(mayBeEmpty, f.Name):
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

func isText(f *pflag.Flag) bool {
	return slices.Contains([]string{"string", "stringSlice", "stringArray"}, f.Value.Type())
}

// saysNothing reports whether a text, or one in a list of texts, is empty.
func saysNothing(f *pflag.Flag) bool {
	texts := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		texts = list.GetSlice()
	}
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.TrimSpace(text) == "" })
}
