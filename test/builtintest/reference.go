package builtintest

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/browser"
	"github.com/toolroom/toolroom/internal/builtin/file"
	"github.com/toolroom/toolroom/internal/builtin/git"
	"github.com/toolroom/toolroom/internal/builtin/google"
	"github.com/toolroom/toolroom/internal/builtin/k8s"
	"github.com/toolroom/toolroom/internal/builtin/media"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/builtin/storage"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/builtin/web"
)

// Packs returns all packs, for their definitions only: their tools cannot be called.
func Packs() builtin.Packs {
	s := shell.New(shell.Options{})
	return builtin.Packs{
		file.Pack(file.Options{}, nil), s.Pack(nil), s.ProcessPack(nil), web.Pack(web.Options{}), git.Pack(s, nil), memory.Pack("", nil),
		browser.Pack(browser.Options{}), system.CronPack(system.CronOptions{}), message.Pack(nil), system.SessionPack(system.SessionOptions{}), storage.Pack(storage.Options{}), k8s.Pack(k8s.Options{}), media.Pack(media.Options{}), google.Pack(google.Options{}),
	}
}

// Optional reports whether a pack is off unless the config has a section for it.
func Optional(pack string) bool {
	return slices.Contains([]string{"storage", "k8s", "media", "google"}, pack)
}

// Tools returns the definitions of all built-in tools.
func Tools() ([]toolroom.Tool, error) {
	var all []toolroom.Tool
	for _, p := range Packs() {
		all = append(all, p.List()...)
	}
	info, err := system.Tools("")
	for _, f := range info {
		all = append(all, f.Tool)
	}
	return all, err
}

// WriteTools writes the definitions in the format of toolroom bench search.
func WriteTools(w io.Writer) error {
	tools, err := Tools()
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	for _, t := range tools {
		line := map[string]any{"id": t.ID.String(), "name": t.ID.Name, "description": t.Title + ". " + t.Description, "schema": t.InputSchema, "tags": slices.Concat(t.Tags, t.Keywords)}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// introductions holds the introduction of each pack, in Markdown with links relative to docs.
//
//go:embed introductions/*.md
var introductions embed.FS

// Markdown returns the reference of the packs.
func Markdown() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Built-in tools\n" +
		"<!-- Made by: go run ./test/builtindocs > docs/builtins.md -->\n\n" +
		"Toolroom has built-in tools, in packs. They are on if you start Toolroom as a program; `builtin: {off: true}` turns all packs off,\n" +
		"`builtin: {shell: {off: true}}` turns one off. A Go program that embeds a room turns them on with `room.Options.Workspace` or the\n" +
		"section `builtin`. Policy, approvals and receipts apply to them as to any other tool. The profiles `minimal`, `messaging`, `coding`\n" +
		"and `full` include them by name (`tools: {profile: coding}`). `toolroom doctor` says what a pack lacks. Settings are in\n" +
		"[config.md](config.md#builtin).\n")
	for _, p := range Packs() {
		introduction, err := introductions.ReadFile("introductions/" + p.Name + ".md")
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s\n%s", p.Name, introduction)
		for _, t := range p.List() {
			if err := writeTool(&b, t); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// jsonSchema is the part of a JSON Schema that the reference shows.
type jsonSchema struct {
	Type        any                   `json:"type"`
	Description string                `json:"description"`
	Default     json.RawMessage       `json:"default"`
	Enum        []string              `json:"enum"`
	Properties  json.RawMessage       `json:"properties"`
	Required    []string              `json:"required"`
	Items       *jsonSchema           `json:"items"`
	members     []string              // names of Properties in their order
	parts       map[string]jsonSchema // Properties
}

func parse(raw json.RawMessage) (jsonSchema, error) {
	var s jsonSchema
	if err := json.Unmarshal(raw, &s); err != nil || len(s.Properties) == 0 {
		return s, err
	}
	if err := json.Unmarshal(s.Properties, &s.parts); err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return s, nil // the end: it has been read before
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if depth == 1 {
				s.members = append(s.members, t)
				var skip json.RawMessage
				if err := d.Decode(&skip); err != nil {
					return s, err
				}
			}
		}
	}
}

func writeTool(b *bytes.Buffer, t toolroom.Tool) error {
	fmt.Fprintf(b, "\n### %s\n%s\n", t.ID, t.Description)
	input, err := parse(t.InputSchema)
	if err != nil {
		return err
	}
	if len(input.members) > 0 {
		b.WriteString("\n| argument | type | default | what |\n|---|---|---|---|\n")
	}
	for _, name := range input.members {
		p := input.parts[name]
		fallback := string(p.Default)
		if slices.Contains(input.Required, name) {
			fallback = "required"
		}
		what := p.Description
		if len(p.Enum) > 0 {
			what += " (" + strings.Join(p.Enum, ", ") + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, typeName(p), fallback, strings.ReplaceAll(what, "|", `\|`))
	}
	output, err := parse(t.OutputSchema)
	if err != nil {
		return err
	}
	var members []string
	for _, name := range output.members {
		members = append(members, "`"+name+"`")
	}
	fmt.Fprintf(b, "\nReturns %s. Hints: %s.\n", strings.Join(members, ", "), hints(t.Hints))
	if len(t.Examples) > 0 {
		fmt.Fprintf(b, "```\ntoolroom call %s '%s'\n```\n", t.ID, strings.ReplaceAll(string(t.Examples[0].Arguments), "'", `'\''`))
	}
	return nil
}

func typeName(s jsonSchema) string {
	name := fmt.Sprint(s.Type)
	if s.Items != nil {
		name += " of " + fmt.Sprint(s.Items.Type)
	}
	return cmp.Or(name, "any")
}

func hints(h toolroom.Hints) string {
	var words []string
	if h.IsReadOnly() {
		words = append(words, "reads only")
	} else if h.IsDestructive() {
		words = append(words, "may destroy")
	} else {
		words = append(words, "changes, without destroying")
	}
	if h.IsOpenWorld() {
		words = append(words, "may reach outside")
	}
	return strings.Join(words, ", ")
}
