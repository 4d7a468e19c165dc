package guest

import "slices"

// Languages are those that the guest runs by a program of the sandbox, where has finds
// one by its name. Commands and modules of WebAssembly it runs anywhere.
func Languages(has func(program string) bool) []string {
	var found []string
	for _, l := range interpreted {
		if slices.ContainsFunc(l.programs, has) {
			found = append(found, l.language)
		}
	}
	return found
}

// interpreted are the languages that need a program of the sandbox, which is looked
// for in this order.
var interpreted = []struct {
	language string
	programs []string
}{
	{"python", []string{"python3", "python"}},
	{"javascript", []string{"node", "deno"}},
	{"shell", []string{"sh"}},
}

// programs are those that may run a language.
func programs(language string) []string {
	for _, l := range interpreted {
		if l.language == language {
			return l.programs
		}
	}
	return nil
}
