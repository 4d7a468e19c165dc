package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/yamldate"
)

func (a *cli) chainCommand() *cobra.Command {
	var who caller
	var file, runtime string
	c := &cobra.Command{
		Use:   "chain {-f STEPS.json|STEPS.yaml | 'ID KEY=VALUE…' …}",
		Short: "Run a sequence of tool calls",
		Long: `Run tool calls one after another. The chain stops at the first failure.

Quote each step as one word: a tool and its arguments as for toolroom call.
With --previous, the step gets the value of the preceding step as its argument
"previous". A file can do more. Each of its steps has

  tool, arguments     as for toolroom call
  use_previous: true  as --previous
  map: {k: EXPR}      arguments from expressions over previous and steps, such as
                      steps[0], the value of the first step, or steps[0].size
  if: EXPR            skip the step unless EXPR is true
  retry: 2            number of retries after a failure
  continue_on_error: true
  timeout: 10s`,
		Example: `  toolroom chain 'git:log max_count=1' 'text:count_words --previous'
  toolroom chain -f release.yaml --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if (file == "") == (len(args) == 0) {
				return usage(`toolroom chain -f steps.yaml, or toolroom chain 'file:read path=a.txt' 'text:count --previous'`,
					"toolroom chain needs steps, either from a file or as words")
			}
			return nil
		},
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			call, err := who.call()
			if err == nil {
				err = r.CheckEnvironment(call.Environment)
			}
			if err != nil {
				return err
			}
			steps, err := a.chainSteps(ctx, r, call, file, args)
			if err != nil {
				return err
			}
			return a.runChain(ctx, r, call, steps, runtime)
		}),
	}
	who.flags(c)
	c.Flags().StringVarP(&file, "file", "f", "", "read the steps from a JSON or YAML file (- is stdin)")
	c.Flags().StringVar(&runtime, "runtime", "", "temporal runs the chain as a workflow that survives restarts")
	a.jsonFlag(c, "print the result of every step as JSON")
	return c
}

func (a *cli) chainSteps(ctx context.Context, r *app.App, as toolroom.Call, file string, args []string) ([]toolroom.Step, error) {
	if file != "" {
		data, err := a.document(file)
		if err != nil {
			return nil, err
		}
		steps, err := parseSteps(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return steps, nil
	}
	steps := make([]toolroom.Step, len(args))
	for i, arg := range args {
		step, words, err := parseStep(arg)
		if err == nil {
			as.Tool = step.Tool
			step.Arguments, err = a.callArguments(ctx, r, as, words)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		steps[i] = step
	}
	return steps, nil
}

// parseStep parses a step that is written as one word.
func parseStep(text string) (step toolroom.Step, arguments []string, err error) {
	fields, err := splitWords(text)
	if err != nil {
		return step, nil, err
	}
	for _, field := range fields {
		switch {
		case field == "--previous":
			step.UsePrevious = true
		case strings.HasPrefix(field, "--"):
			return step, nil, usage("toolroom chain --help", "a step cannot have %s", field)
		case step.Tool == "":
			step.Tool = field
		default:
			arguments = append(arguments, field)
		}
	}
	if step.Tool == "" {
		return step, nil, usage("toolroom chain 'file:read path=a.txt'", "the step names no tool")
	}
	return step, arguments, nil
}

// splitWords splits a text into words as a shell does: at white space outside of single and
// double quotes. Outside of single quotes, \ quotes the next character.
func splitWords(text string) ([]string, error) {
	var words []string
	var b strings.Builder
	var quote byte
	begun, escaped := false, false
	for i := range len(text) { // bytes, so that a text that is not UTF-8 is found to be none
		c := text[i]
		switch {
		case escaped:
			b.WriteByte(c)
			escaped = false
		case c == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '\'' || c == '"':
			begun, quote = true, c
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if begun {
				words = append(words, b.String())
				b.Reset()
			}
			begun = false
		default:
			begun = true
			b.WriteByte(c)
		}
	}
	if quote != 0 || escaped {
		return nil, usage("", "unclosed quote in %q", truncate(text, 60))
	}
	if begun {
		words = append(words, b.String())
	}
	return words, nil
}

// fileStep is a step in a file: as in the API, but with human-readable durations.
type fileStep struct {
	toolroom.Step
	Timeout duration `json:"timeout"`
}

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// parseSteps parses a list of steps in JSON or YAML.
func parseSteps(data []byte) ([]toolroom.Step, error) {
	var tree yaml.Node
	err := yaml.Unmarshal(data, &tree)
	if jsonx.Check(data, jsonx.Limits{Bytes: maxDocument}) != nil {
		var doc any
		if err == nil {
			yamldate.Keep(&tree)
			err = tree.Decode(&doc)
		}
		if err == nil {
			data, err = jsonx.Marshal(doc)
		}
		if err != nil {
			return nil, badSteps(err)
		}
	}
	if text := bytes.TrimSpace(data); !bytes.HasPrefix(text, []byte("[")) && !bytes.Equal(text, []byte("null")) {
		return nil, badSteps(errors.New("they are not a list"))
	}
	var list []json.RawMessage
	if err := jsonx.Unmarshal(data, &list, jsonx.Limits{Bytes: maxDocument}); err != nil {
		return nil, badSteps(err)
	}
	if len(list) == 0 {
		return nil, badSteps(errors.New("there are none"))
	}
	steps := make([]toolroom.Step, len(list))
	for i, text := range list {
		var s fileStep
		err := jsonx.UnmarshalKnown(text, &s, jsonx.Limits{Bytes: maxDocument})
		if err == nil && s.Tool == "" {
			err = errors.New("it names no tool")
		}
		if err != nil {
			return nil, badSteps(fmt.Errorf("step %d%s: %s", i+1, lineOf(&tree, i, err), strings.TrimPrefix(err.Error(), "json: ")))
		}
		steps[i] = s.Step
		steps[i].Timeout = time.Duration(s.Timeout)
	}
	return steps, nil
}

// lineOf returns the line of the key of a step that an error quotes, or else that of the step,
// or "" if the file is JSON that is not YAML.
func lineOf(file *yaml.Node, step int, err error) string {
	if len(file.Content) == 0 || step >= len(file.Content[0].Content) {
		return ""
	}
	node := file.Content[0].Content[step]
	line := node.Line
	for i := 0; node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
		if strings.Contains(err.Error(), strconv.Quote(node.Content[i].Value)) {
			line = node.Content[i].Line
			break
		}
	}
	return fmt.Sprintf(" (line %d)", line)
}

func badSteps(err error) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read the steps: %s", strings.TrimPrefix(err.Error(), "json: ")).
		WithHint(`write a list of steps: [{"tool": "file:read", "arguments": {"path": "a.txt"}}, …]`)
}

// chainOn runs a chain in this process or as a workflow.
func chainOn(ctx context.Context, r *app.App, runtime string, as toolroom.Call, steps []toolroom.Step, watch func(toolroom.Event)) (*toolroom.ChainResult, error) {
	switch runtime {
	case "":
		return r.Chain(run.WithSink(ctx, watch), as, steps), nil
	case "temporal":
		w, err := r.Workflows()
		if err != nil {
			return nil, err
		}
		return w.Chain(ctx, as, steps, watch)
	}
	return nil, usage("toolroom chain --runtime temporal -f steps.yaml", "unknown runtime for chains: %q", runtime)
}

func (a *cli) runChain(ctx context.Context, r *app.App, as toolroom.Call, steps []toolroom.Step, runtime string) error {
	w := newWatcher(ctx, a, r)
	w.noWait = as.NoWait
	defer w.close()
	result, err := chainOn(ctx, r, runtime, as, steps, w.watch)
	w.close()
	if err != nil {
		return err
	}
	if a.asJSON {
		if err := a.screen.json(result); err != nil {
			return err
		}
	}
	if result.Error != nil {
		done := 0
		for _, s := range result.Steps {
			if s.Result != nil && s.Result.Error == nil {
				done++
			}
		}
		if done > 0 && !a.asJSON {
			a.screen.say("%s completed before the failure; --json shows the result of each", count(done, "step"))
		}
		a.screen.fail(result.Error.Message, result.Error.Hints())
		return exitCode(result.Error.Code.Info().Exit)
	}
	if a.asJSON {
		return nil
	}
	var last *toolroom.Result
	for _, s := range result.Steps {
		if s.Result == nil {
			continue
		}
		if last != nil {
			a.warn(last.Warnings)
		}
		last = s.Result
	}
	if last == nil {
		return nil
	}
	return a.reportResult("toolroom call", last, false)
}
