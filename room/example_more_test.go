package room_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/source"
)

func add(a, b int) toolroom.Call {
	return toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": a, "B": b}.JSON()}
}

func ExampleRegisterTool() {
	r := open(room.Options{})
	defer r.Close()
	yes := true
	tool := toolroom.Tool{
		ID: toolroom.MustParseID("text:upper"), Description: "Make a text upper case.", Aliases: []string{"upper"},
		Hints: toolroom.Hints{ReadOnly: &yes},
	}
	type in struct {
		Text string `json:"text" jsonschema:"the text to change"`
	}
	err := room.RegisterTool(r, tool, func(_ context.Context, in in) (string, error) { return strings.ToUpper(in.Text), nil })
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Run(context.Background(), toolroom.Call{Tool: "upper", Arguments: toolroom.Args{"text": "milk"}.JSON()}).Text())
	// Output: MILK
}

// A mistake in the arguments is an error that says what to change.
func ExampleRoom_Run() {
	r := open(room.Options{})
	defer r.Close()
	result := r.Run(context.Background(), toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": "two", "B": 3}.JSON()})
	fmt.Println(result.Status, result.Error.Code, result.Error.Phase)
	// Output: error invalid_arguments validate_input
}

func ExampleRoom_Batch() {
	r := open(room.Options{})
	defer r.Close()
	for _, result := range r.Batch(context.Background(), []toolroom.Call{add(1, 2), add(3, 4)}, 2) {
		fmt.Println(result.Text())
	}
	// Output:
	// 3
	// 7
}

func ExampleRoom_Submit() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := open(room.Options{})
	defer r.Close()
	r.Start(ctx) // its worker runs background calls
	job, err := r.Submit(ctx, add(20, 22))
	if err != nil {
		panic(err)
	}
	result, err := r.Resume(ctx, job.ID, nil) // waits for the end
	fmt.Println(result.Text(), err)
	// Output: 42 <nil>
}

func ExampleRoom_Describe() {
	r := open(room.Options{})
	defer r.Close()
	d, err := r.Describe(context.Background(), toolroom.Identity{}, "math:add", toolroom.LevelSchema, "")
	if err != nil {
		panic(err)
	}
	fmt.Println(d.ID, string(d.InputSchema))
	// Output: math:add {"type":"object","properties":{"A":{"type":"integer"},"B":{"type":"integer"}},"required":["A","B"],"additionalProperties":false}
}

func ExampleRoom_OnChange() {
	r := open(room.Options{})
	defer r.Close()
	heard := make(chan toolroom.Change, 10)
	stop := r.OnChange(func(changes []toolroom.Change) {
		for _, c := range changes {
			heard <- c
		}
	})
	defer stop()
	r.Unregister("math:add")
	c := <-heard
	fmt.Println(c.Kind, c.ID)
	// Output: removed math:add
}

// A program that embeds a room can make a tool when somebody calls it.
func ExampleOptions_missing() {
	r := open(room.Options{Missing: func(_ context.Context, r *room.Room, name string) error {
		return room.Register(r, name, "Made when it was missed.", func(context.Context, struct{}) (string, error) { return "made " + name, nil })
	}})
	defer r.Close()
	fmt.Println(r.Run(context.Background(), toolroom.Call{Tool: "late:tool"}).Text())
	// Output: made late:tool
}

// rules opens a room with a config, and returns the path of its file.
func rules(text string) (r *room.Room, file string) {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(folder, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	return open(room.Options{ConfigFile: file}), file
}

func ExampleRoom_Explain() {
	r, file := rules(`tools: {deny: ["math.*"]}`)
	defer os.RemoveAll(filepath.Dir(file))
	defer r.Close()
	e, err := r.Explain(context.Background(), "math:add", toolroom.Identity{}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Verdict, e.Rule)
	// Output: deny tools.deny[0]: "math.*"
}

// A changed config applies from the next call on.
func ExampleRoom_Reload() {
	ctx := context.Background()
	r, file := rules(`tools: {deny: ["math.*"]}`)
	defer os.RemoveAll(filepath.Dir(file))
	defer r.Close()
	fmt.Println(r.Run(ctx, add(2, 3)).Status)
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		panic(err)
	}
	if err := r.Reload(); err != nil {
		panic(err)
	}
	fmt.Println(r.Run(ctx, add(2, 3)).Status)
	// Output:
	// denied
	// ok
}

// A result that is too long to show is cut, and stays readable as a whole.
func ExampleRoom_Artifact() {
	ctx := context.Background()
	r := open(room.Options{})
	defer r.Close()
	err := room.Register(r, "text:long", "Return a long text.", func(context.Context, struct{}) (string, error) {
		return strings.Repeat("many words ", 10_000), nil
	})
	if err != nil {
		panic(err)
	}
	result := r.Run(ctx, toolroom.Call{Tool: "text:long"})
	f, about, err := r.Artifact(ctx, toolroom.Identity{}, result.Hidden.Handle)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	whole, err := io.ReadAll(f)
	fmt.Println(result.Hidden.Bytes > 0, about.Size == int64(len(whole)), err)
	// Output: true true <nil>
}

func ExampleRoom_Doctor() {
	r := open(room.Options{})
	defer r.Close()
	for _, c := range r.Doctor(context.Background()) {
		if c.Status == toolroom.CheckFail {
			fmt.Println(c.Name, c.Detail, c.Fix)
		}
	}
	// Output:
}

func ExampleRoom_VerifyReceipts() {
	ctx := context.Background()
	r := open(room.Options{})
	defer r.Close()
	r.Run(ctx, add(1, 2))
	r.Run(ctx, add(3, 4))
	n, err := r.VerifyReceipts(ctx)
	fmt.Println(n, err)
	// Output: 2 <nil>
}

// clock is a source with one tool.
type clock struct{ source.Source }

func (clock) Tools(context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{{ID: toolroom.MustParseID("clock:zone"), Description: "Tell the time zone."}}, nil
}

func (clock) Call(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Value: []byte(`"UTC"`)}, nil
}

func (clock) Close() error { return nil }

func ExampleRoom_AddSource() {
	ctx := context.Background()
	r := open(room.Options{})
	defer r.Close()
	if err := r.AddSource("clock", clock{}, room.SourceOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(r.Run(ctx, toolroom.Call{Tool: "clock:zone"}).Text())
	// Output: UTC
}
