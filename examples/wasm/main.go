// Command wasm runs a WebAssembly module that calls a tool of this program:
// sum.wasm, which is built from the folder sum, with the numbers to add up.
//
//	GOOS=wasip1 GOARCH=wasm go build -ldflags "-s -w" -o sum.wasm ./examples/wasm/sum
//	go run ./examples/wasm sum.wasm 1 2 3
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

func main() {
	// The room starts this program again as the worker that runs modules.
	if code, ok := room.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if len(os.Args) < 2 {
		log.Fatal("usage: wasm sum.wasm NUMBER…")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, arguments []string) error {
	module, err := room.ReadModule(path)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, err := room.Open(ctx, room.Options{Helper: self})
	if err != nil {
		return err
	}
	defer r.Close()
	err = room.Register(r, "math:add", "Add two numbers.", func(_ context.Context, in pair) (int, error) { return in.A + in.B, nil })
	if err != nil {
		return err
	}
	if err := r.Load(ctx); err != nil {
		return err
	}
	result, err := r.Execute(ctx, toolroom.Call{}, toolroom.Program{Language: "wasm", Module: module, Command: arguments})
	if err != nil {
		return err
	}
	if result.Error != nil {
		return result.Error
	}
	fmt.Print(result.Execution.Stdout)
	fmt.Printf("%d calls gave %s\n", len(result.Execution.Calls), result.Value)
	return nil
}
