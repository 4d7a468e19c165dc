package effects

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// readByConvention reads the arguments of a tool that declares no effects: it goes by their
// names and by the form of their values, at every depth. A value that is mistaken for a path
// does no harm: it is one effect too many.
func (c *collector) readByConvention(arguments json.RawMessage) {
	if !mayMatchConvention(arguments) {
		return
	}
	args, ok := decodeArguments(arguments)
	if !ok {
		c.effects = everyKind()
		return
	}
	c.readObject(args)
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// conventionParts are, by first letter, strings of which every name that the conventions
// know contains at least one.
var conventionParts = [256][]string{
	'a': {"argv", "addr"}, 'b': {"bash"}, 'c': {"cwd", "command", "cmd"}, 'd': {"dir", "domain", "dest", "dst"}, 'e': {"endpoint", "exec"},
	'f': {"file", "folder"}, 'h': {"href", "host"}, 'l': {"location"}, 'n': {"name"}, 'p': {"path", "program", "peer", "proxy"}, 'r': {"run"}, 's': {"sql", "statement", "source", "src", "shell", "script", "server", "site"},
	't': {"target"}, 'u': {"url", "uri"}, 'w': {"webhook"},
}

// mayMatchConvention reports whether arguments can hold a name or value that the conventions
// know. Most hold none, and need not be decoded. It compares as readObject does: in lower
// case and without separators. A value of a known form has a space or separator. Two letters
// beyond ASCII, K and İ, have an ASCII letter as their lower case; they are recognized by
// their first byte in UTF-8.
func mayMatchConvention(arguments []byte) bool {
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
			return true // the value may have a known form
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
		for _, part := range conventionParts[c] {
			if rest := plain[i:]; len(rest) >= len(part) && string(rest[:len(part)]) == part {
				return true
			}
		}
	}
	return false
}

func (c *collector) readObject(object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		key := strings.ToLower(separators.Replace(name))
		if line, ok := value.(string); ok && isCommandKey(key) {
			c.readCommandWithArgs(line, object)
			continue
		}
		c.readArgument(key, value)
	}
}

// readArgument reads the value of an argument by its name.
func (c *collector) readArgument(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		c.readObject(v)
	case []any:
		if isCommandKey(key) && len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { _, text := e.(string); return !text }) {
			c.readArgv(v)
			// Each element may also be a command line; a single word is more likely an argument.
			for _, element := range v {
				for _, e := range c.readCommandLine(element.(string)) {
					if e.Target != "" || strings.ContainsAny(element.(string), " \t\n;|&$`") {
						c.addNormalized(e)
					}
				}
			}
			return
		}
		for _, element := range v {
			c.readArgument(key, element)
		}
	case string:
		c.readText(key, v)
	}
}

func (c *collector) readText(key, v string) {
	var found []toolroom.Effect
	switch {
	case v == "":
	case isCommandKey(key):
		found = c.readCommandLine(v)
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
		c.readByLooks(v)
	}
	for _, e := range found {
		c.addNormalized(e)
	}
}

// readCommandWithArgs reads a command line, and also as the name of a program whose
// arguments are a list in the same object.
func (c *collector) readCommandWithArgs(line string, object map[string]any) {
	for _, name := range []string{"args", "arguments", "argv", "params", "parameters", "options", "flags"} {
		if list, ok := object[name].([]any); ok {
			c.readArgv(append([]any{line}, list...))
		}
	}
	for _, e := range c.readCommandLine(line) {
		c.addNormalized(e)
	}
}

func isCommandKey(key string) bool {
	return strings.Contains(key, "command") || strings.Contains(key, "cmd") || strings.Contains(key, "shell") ||
		hasSuffix(key, "bash", "argv", "exec", "execute", "script", "program", "executable", "run")
}

func hasSuffix(key string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(key, suffix) })
}

// isURL reports whether the whole of v is a URL.
func isURL(v string) bool {
	return (hasPrefixFold(v, "http://") || hasPrefixFold(v, "https://") || hasPrefixFold(v, "file:") || hasPrefixFold(v, "ws://") || hasPrefixFold(v, "wss://")) &&
		!strings.ContainsAny(v, " \n\t")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
