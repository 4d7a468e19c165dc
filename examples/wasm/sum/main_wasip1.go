// Command sum adds up its arguments by calling a tool, and returns the sum.
// It is compiled to WebAssembly:
//
//	GOOS=wasip1 GOARCH=wasm go build -ldflags "-s -w" -o sum.wasm ./examples/wasm/sum
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
	var sum bridge.Value = int64(0)
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		if sum, err = job.Call(ctx, "math:add", bridge.Map{{Key: "a", Value: sum}, {Key: "b", Value: n}}); err != nil {
			return err
		}
		fmt.Printf("+ %d = %v\n", n, sum)
	}
	return job.End(bridge.End{Value: sum})
}
