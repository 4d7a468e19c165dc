package room_test

import (
	"context"
	"fmt"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

func Example() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()

	type numbers struct{ A, B int }
	err = room.Register(r, "math:add", "Add two numbers.", func(_ context.Context, in numbers) (int, error) {
		return in.A + in.B, nil
	})
	if err != nil {
		panic(err)
	}
	result := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": 2, "B": 3}.JSON()})
	fmt.Println(result.Status, result.Text())
	// Output: ok 5
}
