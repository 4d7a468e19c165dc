package consent

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/config"
)

// Summary says what a config does, without secrets, one line for each fact.
type Summary struct {
	// Starts are the commands that it would start.
	Starts []string `json:"starts,omitempty"`
	// Hosts are the servers that it would connect to.
	Hosts []string `json:"hosts,omitempty"`
	// Rules are its other settings.
	Rules []string `json:"rules,omitempty"`
}

// Empty reports whether the config sets nothing.
func (s Summary) Empty() bool { return len(s.Starts)+len(s.Hosts)+len(s.Rules) == 0 }

// Without returns the lines of s that are not in last.
func (s Summary) Without(last Summary) Summary {
	less := func(lines, last []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(last, line) })
	}
	return Summary{less(s.Starts, last.Starts), less(s.Hosts, last.Hosts), less(s.Rules, last.Rules)}
}

// maxRule is the maximum length of a value in a line, in bytes.
const maxRule = 300

func summarize(c *config.Config) Summary {
	var s Summary
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		source := c.Sources[name]
		switch {
		case source.Disabled:
		case source.MCP != nil && source.MCP.Command != "":
			s.Starts = append(s.Starts, name+": "+commandLine(append([]string{source.MCP.Command}, source.MCP.Args...), source.MCP.Env, source.MCP.Cwd)+sandboxNote(source))
		case source.CLI != nil:
			s.Starts = append(s.Starts, name+": "+commandLine(append([]string{source.CLI.Command}, source.CLI.Args...), source.CLI.Env, source.CLI.Cwd)+sandboxNote(source))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Stores)) {
		if store := c.Secrets.Stores[name].Command; store != nil {
			s.Starts = append(s.Starts, "secrets."+name+": "+commandLine(append(slices.Clone(store.Argv), store.OwnArgv...), store.Env, ""))
		}
	}
	if runner := c.Code.Runtimes.Runner; runner != "" {
		s.Starts = append(s.Starts, "code.runtimes.runner: "+commandLine([]string{runner}, nil, ""))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Code.Runtimes.Programs)) {
		p := c.Code.Runtimes.Programs[name]
		s.Starts = append(s.Starts, "code.runtimes.programs."+name+": "+commandLine(append([]string{p.Command}, p.Args...), p.Env, ""))
	}
	for _, setting := range c.Settings() {
		key, value := setting.Key(), setting.Value
		if u, err := url.Parse(value); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "tcp") {
			s.Hosts = append(s.Hosts, key+": "+u.Scheme+"://"+u.Host+u.EscapedPath())
			continue
		}
		if isShownInStarts(setting.Path) && !c.Sources[setting.Path[1]].Disabled {
			continue
		}
		s.Rules = append(s.Rules, key+": "+displayValue(setting.Path[len(setting.Path)-1], value))
	}
	return s
}

// isShownInStarts reports whether a line of Starts already shows the setting.
func isShownInStarts(path []string) bool {
	if len(path) > 2 && path[0] == "code" && path[1] == "runtimes" {
		return path[2] == "runner" || len(path) > 4 && path[2] == "programs" && path[4] != "settings"
	}
	if len(path) < 4 || path[0] != "sources" || path[2] != "mcp" && path[2] != "cli" {
		return false
	}
	return slices.Contains([]string{"command", "args", "env", "cwd"}, path[3])
}

// sandboxNote returns the note that a source's program runs in a sandbox, or "" if it does
// not.
func sandboxNote(s config.Source) string {
	if s.Sandbox == nil {
		return ""
	}
	return " (in the sandbox " + s.Sandbox.Describe() + ")"
}

// commandLine returns a command as a shell would read it.
func commandLine(words []string, env map[string]string, cwd string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+quoteIfNeeded(displayValue(name, env[name])))
	}
	for i, word := range words {
		before := ""
		if i > 0 && strings.HasPrefix(words[i-1], "-") {
			before = words[i-1]
		}
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
			word = name + "=" + displayValue(name, value)
		} else {
			word = displayValue(before, word)
		}
		out = append(out, quoteIfNeeded(word))
	}
	line := strings.Join(out, " ")
	if cwd != "" {
		line += " (in " + cwd + ")"
	}
	return line
}

func quoteIfNeeded(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`;&|<>()*?[]{}#~!") {
		return word
	}
	return strconv.Quote(word)
}

// displayValue returns a value as a line shows it: secrets are hidden, and long values are
// truncated.
func displayValue(name, value string) string {
	if config.LooksSecret(name, value) {
		return "(hidden)"
	}
	value = strings.Join(strings.Fields(value), " ")
	if len(value) > maxRule {
		value = fmt.Sprintf("%s… (%d bytes, sha256 %s)", strings.ToValidUTF8(value[:maxRule], ""), len(value), digest([]byte(value))[:12])
	}
	return value
}
