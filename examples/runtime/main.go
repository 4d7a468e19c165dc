// Command runtime runs three programs under limits, and prints how each ended and which
// limits its engine enforced.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

func main() {
	// The room starts this program again as the worker of its engine.
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
	r, err := room.Open(ctx, room.Options{Helper: self})
	if err != nil {
		return err
	}
	defer r.Close()
	for _, code := range []string{
		`return 6 * 7`,
		`for (;;) {}`,
		`const all = []; for (;;) all.push(new Uint8Array(1 << 20))`,
	} {
		result, err := r.Execute(ctx, toolroom.Call{}, toolroom.Program{
			Language: "javascript", Engine: "js", Code: code,
			TimeoutMS: 2000, MemoryBytes: 64 << 20,
		})
		if err != nil {
			return err
		}
		if result.Error != nil {
			fmt.Println(result.Status, result.Error.Code)
			continue
		}
		held := result.Execution.Held
		fmt.Println(result.Status, result.Text(), "on", result.Execution.Engine,
			"time limited:", held["wall"] != "", "memory limited:", held["memory"] != "")
	}
	return nil
}
