package effects

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// conventions reads the arguments of a tool that declares nothing by their names, and by
// what their values look like, wherever they stand. What is not a path after all does no
// harm: it is one effect too many.
func (s *set) conventions(arguments json.RawMessage) {
	if !mayTell(arguments) {
		return
	}
	args, ok := decode(arguments)
	if !ok {
		s.effects = everything()
		return
	}
	s.object(args)
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// telling are parts of all names, and of all values, that conventions are about, by
// their first letter.
var telling = [256][]string{
	'a': {"argv", "addr"}, 'b': {"bash"}, 'c': {"cwd", "command", "cmd"}, 'd': {"dir", "domain", "dest", "dst"}, 'e': {"endpoint", "exec"},
	'f': {"file", "folder"}, 'h': {"href", "host"}, 'l': {"location"}, 'n': {"name"}, 'p': {"path", "program", "peer", "proxy"}, 'r': {"run"}, 's': {"sql", "statement", "source", "src", "shell", "script", "server", "site"},
	't': {"target"}, 'u': {"url", "uri"}, 'w': {"webhook"},
}

// mayTell reports whether arguments can hold a name that tells something. Most hold none,
// and need not be taken apart. It looks at them as names are looked at: in lower case and
// without what separates words; a value that looks like something has separators. Two
// letters beyond ASCII, K and İ, have an ASCII letter for their lower case: their UTF-8
// begins as is compared here.
func mayTell(arguments []byte) bool {
	if len(arguments) > 0 && arguments[0] != '{' {
		return true
	}
	var room [512]byte
	plain := room[:0]
	text := false // inside a string
	for _, c := range arguments {
		switch {
		case c == '"':
			text = !text
		case text && (c == ' ' || c == '/' || c == '~' || c == '.' || c == ':'):
			return true // a value may look like something
		case c == '_' || c == '-' || c == '.':
			continue
		case c == '\\' || c == "\u212a"[0] || c == "\u0130"[0]:
			return true
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		plain = append(plain, c)
	}
	for i, c := range plain {
		for _, part := range telling[c] {
			if rest := plain[i:]; len(rest) >= len(part) && string(rest[:len(part)]) == part {
				return true
			}
		}
	}
	return false
}

func (s *set) object(object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		key := strings.ToLower(separators.Replace(name))
		if line, ok := value.(string); ok && isCommand(key) {
			s.commandOf(line, object)
			continue
		}
		s.named(key, value)
	}
}

// named reads the value of an argument by its name.
func (s *set) named(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		s.object(v)
	case []any:
		if isCommand(key) && len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { _, text := e.(string); return !text }) {
			s.argv(v)
			// Each may be a command line too; a single word is more likely an argument.
			for _, element := range v {
				for _, e := range s.shell(element.(string)) {
					if e.Target != "" || strings.ContainsAny(element.(string), " \t\n;|&$`") {
						s.note(e)
					}
				}
			}
			return
		}
		for _, element := range v {
			s.named(key, element)
		}
	case string:
		s.text(key, v)
	}
}

func (s *set) text(key, v string) {
	var found []toolroom.Effect
	switch {
	case v == "":
	case isCommand(key):
		found = s.shell(v)
	case hasSuffix(key, "sql", "sqlquery", "statement", "statements"):
		found = ReadSQL(v)
	case isURL(v) && hasPrefixFold(v, "file:"):
		found = []toolroom.Effect{{Kind: toolroom.EffectFile, Target: v}}
	case isURL(v), hasSuffix(key, "url", "urls", "uri", "endpoint", "href", "webhook", "host", "hostname", "domain") && !strings.ContainsAny(v, " \n"):
		found = []toolroom.Effect{{Kind: toolroom.EffectHost, Target: v}}
	case hasSuffix(key, "server", "address", "addr", "site", "peer", "proxy", "remote", "origin", "hosts", "servers", "domains") && looksLikeHost(v):
		found = []toolroom.Effect{{Kind: toolroom.EffectHost, Target: v}}
	case hasSuffix(key, "path", "paths", "file", "files", "filename", "filenames", "dir", "directory", "directories", "folder", "cwd"),
		hasSuffix(key, "source", "src", "destination", "dest", "dst", "target", "location", "name") && strings.ContainsAny(v, `/\~%`) && !strings.Contains(v, "\n"):
		found = []toolroom.Effect{{Kind: toolroom.EffectFile, Target: v}}
	default:
		s.looks(v)
	}
	for _, e := range found {
		s.note(e)
	}
}

// commandOf reads a command line, and the program of that name with the list of
// arguments beside it.
func (s *set) commandOf(line string, object map[string]any) {
	for _, name := range []string{"args", "arguments", "argv", "params", "parameters", "options", "flags"} {
		if list, ok := object[name].([]any); ok {
			s.argv(append([]any{line}, list...))
		}
	}
	for _, e := range s.shell(line) {
		s.note(e)
	}
}

func isCommand(key string) bool {
	return strings.Contains(key, "command") || strings.Contains(key, "cmd") || strings.Contains(key, "shell") ||
		hasSuffix(key, "bash", "argv", "exec", "execute", "script", "program", "executable", "run")
}

func hasSuffix(key string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(key, suffix) })
}

// isURL reports whether a whole text is an address.
func isURL(v string) bool {
	return (hasPrefixFold(v, "http://") || hasPrefixFold(v, "https://") || hasPrefixFold(v, "file:") || hasPrefixFold(v, "ws://") || hasPrefixFold(v, "wss://")) &&
		!strings.ContainsAny(v, " \n\t")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
