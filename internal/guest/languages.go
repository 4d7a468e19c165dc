package guest

import "slices"

// Languages returns the languages whose interpreter is in the sandbox, according to
// has. The guest runs commands and WebAssembly modules in any sandbox.
func Languages(has func(program string) bool) []string {
	var found []string
	for _, l := range interpretersByLanguage {
		if slices.ContainsFunc(l.programs, has) {
			found = append(found, l.language)
		}
	}
	return found
}

// interpretersByLanguage are the languages that need an interpreter in the sandbox, and its
// possible names in order of preference.
var interpretersByLanguage = []struct {
	language string
	programs []string
}{
	{"python", []string{"python3", "python"}},
	{"javascript", []string{"node", "deno"}},
	{"shell", []string{"sh"}},
}

// interpreterNames returns the names of a language's interpreters.
func interpreterNames(language string) []string {
	for _, l := range interpretersByLanguage {
		if l.language == language {
			return l.programs
		}
	}
	return nil
}
