// Command codemode runs one program instead of a dozen calls: it pages through
// the files of an MCP server, counts their words with a Go function, joins that
// with the output of a command-line program, and returns one table. The same
// program is written in Python and in TypeScript. With --stdio it serves the room over
// MCP instead of running them itself. Run it in this folder, on Linux; it needs
// git, python3, and mcp-folder on the PATH.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/serve"
)

type text struct {
	Text string `json:"text"`
}

func main() {
	// The room starts this program again as the guest in its sandboxes.
	if code, ok := room.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, err := room.Open(ctx, room.Options{ConfigFile: "toolroom.yaml", Helper: self})
	if err != nil {
		return err
	}
	defer r.Close()
	err = room.Register(r, "text:words", "Count the words of a text.", func(_ context.Context, in text) (int, error) {
		return len(strings.Fields(in.Text)), nil
	})
	if err != nil {
		return err
	}
	if err := r.Load(ctx); err != nil {
		return err
	}
	if len(os.Args) > 1 && os.Args[1] == "--stdio" {
		return serve.Stdio(ctx, r, os.Stdin, os.Stdout, serve.Options{Version: "1"})
	}
	for _, file := range []struct{ name, language string }{{"report.py", "python"}, {"report.ts", "typescript"}} {
		source, err := os.ReadFile(file.name)
		if err != nil {
			return err
		}
		result, err := r.Execute(ctx, toolroom.Call{}, toolroom.Program{
			Language: file.language, Code: string(source), Inputs: json.RawMessage(`{"least": 2}`),
		})
		if err != nil {
			return err
		}
		var rows []struct {
			File  string
			Words int
			Blob  string
		}
		if err := result.Decode(&rows); err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		fmt.Printf("%s made %d calls\n", file.name, len(result.Execution.Calls))
		for _, row := range rows {
			fmt.Println(row.File, row.Words, row.Blob)
		}
	}
	return nil
}
