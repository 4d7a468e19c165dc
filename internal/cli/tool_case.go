package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolCaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "case",
		Short:   "Manage saved cases",
		Example: "  toolroom tool case add double half x=21 --expect 42\n  toolroom tool case add --from CALL",
	}
	requireSubcommand(c)
	c.AddCommand(a.toolCaseAddCommand(), a.toolCaseListCommand(), a.toolCaseRemoveCommand())
	return c
}

func (a *cli) toolCaseAddCommand() *cobra.Command {
	var from, name, expectText, schema, assert, fails, fakes string
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "add TOOL NAME [KEY=VALUE…] | --from CALL [--name NAME]",
		Short: "Save a case: arguments and the expected outcome",
		Example: `  toolroom tool case add double half x=21 --expect 42
  toolroom tool case add double big x=1000 --assert "value > 999"
  toolroom tool case add --from call_01JD`,
		Args: arguments(0, -1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			var expect *string // an empty text is expected, too
			if c.Flags().Changed("expect") {
				expect = &expectText
			}
			made := &release.Case{Author: a.author(), Assert: assert, Error: toolroom.Code(fails), Schema: json.RawMessage(schema)}
			if fakes != "" {
				text := []byte(fakes)
				if path, ok := strings.CutPrefix(fakes, "@"); ok || fakes == "-" {
					var err error
					if text, err = a.document(path); err != nil {
						return err
					}
				}
				if err := jsonx.UnmarshalKnown(text, &made.Fakes, jsonx.Limits{Bytes: maxDocument}); err != nil {
					return usage(`toolroom tool case add double half x=21 --fakes '[{"tool": "math:add", "arguments": {"a": 1}, "value": 2}]'`, "--fakes is not a list of fakes: %v", err)
				}
			}
			var err error
			switch {
			case from != "":
				err = a.fillCaseFromCall(ctx, r, made, from, name, expect)
			case len(args) < 2:
				return usage("toolroom tool case add double half x=21 --expect 42", "name the tool and the case, or use --from CALL")
			case strings.Contains(args[1], "=") || isDocument(args[1:2]):
				return usage("toolroom tool case add "+args[0]+" NAME "+shellWord(args[1]), "the name of the case is missing: %q is an argument", args[1])
			default:
				err = a.fillCase(ctx, r, made, args, expect)
			}
			if err != nil {
				return err
			}
			if err := r.Parts().Releases.AddCase(ctx, made); err != nil {
				return err
			}
			a.screen.say("saved case %q of %s; run it: toolroom tool test %s", made.Name, made.Tool, made.Tool)
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "make a case of this call: its arguments, its value and the results of the calls that it made")
	f.StringVar(&name, "name", "", "with --from: name of the case (default: the call's id)")
	f.StringVar(&expectText, "expect", "", "exact value: JSON, or text if the tool returns text")
	f.StringVar(&schema, "schema", "", "JSON Schema that the value must match")
	f.StringVar(&assert, "assert", "", "condition on value and arguments, as an Expr expression")
	f.StringVar(&fakes, "fakes", "", "results for the calls that the tool makes: JSON, or @FILE")
	f.StringVar(&fails, "error", "", "error code that the call must fail with")
	return c
}

// fillCase sets the tool, name, arguments and expected value of a case from the command line.
func (a *cli) fillCase(ctx context.Context, r *app.App, made *release.Case, args []string, expect *string) error {
	s, tool, number, err := findTool(ctx, r, args[0])
	if err != nil {
		return err
	}
	v, err := s.Pick(ctx, tool, number)
	if err != nil {
		return err
	}
	if expect != nil {
		if made.Expect, err = parseValue("--expect", *expect, v.Spec.OutputSchema); err != nil {
			return err
		}
	}
	made.Tool, made.Name = tool, args[1]
	if rest := args[2:]; len(rest) > 0 {
		if isDocument(rest) {
			made.Arguments, err = a.documentArguments(strings.TrimSpace(rest[0]))
		} else {
			made.Arguments, err = parseWords(rest, v.Spec.InputSchema, a.document)
		}
	}
	return err
}

// fillCaseFromCall fills a case from the receipt of a call. The outcome that the command line
// names takes precedence.
func (a *cli) fillCaseFromCall(ctx context.Context, r *app.App, made *release.Case, call, name string, expect *string) error {
	s := r.Parts().Releases
	recorded, unrecorded, err := s.CaseOf(ctx, call)
	if err != nil {
		return err
	}
	if expect != nil {
		v, err := s.Pick(ctx, recorded.Tool, 0)
		if err != nil {
			return err
		}
		if made.Expect, err = parseValue("--expect", *expect, v.Spec.OutputSchema); err != nil {
			return err
		}
	}
	if made.Assert == "" && made.Error == "" && len(made.Expect)+len(made.Schema) == 0 {
		made.Expect, made.ExpectHash, made.Error = recorded.Expect, recorded.ExpectHash, recorded.Error
	}
	made.Tool, made.Name, made.Arguments, made.From = recorded.Tool, cmp.Or(name, recorded.Name), recorded.Arguments, recorded.From
	if len(made.Fakes) == 0 {
		made.Fakes = recorded.Fakes
	}
	if len(unrecorded) > 0 {
		a.screen.say("the case makes real calls: the answers to %s are not recorded", strings.Join(unrecorded, ", "))
	}
	return nil
}

func (a *cli) toolCaseListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:   "list [TOOL]",
		Short: "List saved cases",
		Args:  arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool := r.Parts().Releases, ""
			if len(args) > 0 {
				var err error
				if s, tool, _, err = findTool(ctx, r, args[0]); err != nil {
					return err
				}
			}
			cases, err := s.Store.Cases(ctx, tool)
			if err == nil {
				cases, err = pageOf(a, &p, cases, func(c *release.Case) string { return c.Tool + "/" + c.Name })
			}
			if err != nil {
				return err
			}
			return showList(a, cases, "", []string{"TOOL", "CASE", "ARGUMENTS", "EXPECTED"}, func(one *release.Case) []string {
				return []string{one.Tool, one.Name, string(one.Arguments), describeExpected(one)}
			})
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func describeExpected(c *release.Case) string {
	var parts []string
	for _, part := range []struct{ word, text string }{
		{"", string(c.Expect)}, {"hash ", c.ExpectHash}, {"schema ", string(c.Schema)}, {"", c.Assert}, {"error ", string(c.Error)},
	} {
		if part.text != "" {
			parts = append(parts, part.word+part.text)
		}
	}
	return cmp.Or(strings.Join(parts, "; "), "success")
}

func (a *cli) toolCaseRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "remove TOOL NAME",
		SuggestFor: removalWords,
		Aliases:    []string{"rm"},
		Short:      "Remove a saved case",
		Args:       arguments(2, 2),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, _, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			if err := s.Store.RemoveCase(ctx, tool, args[1]); err != nil {
				return err
			}
			a.screen.say("removed case %q of %s", args[1], tool)
			return nil
		}),
	}
}
