package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

func (a *cli) describeCommand() *cobra.Command {
	var who caller
	var level, form string
	c := &cobra.Command{
		Use:   "describe ID",
		Short: "Show what a tool does and how to call it",
		Example: `  toolroom describe filesystem:read_text_file
  toolroom describe github:create_issue --level full --form mcp --json`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(toolCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if err := oneOf("--form", form, string(toolroom.FormCLI), string(toolroom.FormMCP), string(toolroom.FormCode), string(toolroom.FormPython)); err != nil {
				return err
			}
			if err := oneOf("--level", level, string(toolroom.LevelSummary), string(toolroom.LevelSchema), string(toolroom.LevelFull)); err != nil {
				return err
			}
			seer, err := who.viewer(r)
			if err != nil {
				return err
			}
			d, err := r.Describe(ctx, seer, args[0], toolroom.Level(level), toolroom.Form(form))
			if err != nil {
				return a.hintNoSources(r, args[0], err)
			}
			return show(a, d, a.printDescription)
		}),
	}
	c.Flags().StringVar(&level, "level", string(toolroom.LevelSchema), "summary, schema or full")
	c.Flags().StringVar(&form, "form", string(toolroom.FormCLI), "form of the example call: cli, mcp, code or python")
	a.jsonFlag(c, "print JSON")
	who.identityFlags(c)
	who.environmentFlag(c)
	completeValues(c, "level", "summary", "schema", "full")
	completeValues(c, "form", "cli", "mcp", "code", "python")
	return c
}

// oneOf checks that a flag has one of a few values.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	near, ok := nearestOrPrefix(value, allowed)
	if !ok {
		near = allowed[0]
	}
	return usage(flag+" "+near, "invalid value for %s: %q (allowed: %s)", flag, value, strings.Join(allowed, ", "))
}

func (a *cli) printDescription(d *toolroom.Description) error {
	var providers string
	if len(d.Providers) > 1 {
		providers = fmt.Sprintf("%s (served by %s)", strings.Join(d.Providers, ", "), d.ServedBy)
	}
	err := a.screen.fields(
		"tool", d.ID,
		"title", d.Title,
		"what", cmp.Or(d.Text, d.Summary),
		"source", string(d.Source),
		"version", string(d.Version),
		"repeat", describeGuarantee(d.Guarantee),
		"hints", describeHints(d.Hints),
		"tags", strings.Join(d.Tags, ", "),
		"aliases", strings.Join(d.Aliases, ", "),
		"providers", providers,
		"problem", d.Problem,
		"arguments", argumentList(d),
		"output", indentJSON(d.OutputSchema),
		"notes", d.Notes,
		"examples", exampleList(d.Examples),
		"call", d.Call,
	)
	return err
}

// describeGuarantee describes in words whether a call may be repeated.
func describeGuarantee(g toolroom.Guarantee) string {
	switch g {
	case toolroom.GuaranteeKeyed:
		return "safe with the same --key"
	case toolroom.GuaranteeNever:
		return "may act twice if the same call is repeated"
	}
	return string(g)
}

// argumentList describes each argument on its own line, required ones first.
func argumentList(d *toolroom.Description) string {
	s := shapeOf(d.InputSchema)
	names := slices.Sorted(maps.Keys(d.Types))
	required := map[string]bool{}
	for _, name := range d.Required {
		required[name] = true
	}
	slices.SortStableFunc(names, func(x, y string) int {
		return rank(required[x]) - rank(required[y])
	})
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s  %s", name, d.Types[name])
		if required[name] {
			b.WriteString(", required")
		}
		if value, ok := d.Defaults[name]; ok {
			fmt.Fprintf(&b, ", default %s", compactJSON(value))
		}
		member, _ := s.member(name)
		if text := member.description(); text != "" {
			b.WriteString("  " + oneLine(text))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func rank(required bool) int {
	if required {
		return 0
	}
	return 1
}

func compactJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// indentJSON returns JSON indented for a person. It writes <, > and & unescaped, unlike
// encoding/json.
func indentJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return jsonEscapes.ReplaceAllStringFunc(b.String(), func(escape string) string {
		switch strings.ToLower(escape) {
		case `\u003c`:
			return "<"
		case `\u003e`:
			return ">"
		case `\u0026`:
			return "&"
		}
		return escape
	})
}

// jsonEscapes matches each escape in JSON. It matches an escaped backslash as a whole, so that
// the text after it is not taken for an escape.
var jsonEscapes = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

func describeHints(h *toolroom.Hints) string {
	if h == nil {
		return ""
	}
	var words []string
	add := func(flag *bool, yes, no string) {
		switch {
		case flag == nil:
		case *flag:
			words = append(words, yes)
		default:
			words = append(words, no)
		}
	}
	add(h.ReadOnly, "read-only", "writes")
	add(h.Destructive, "destructive", "not destructive")
	add(h.Idempotent, "idempotent", "not idempotent")
	add(h.OpenWorld, "open world", "closed world")
	return strings.Join(words, ", ")
}

func exampleList(examples []toolroom.Example) string {
	var b strings.Builder
	for _, e := range examples {
		if text := cmp.Or(e.Title, e.Description); text != "" {
			b.WriteString(oneLine(text) + ": ")
		}
		b.WriteString(string(e.Arguments) + "\n")
	}
	return b.String()
}
