package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/room"
)

func (a *app) callCommand() *cobra.Command {
	var who caller
	var asJSON, stream bool
	c := &cobra.Command{
		Use:   "call ID [KEY=VALUE… | '{JSON}' | @FILE | -]",
		Short: "Call a tool",
		Long: `Call a tool with arguments.

  key=text      as the tool's schema types it: a string, or a number, true, [1, 2]
  key=a key=b   an array
  a.b=1         the member b of the object a
  key=@file     the text of a file (@- is stdin)
  key:=json     JSON, whatever the schema says

or all arguments as one JSON object: as text, from @file, or from - (stdin).`,
		Example: `  toolroom call filesystem:read_text_file path=README.md
  toolroom call github:create_issue '{"title": "Broken"}' --json
  toolroom call petstore:addPet @pet.json --key order-17`,
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeCall,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			call, err := who.call()
			if err != nil {
				return err
			}
			call.Tool = args[0]
			if call.Arguments, err = a.callArguments(ctx, r, call, args[1:]); err != nil {
				return err
			}
			return a.runCall(ctx, r, call, asJSON, stream)
		}),
	}
	who.flags(c)
	who.keyFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole result envelope")
	c.Flags().BoolVar(&stream, "stream", false, "print what the tool sends while it runs, its result only if that is nothing; with --json, one event a line")
	return c
}

// callArguments reads the words after the tool as its schema types them.
func (a *app) callArguments(ctx context.Context, r *room.Room, call toolroom.Call, args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if isDocument(args) {
		return a.documentArguments(strings.TrimSpace(args[0]))
	}
	d, err := r.Describe(ctx, call.Identity, call.Tool, catalog.LevelSchema, catalog.FormCLI)
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

// runCall runs a call and prints its result. With stream it prints what the
// tool sends instead, and the result only where that was nothing.
func (a *app) runCall(ctx context.Context, r *room.Room, call toolroom.Call, asJSON, stream bool) error {
	w := newWatcher(ctx, a, r)
	w.noWait = call.NoWait
	defer w.close()
	var result *toolroom.Result
	printed := asJSON
	for e := range r.Stream(ctx, call) {
		if e.Final() {
			result = e.Result
		}
		var err error
		switch {
		case stream && asJSON:
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
	if asJSON && !stream {
		if err := a.screen.json(result); err != nil {
			return err
		}
	}
	return a.conclude(result, printed)
}

// conclude prints a result for a person, and its error for everyone.
func (a *app) conclude(r *toolroom.Result, printed bool) error {
	if !printed && (r.Error == nil || r.Error.Code == toolroom.CodeExecutionFailed && !strings.Contains(r.Error.Message, strings.TrimSpace(r.Text()))) {
		if err := a.printResult(r); err != nil {
			return err
		}
	}
	if r.Error == nil {
		return nil
	}
	a.screen.fail(r.Error.Message, r.Error.Hint)
	return exitCode(r.Error.Code.Info().Exit)
}

func (a *app) printResult(r *toolroom.Result) error {
	if err := a.screen.text(r.Text()); err != nil {
		return err
	}
	for _, c := range r.Content {
		switch {
		case c.Type == toolroom.ContentText:
		case len(c.Data) > 0:
			a.screen.say("[%s %s, %s; --json prints it]", c.Type, c.MIMEType, size(int64(len(c.Data))))
		case c.Type == toolroom.ContentResource && c.Text != "":
			if err := a.screen.text(c.Text); err != nil {
				return err
			}
		default:
			a.screen.say("[%s %s %s]", c.Type, c.MIMEType, c.URI)
		}
	}
	if r.Hidden != nil {
		a.screen.say("%d bytes are not shown: toolroom artifact read %s", r.Hidden.Bytes, r.Hidden.Handle)
	}
	return nil
}

// progressLine is how far a call has come, for a person.
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
