package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// yamlForm is YAML with a mapping of servers at the key. Its lines are edited.
type yamlForm struct{ key string }

func (f yamlForm) decode(text []byte) (servers, rest map[string]any, err error) {
	root := map[string]any{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.Unmarshal(text, &root); err != nil {
			return nil, nil, err
		}
	}
	return nested(root, []string{f.key})
}

// nodes returns the key and the mapping of the servers; nil if there is none.
func (f yamlForm) nodes(text []byte) (root, key, servers *yaml.Node, err error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, nil, nil, err
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, nil, nil, nil
	}
	root = document.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == f.key {
			return root, root.Content[i], root.Content[i+1], nil
		}
	}
	return root, nil, nil, nil
}

func (f yamlForm) servers(text []byte) ([]string, error) {
	_, _, servers, err := f.nodes(text)
	if err != nil || servers == nil || servers.Kind != yaml.MappingNode {
		return nil, err
	}
	var names []string
	for i := 0; i+1 < len(servers.Content); i += 2 {
		var e struct{ Type string }
		if err := servers.Content[i+1].Decode(&e); err == nil && !slices.Contains(partsOfGoose, e.Type) {
			names = append(names, servers.Content[i].Value)
		}
	}
	return names, nil
}

// partsOfGoose are the types of extensions that are no MCP servers.
var partsOfGoose = []string{"builtin", "platform", "frontend", "inline_python"}

func (f yamlForm) add(text []byte, name string, value any) ([]byte, error) {
	was, err := yaml.Dump(map[string]any{name: value}, yaml.WithIndent(2))
	if err != nil {
		return nil, err
	}
	return f.put(text, name, was)
}

func (f yamlForm) put(text []byte, name string, was []byte) ([]byte, error) {
	return edit(f, text, name, func() ([]byte, error) {
		_, key, servers, err := f.nodes(text)
		if err != nil {
			return nil, err
		}
		lines := strings.SplitAfter(string(text), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		} else {
			lines[len(lines)-1] += "\n"
		}
		switch {
		case key == nil:
			return []byte(strings.Join(lines, "") + f.key + ":\n" + indented(was, defaultIndent)), nil
		case len(servers.Content) == 0: // empty, perhaps {}
			line := strings.TrimRight(lines[key.Line-1], "\r\n")
			comment := ""
			if at := strings.Index(line, " #"); at >= 0 {
				comment = line[at:]
			}
			lines[key.Line-1] = f.key + ":" + comment + "\n"
			return []byte(strings.Join(lines[:key.Line], "") + indented(was, defaultIndent) + strings.Join(lines[key.Line:], "")), nil
		case servers.Style&yaml.FlowStyle != 0 || servers.Kind != yaml.MappingNode:
			return nil, fmt.Errorf("%s is not a block of lines", f.key)
		}
		last := servers.Content[len(servers.Content)-2]
		_, end := extent(lines, last)
		indent := strings.Repeat(" ", last.Column-1)
		return []byte(strings.Join(lines[:end], "") + indented(was, indent) + strings.Join(lines[end:], "")), nil
	})
}

func (f yamlForm) remove(text []byte, name string) (out, was []byte, err error) {
	out, err = edit(f, text, name, func() ([]byte, error) {
		_, _, servers, err := f.nodes(text)
		if err != nil || servers == nil {
			return text, err
		}
		lines := strings.SplitAfter(string(text), "\n")
		for i := 0; i+1 < len(servers.Content); i += 2 {
			if key := servers.Content[i]; key.Value == name {
				start, end := extent(lines, key)
				was = []byte(dedented(lines[start:end], key.Column-1))
				return []byte(strings.Join(lines[:start], "") + strings.Join(lines[end:], "")), nil
			}
		}
		return text, nil
	})
	return out, was, err
}

// extent returns the lines of an entry: from its key to the last line that is indented more.
// Blank lines and comments behind it are not among them.
func extent(lines []string, key *yaml.Node) (start, end int) {
	start = key.Line - 1
	end = start + 1
	for i := start + 1; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		depth := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		if trimmed != "" && depth < key.Column {
			break
		}
		if trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			end = i + 1
		}
	}
	return start, end
}

func indented(text []byte, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(string(text), "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			line = indent + line
		}
		b.WriteString(line)
	}
	return b.String()
}

func dedented(lines []string, n int) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line[min(n, len(line)-len(strings.TrimLeft(line, " "))):])
	}
	return b.String()
}
