package guest

import "slices"

// Languages returns the languages whose interpreter is in the sandbox, according to
// has. The guest runs commands and WebAssembly modules in any sandbox.
func Languages(has func(program string) bool) []string {
	var found []string
	for _, l := range interpreted {
		if slices.ContainsFunc(l.programs, has) {
			found = append(found, l.language)
		}
	}
	return found
}

// interpreted are the languages that need an interpreter in the sandbox, and its
// possible names in order of preference.
var interpreted = []struct {
	language string
	programs []string
}{
	{"python", []string{"python3", "python"}},
	{"javascript", []string{"node", "deno"}},
	{"shell", []string{"sh"}},
}

// programs returns the names of a language's interpreters.
func programs(language string) []string {
	for _, l := range interpreted {
		if l.language == language {
			return l.programs
		}
	}
	return nil
}
