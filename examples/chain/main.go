// Command chain runs tools one after the other. A step takes arguments from the
// values of earlier steps by Expr expressions, and may have a condition.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type text struct {
	Text string `json:"text"`
}

type counted struct {
	Words int `json:"words"`
}

type number struct {
	N int `json:"n"`
}

func count(_ context.Context, in text) (counted, error) {
	return counted{Words: len(strings.Fields(in.Text))}, nil
}

func double(_ context.Context, in number) (int, error) { return in.N * 2, nil }

func main() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "text:count", "Count the words of a text.", count); err != nil {
		log.Fatal(err)
	}
	if err := room.Register(r, "math:double", "Double a number.", double); err != nil {
		log.Fatal(err)
	}

	result := r.Chain(ctx, toolroom.Call{}, []toolroom.Step{
		{Tool: "text:count", Arguments: toolroom.Args{"text": "three short words"}.JSON()},
		{Tool: "math:double", Map: map[string]string{"n": "previous.words"}},
		{Tool: "math:double", Map: map[string]string{"n": "previous"}, If: "previous > 10"},
		{Tool: "math:double", Map: map[string]string{"n": "steps[0].words + steps[1]"}},
	})
	for _, step := range result.Steps {
		if step.Skipped {
			fmt.Println(step.Tool, "skipped")
			continue
		}
		fmt.Println(step.Tool, step.Result.Text())
	}
	fmt.Println(result.Status, string(result.Value))
}
