package shell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
)

// Terminal holds the arguments that ask for a terminal.
type Terminal struct {
	PTY     bool `json:"pty,omitempty" jsonschema:"run it in a terminal (pseudo-terminal): for programs that ask questions, or that print differently without a terminal"`
	Rows    int  `json:"rows,omitempty" jsonschema:"height of the terminal"`
	Columns int  `json:"columns,omitempty" jsonschema:"width of the terminal"`
}

const (
	defaultRows, defaultColumns = 24, 80
	maxSide                     = 1000
	// typeTime is how long typing waits for a program that does not read.
	typeTime   = 5 * time.Second
	endOfInput = 4 // Ctrl-D
)

// terminalProperties adds the schemas of the arguments in [Terminal].
func terminalProperties(all map[string]builtin.Property) map[string]builtin.Property {
	all["rows"] = builtin.Property{"minimum": 1, "maximum": maxSide, "default": defaultRows}
	all["columns"] = builtin.Property{"minimum": 1, "maximum": maxSide, "default": defaultColumns}
	return all
}

// open returns a terminal, or nil if none was asked for. A driver's sandbox opens the terminal
// inside, so ours and theirs are then a pipe to it.
func (t Terminal) open(inDriver bool) (*terminal, error) {
	if !t.PTY {
		return nil, nil
	}
	if inDriver {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		return &terminal{ours: write, theirs: read, typing: make(chan struct{}, 1), rows: cmp.Or(t.Rows, defaultRows), columns: cmp.Or(t.Columns, defaultColumns)}, nil
	}
	ours, theirs, err := proc.OpenTerminal(cmp.Or(t.Rows, defaultRows), cmp.Or(t.Columns, defaultColumns))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "terminals are not supported on this system").WithHint("leave pty out")
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "no terminal can be opened: %w", err).WithHint("leave pty out")
	}
	return &terminal{ours: ours, theirs: theirs, typing: make(chan struct{}, 1)}, nil
}

// terminal is a terminal in which a command runs.
type terminal struct {
	ours, theirs *os.File
	typing       chan struct{} // has one element while a text is typed
	// rows and columns are the size of a terminal in a driver's sandbox. Input that is written
	// to ours is read from theirs and typed into it.
	rows, columns int
}

// environ returns env with variables that describe the terminal.
func (t *terminal) environ(env []string) []string {
	for i, entry := range env {
		if entry == "TERM=dumb" { // the config has not set another
			env[i] = "TERM=xterm-256color"
		}
	}
	return env
}

// serve types the input and copies the output until the program's side is closed.
func (t *terminal) serve(wg *sync.WaitGroup, input []byte, out io.Writer) {
	t.theirs.Close()
	t.typing <- struct{}{} // before anything else is typed
	wg.Go(func() {
		defer func() { <-t.typing }()
		_, _ = t.ours.Write(input) // the command need not read it
	})
	wg.Go(func() {
		_, _ = io.Copy(out, t.ours) // it ends with an error when the last program has closed it
		t.ours.Close()
	})
}

// relayInput copies the input, and then everything that is typed, to a terminal in a driver's
// sandbox, until that is closed.
func (t *terminal) relayInput(wg *sync.WaitGroup, input []byte, inside io.WriteCloser) {
	t.typing <- struct{}{} // before anything else is typed
	wg.Go(func() {
		defer func() { <-t.typing }()
		_, _ = t.ours.Write(input) // the command need not read it
	})
	wg.Go(func() {
		defer inside.Close()
		_, _ = io.Copy(inside, t.theirs)
	})
}

func (t *terminal) close() {
	t.ours.Close()
	t.theirs.Close()
}

// typeText types a text into the terminal, and returns the number of bytes that the program
// took.
func (t *terminal) typeText(ctx context.Context, text []byte) (int, error) {
	until := time.Now().Add(typeTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case t.typing <- struct{}{}:
		defer func() { <-t.typing }()
	case <-timer.C:
		return 0, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := t.ours.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	release := context.AfterFunc(ctx, func() { _ = t.ours.SetWriteDeadline(time.Now()) }) // an error means that it is closed
	defer release()
	return t.ours.Write(text)
}

// WriteArgs are the arguments of process:write.
type WriteArgs struct {
	PID   int    `json:"pid" jsonschema:"process id"`
	Input string `json:"input" jsonschema:"what to type; a line ends with \\n, Ctrl-C is \\u0003, the end of input \\u0004; programs that read lines get at most 4095 bytes of one"`
}

// WriteResult is the value of process:write.
type WriteResult struct {
	PID        int   `json:"pid" jsonschema:"process id"`
	Bytes      int   `json:"bytes" jsonschema:"bytes that were typed"`
	NextOffset int64 `json:"next_offset" jsonschema:"offset for process:output, to read what is printed from now on"`
}

func (s *Shell) write() builtin.Tool {
	return builtin.MustTool(builtin.Spec[WriteArgs, WriteResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("process:write"), Title: "Type into a background process",
			Description: "Type or send text as keyboard input to an interactive program that process:start runs in a terminal (pty): answer its question, enter a line at its prompt, press Ctrl-C.",
			Hints:       builtin.Hints(false, true, true), Guarantee: toolroom.GuaranteeNever, Tags: []string{"process"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"pid": 4711, "input": "yes\n"})}},
		},
		Arguments: map[string]builtin.Property{"input": {"minLength": 1, "maxLength": 64 << 10}},
		Predict: func(req *source.Request, in WriteArgs) []toolroom.Effect {
			dir := ""
			if p, err := s.table.find(req, in.PID); err == nil {
				dir = p.cwd
			}
			// The program may be a shell, or do with it whatever it likes.
			return append(predictEffects(in.Input, dir), toolroom.Effect{Kind: toolroom.EffectDestroy})
		},
		Run: func(ctx context.Context, req *source.Request, in WriteArgs) (WriteResult, []toolroom.Content, error) {
			p, err := s.table.find(req, in.PID)
			if err != nil {
				return WriteResult{}, nil, err
			}
			t := p.started().terminal
			switch {
			case t == nil:
				return WriteResult{}, nil, toolroom.Errorf(toolroom.CodeConflict, "process %d has no terminal, and its input has ended", in.PID).
					WithHint("start it again with pty: process:start")
			case !p.isRunning():
				return WriteResult{}, nil, toolroom.Errorf(toolroom.CodeConflict, "process %d has ended", in.PID).WithHint("read its output: process:output")
			}
			out := WriteResult{PID: in.PID, NextOffset: p.log.size()}
			out.Bytes, err = t.typeText(ctx, []byte(in.Input))
			switch {
			case ctx.Err() != nil:
				return out, nil, ctx.Err()
			case errors.Is(err, os.ErrDeadlineExceeded):
				return out, nil, toolroom.Errorf(toolroom.CodeTimeout, "process %d reads no input: %d of %d bytes were typed", in.PID, out.Bytes, len(in.Input))
			case err != nil:
				return out, nil, toolroom.Errorf(toolroom.CodeConflict, "process %d has closed its terminal", in.PID)
			}
			return out, builtin.Text(fmt.Sprintf("Typed %d bytes into process %d.", out.Bytes, in.PID)), nil
		},
	})
}

// terminalInput returns the keys to type for a command that gets its whole input at once.
func terminalInput(stdin string) []byte {
	input := []byte(stdin)
	if len(input) > 0 && !bytes.HasSuffix(input, []byte("\n")) {
		input = append(input, endOfInput) // it hands over the last line
	}
	return append(input, endOfInput)
}
