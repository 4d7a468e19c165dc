package consent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Untrusted is the error for a config that the user has not agreed to.
type Untrusted struct {
	File File
	// Last is what the user agreed to before the config changed, or nil.
	Last *File
}

// Error says which config is not trusted, and what it would do or what is new in it.
func (e *Untrusted) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("you have not trusted %s, which is in the working folder.%s", e.File.Path, e.File.Summary.text("It would start", "It would connect to", "It would set", maxShort))
	}
	return fmt.Sprintf("%s has changed since you trusted it.%s", e.File.Path, e.Changes(maxShort))
}

// Unwrap makes the error one of code denied.
func (e *Untrusted) Unwrap() error {
	return toolroom.Errorf(toolroom.CodeDenied, "the config %s is not trusted", e.File.Path).
		WithCLIHint("toolroom trust, after you have read it")
}

// Numbers of lines for each kind of fact.
const (
	maxShort = 8
	// MaxLong is for a person who decides.
	MaxLong = 200
)

// Describe returns what the config does, or what has changed.
func (e *Untrusted) Describe() string {
	if e.Last != nil {
		return e.Changes(MaxLong)
	}
	return e.File.Summary.text("It would start", "It would connect to", "It would set", MaxLong)
}

// Changes returns what is new, what is changed and what is gone, with at most the given
// number of lines of each kind.
func (e *Untrusted) Changes(most int) string {
	added, gone := e.File.Summary.Without(e.Last.Summary), e.Last.Summary.Without(e.File.Summary)
	changed := Summary{
		changedLines(&added.Starts, &gone.Starts),
		changedLines(&added.Hosts, &gone.Hosts),
		changedLines(&added.Rules, &gone.Rules),
	}
	text := added.text("New: it would start", "New: it would connect to", "New: it would set", most) +
		changed.text("Changed: it would start", "Changed: it would connect to", "Changed: it would set", most) +
		gone.text("Gone: start", "Gone: connect to", "Gone: set", most)
	var files []string
	for _, path := range slices.Sorted(maps.Keys(e.File.Files)) {
		if last, ok := e.Last.Files[path]; !ok || last != e.File.Files[path] {
			files = append(files, path)
		}
	}
	text += list("Changed files", files, most)
	if text == "" {
		return "\nOnly comments, their order or hidden values have changed."
	}
	return text
}

// changedLines moves the lines "key: value" whose key is in both lists into one line,
// "key: old → new". A key that is in a list twice stays where it is.
func changedLines(added, gone *[]string) (changed []string) {
	once := func(lines []string, key string) (value string, ok bool) {
		for _, line := range lines {
			if k, v, _ := strings.Cut(line, ": "); k == key {
				if ok {
					return "", false
				}
				value, ok = v, true
			}
		}
		return value, ok
	}
	moved := map[string]bool{}
	for _, line := range *added {
		key, _, _ := strings.Cut(line, ": ")
		now, inAdded := once(*added, key)
		was, inGone := once(*gone, key)
		if inAdded && inGone {
			changed = append(changed, key+": "+was+" → "+now)
			moved[key] = true
		}
	}
	isMoved := func(line string) bool {
		key, _, _ := strings.Cut(line, ": ")
		return moved[key]
	}
	*added, *gone = slices.DeleteFunc(*added, isMoved), slices.DeleteFunc(*gone, isMoved)
	return changed
}

// text lists the facts below a title for each kind.
func (s Summary) text(starts, hosts, rules string, most int) string {
	return list(starts, s.Starts, most) + list(hosts, s.Hosts, most) + list(rules, s.Rules, most)
}

func list(title string, lines []string, most int) string {
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n" + title + ":")
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more", len(lines)-most)
			break
		}
		b.WriteString("\n  " + line)
	}
	return b.String()
}

func changedFile(path string) error {
	return toolroom.Errorf(toolroom.CodeDenied, "%s has changed since you trusted the config that names it", path).
		WithCLIHint("toolroom trust, after you have read it")
}

func damaged(path string, err error) error {
	return toolroom.Errorf(toolroom.CodeInternal, "the record of trusted configs %s is damaged: %w", path, err).
		WithCLIHint("remove it, and trust your configs again: toolroom trust")
}
