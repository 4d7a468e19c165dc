package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
)

func (a *cli) callCommand() *cobra.Command {
	var who caller
	var stream bool
	c := &cobra.Command{
		Use:   "call ID [KEY=VALUE… | '{JSON}' | @FILE | -]",
		Short: "Call a tool",
		Long: `Call a tool with arguments.

  key=text      a value of the type in the tool's schema: a string, 1, true, [1, 2]
  key=a key=b   an array
  a.b=1         the member b of the object a
  key=@file     the text of a file (@- is stdin)
  key:=json     JSON, regardless of the schema

or all arguments as one JSON object: as text, from @file, or from - (stdin).`,
		Example: `  toolroom call filesystem:read_text_file path=README.md
  toolroom call github:create_issue '{"title": "Broken"}' --json
  toolroom call petstore:addPet @pet.json --key order-17`,
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeCall,
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			call, err := who.call()
			if err != nil {
				return err
			}
			if err := r.CheckEnvironment(call.Environment); err != nil {
				return err
			}
			call.Tool = args[0]
			if err := a.rejectBackgroundProcess(ctx, r, call); err != nil {
				return err
			}
			if call.Arguments, err = a.callArguments(ctx, r, call, args[1:]); err != nil {
				return a.recordRefusal(ctx, r, call, a.hintNoSources(r, call.Tool, err))
			}
			return a.runCall(ctx, r, call, stream)
		}),
	}
	who.flags(c)
	who.keyFlag(c)
	a.jsonFlag(c, "print the complete result as JSON")
	c.Flags().BoolVar(&stream, "stream", false, "print output while the tool runs, and the result only if there was none; with --json, one event per line")
	return c
}

// recordRefusal records the receipt of a call whose arguments could not be parsed, and returns
// err.
func (a *cli) recordRefusal(ctx context.Context, r *app.App, call toolroom.Call, err error) error {
	if _, ok := errors.AsType[*usageError](err); ok {
		return err // such as a file that does not exist
	}
	r.Parts().Runner.Refuse(ctx, call, err)
	return err
}

// callArguments parses the words after the tool according to its schema.
func (a *cli) callArguments(ctx context.Context, r *app.App, call toolroom.Call, args []string) (json.RawMessage, error) {
	return a.parseArguments(args, func() (*toolroom.Description, error) {
		return r.DescribeFor(ctx, call, toolroom.LevelSchema, toolroom.FormCLI)
	})
}

// parseArguments parses the words after a tool according to the schema in its description.
func (a *cli) parseArguments(args []string, describe func() (*toolroom.Description, error)) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if isDocument(args) {
		return a.documentArguments(strings.TrimSpace(args[0]))
	}
	d, err := describe()
	if err != nil {
		return nil, err
	}
	object, err := parseWords(args, d.InputSchema, a.document)
	if err != nil && toolroom.CodeOf(err) == toolroom.CodeInvalidArguments {
		e := *toolroom.AsError(err)
		e.Hint += "\ntoolroom describe " + d.ID
		return nil, &e
	}
	return object, err
}

// rejectBackgroundProcess returns an error if the call would start a background process in a
// room that ends with this command.
func (a *cli) rejectBackgroundProcess(ctx context.Context, r *app.App, call toolroom.Call) error {
	if a.shared != nil {
		return nil
	}
	tool, _ := r.ToolFor(ctx, call)
	if tool == nil || tool.Source != toolroom.SourceBuiltin || tool.ID.Unversioned().String() != "process:start" {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeUnsupported, "no server runs on this home, so the process would end with this command").
		WithHint("start one, then call again: toolroom serve\nor run the command to its end: toolroom call shell:exec")
}

// hintNoSources adds a hint to the error about an unknown tool if its source is disabled, or the
// room has no sources.
func (a *cli) hintNoSources(r *app.App, tool string, err error) error {
	if toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return err
	}
	e := *toolroom.AsError(err)
	if namespace, _, _ := strings.Cut(tool, ":"); r.Config().Sources[namespace].Disabled {
		e.Hint, e.CLIHint = fmt.Sprintf("the source %s is disabled: toolroom sources enable %[1]s", namespace), ""
		return &e
	}
	if len(r.Sources()) > 0 {
		return err
	}
	if strings.Contains(e.CLIHint, "toolroom tool ") { // the tool is there, and not served
		return err
	}
	file, why := "", fs.ErrNotExist
	if a.shared == nil {
		file, why = config.Find(a.configFile, a.Dir, a.UserConfig)
	}
	switch {
	case a.shared != nil:
		e.Hint += "\nthe running server has no sources: toolroom sources list"
	case why != nil:
		e.Hint += fmt.Sprintf("\nthere is no config in %s, so no sources: toolroom init, or --config FILE", a.Dir)
	default:
		e.Hint += fmt.Sprintf("\n%s has no sources: toolroom sources add", file)
	}
	e.Hint = strings.TrimPrefix(e.Hint, "\n")
	return &e
}

// runCall runs a call and prints its result. With stream it prints the tool's output
// instead, and the result only if there was no output.
func (a *cli) runCall(ctx context.Context, r *app.App, call toolroom.Call, stream bool) error {
	w := newWatcher(ctx, a, r)
	w.noWait = call.NoWait
	defer w.close()
	var result *toolroom.Result
	printed := a.asJSON
	done := a.screen.showActivity("calling " + call.Tool)
	defer done()
	for e := range r.Stream(ctx, call) {
		if e.Kind != toolroom.EventCalled {
			done() // from here on the events say what happens
		}
		if e.Final() {
			result = e.Result
		}
		var err error
		switch {
		case stream && a.asJSON:
			err = a.screen.jsonLine(e)
		case stream && e.Kind == toolroom.EventChunk:
			err = a.screen.chunk(e.Chunk)
			printed = true
		}
		if err != nil {
			return err
		}
		w.watch(e)
	}
	if result == nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the call of %s ended without a result", call.Tool)
	}
	if result.Error != nil {
		result.Error = toolroom.AsError(a.hintNoSources(r, call.Tool, result.Error))
	}
	if a.asJSON && !stream {
		if err := a.screen.json(result); err != nil {
			return err
		}
	}
	command := "toolroom call"
	if call.Surface == "test" {
		command = "toolroom tool test"
	}
	return a.reportResult(command, result, printed)
}

// reportResult prints a result for a person and returns its error as an exit code. command is
// the command line that calls the tool, without arguments.
func (a *cli) reportResult(command string, r *toolroom.Result, printed bool) error {
	shown := !printed && (r.Error == nil || r.Error.Code == toolroom.CodeInvalidOutput || r.Error.Code == toolroom.CodeExecutionFailed && !strings.Contains(r.Error.Message, strings.TrimSpace(r.Text())))
	if shown {
		if err := a.printResult(r); err != nil {
			return err
		}
	}
	if r.Error == nil {
		return nil
	}
	message := r.Error.Message
	if shown {
		message = withoutOutput(message, r)
	}
	a.screen.fail(message, typedHints(command, r.Error))
	return exitCode(r.Error.Code.Info().Exit)
}

// withoutOutput returns the message of a failed call without the tool's output, because that
// has been printed.
func withoutOutput(message string, r *toolroom.Result) string {
	head, rest, ok := strings.Cut(message, " failed: ")
	output := strings.Join(strings.Fields(r.Text()), " ")
	if !ok || r.Error.Code != toolroom.CodeExecutionFailed || !strings.HasPrefix(output, strings.TrimSuffix(rest, "…")) {
		return message
	}
	return head + " failed"
}

// typedHints returns the hints of an error. It writes an example of valid arguments as a person
// types them after command.
func typedHints(command string, e *toolroom.Error) string {
	example, ok := e.Details["example"]
	args, err := jsonx.Marshal(example)
	if !ok || err != nil || e.Code != toolroom.CodeInvalidArguments || e.Tool == "" {
		return hintsOf(e)
	}
	lead, _, _ := strings.Cut(e.Hint, "this would be accepted: ")
	return lead + "this would be accepted: " + command + strings.TrimPrefix(catalog.ShellCall(e.Tool, args), "toolroom call")
}

// valueRepeatsContent reports whether the value of a result repeats its content, none of which
// is text. The value of an image, for example, is its base64.
func valueRepeatsContent(r *toolroom.Result) bool {
	var parts []toolroom.Content
	if len(r.Content) == 0 || json.Unmarshal(r.Value, &parts) != nil || len(parts) != len(r.Content) {
		return false
	}
	for i, c := range r.Content {
		if c.Type == toolroom.ContentText || parts[i].Type != c.Type || !bytes.Equal(parts[i].Data, c.Data) {
			return false
		}
	}
	return true
}

func (a *cli) printResult(r *toolroom.Result) error {
	inOrder := a.screen.outTerminal && slices.ContainsFunc(r.Content, func(c toolroom.Content) bool { return c.Type == toolroom.ContentText })
	if !inOrder && (!a.screen.outTerminal || !valueRepeatsContent(r)) { // a person is told of each part below
		if err := a.screen.text(r.Text()); err != nil {
			return err
		}
	}
	for _, c := range r.Content {
		switch {
		case c.Type == toolroom.ContentText:
			if !inOrder {
				continue
			}
			if err := a.screen.text(c.Text); err != nil {
				return err
			}
		case len(c.Data) > 0:
			a.screen.say("[%s %s, %s; --json prints it]", c.Type, c.MIMEType, formatSize(int64(len(c.Data))))
		case c.Type == toolroom.ContentResource && c.Text != "":
			if err := a.screen.text(c.Text); err != nil {
				return err
			}
		default:
			a.screen.say("[%s %s %s]", c.Type, c.MIMEType, c.URI)
		}
	}
	if len(r.Content) == 0 && len(r.Value) == 0 && r.Error == nil {
		a.screen.say("the call has succeeded and returned no content")
	}
	a.warn(r.Warnings)
	switch {
	case r.Hidden == nil:
	case r.Hidden.Handle == "":
		a.screen.say("%d bytes are not shown and were not stored", r.Hidden.Bytes)
	default:
		a.screen.say("%d bytes are not shown: toolroom artifact read %s", r.Hidden.Bytes, r.Hidden.Handle)
	}
	return nil
}

// warn prints the warnings of a result.
func (a *cli) warn(warnings []toolroom.Warning) {
	for _, w := range warnings {
		a.screen.say("warning: %s", w.Message)
	}
}

// progressLine describes the progress of a call for a person.
func progressLine(tool string, p *toolroom.Progress) string {
	line := tool
	switch {
	case p.Total > 0:
		line += fmt.Sprintf(" %.0f%%", 100*p.Done/p.Total)
	case p.Done > 0:
		line += fmt.Sprintf(" %g", p.Done)
	}
	if p.Message != "" {
		line += " " + p.Message
	}
	return line
}
