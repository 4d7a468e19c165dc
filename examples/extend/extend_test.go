package extend_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/examples/extend"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

// The test's own binary is the guest.
func TestMain(m *testing.M) {
	if code, ok := room.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func ExampleGreeter() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	if err := r.AddSource("greet", &extend.Greeter{Namespace: "greet"}, room.SourceOptions{}); err != nil {
		panic(err)
	}
	result := r.Run(ctx, toolroom.Call{Tool: "greet:hello", Arguments: toolroom.Args{"name": "Ann"}.JSON()})
	fmt.Println(result.Status, result.Text())
	// Output: ok Hello, Ann
}

func TestTheSourceKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, sourcetest.Config{
		Open:      func(*testing.T) source.Source { return &extend.Greeter{Namespace: "greet"} },
		Namespace: "greet",
		Good:      sourcetest.Call{Tool: "hello", Arguments: `{"name": "Ann"}`, Want: `"Hello, Ann"`},
		Skip:      sourcetest.Skip{Failing: "hello does not fail", Slow: "hello is done at once"},
	})
}

func ExampleWrapper() {
	ctx := context.Background()
	self, err := os.Executable() // calls room.RunHelper, so it is the guest
	if err != nil {
		panic(err)
	}
	r, err := room.Open(ctx, room.Options{
		Helper:  self,
		Drivers: []sandbox.Driver{extend.Wrapper{Command: []string{"env"}}},
	})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	result, err := r.Execute(ctx, toolroom.Call{}, toolroom.Program{Language: "sh", Code: "echo hello", Runtime: "wrapper", BestEffort: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Status, result.Execution.Engine, result.Execution.Isolation)
	// Output: ok wrapper wrapper
}

// echoHandler is the server's side of a run: it answers every call with its id.
type echoHandler struct{ bridge.Handler }

func (echoHandler) Call(_ context.Context, tool string, _ bridge.Map) (bridge.Value, error) {
	return "called " + tool, nil
}

func ExampleLines() {
	result, err := extend.Lines{}.Run(context.Background(), engine.Job{
		Program: bridge.Program{Language: "lines", Source: "system:info\nnotes:list\n", Limits: bridge.Limits{Wall: 1000}},
	}, echoHandler{})
	fmt.Println(result.Outcome.Value, err)
	// Output: [called system:info called notes:list] <nil>
}

// Each page of docs/extend shows the code of its file here, from the first type to
// the end.
func TestThePagesShowThisCode(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"source", "driver", "engine"} {
		code, err := os.ReadFile(name + ".go")
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "extend", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, shown, _ := strings.Cut(string(code), ")\n\n")
		if !strings.Contains(string(page), "```go\n"+shown+"```\n") {
			t.Errorf("docs/extend/%s.md does not show the code of examples/extend/%s.go as it is now: copy all of it that comes after the imports", name, name)
		}
	}
}
