// Command basic registers a Go function and calls it. The schema of the arguments is
// inferred from the type; invalid arguments are refused with a hint.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type numbers struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b" jsonschema:"the second number"`
}

func add(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil }

func main() {
	ctx := context.Background()
	// The zero Options open a room in a temporary folder, which Close removes.
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "math:add", "Add two numbers.", add); err != nil {
		log.Fatal(err)
	}

	result := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"a": 2, "b": 3}.JSON()})
	fmt.Println(result.Status, result.Text())

	// Run always returns a result. A failure is an error in it.
	result = r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"a": "two"}.JSON()})
	fmt.Println(result.Status, result.Error.Code)
}
