// Command wasm is a program for the engine wasm: it adds up its arguments by
// calls of a tool, and gives the sum back.
//
//	GOOS=wasip1 GOARCH=wasm go build -ldflags "-s -w" -o sum.wasm ./examples/wasm
//	toolroom exec sum.wasm -- 1 2 3
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/toolroom/toolroom/bridge"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	job, err := bridge.Open(ctx)
	if err != nil {
		return err
	}
	var sum int64
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		value, err := job.Call(ctx, "math:add", bridge.Map{{Key: "a", Value: sum}, {Key: "b", Value: n}})
		if err != nil {
			return err
		}
		sum = value.(int64)
		fmt.Printf("+ %d = %d\n", n, sum)
	}
	return job.End(bridge.End{Value: sum})
}
