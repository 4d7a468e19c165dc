package room_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type pair struct{ A, B int }

// open opens a room with one tool, math:add.
func open(o room.Options) *room.Room {
	r, err := room.Open(context.Background(), o)
	if err != nil {
		panic(err)
	}
	err = room.Register(r, "math:add", "Add two numbers.", func(_ context.Context, in pair) (int, error) { return in.A + in.B, nil })
	if err != nil {
		panic(err)
	}
	return r
}

func ExampleRoom_Chain() {
	r := open(room.Options{})
	defer r.Close()
	result := r.Chain(context.Background(), toolroom.Call{}, []toolroom.Step{
		{Tool: "math:add", Arguments: toolroom.Args{"A": 1, "B": 2}.JSON()},
		{Tool: "math:add", Arguments: toolroom.Args{"A": 10}.JSON(), Map: map[string]string{"B": "previous"}},
	})
	fmt.Println(result.Status, string(result.Value))
	// Output: ok 13
}

func ExampleRoom_Search() {
	r := open(room.Options{})
	defer r.Close()
	found := r.Search(toolroom.Identity{}, "sum of numbers", room.SearchOptions{Limit: 1})
	fmt.Println(found.Hits[0].ID)
	// Output: math:add
}

func ExampleRoom_Stream() {
	r := open(room.Options{})
	defer r.Close()
	for e := range r.Stream(context.Background(), toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": 2, "B": 3}.JSON()}) {
		fmt.Println(e.Kind)
	}
	// Output:
	// called
	// done
}

func ExampleRoom_Receipts() {
	ctx := context.Background()
	r := open(room.Options{})
	defer r.Close()
	r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": 2, "B": 3}.JSON()})
	list, err := r.Receipts(ctx, toolroom.ReceiptQuery{Tool: "math:add"})
	if err != nil {
		panic(err)
	}
	for _, receipt := range list {
		fmt.Println(receipt.Tool, receipt.Status, receipt.Decision, receipt.Preview)
	}
	// Output: math:add ok allow 5
}

func ExampleRoom_Answer() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	config := filepath.Join(folder, "toolroom.yaml")
	if err := os.WriteFile(config, []byte("tools: {confirm: [\"math.*\"]}\n"), 0o600); err != nil {
		panic(err)
	}
	r := open(room.Options{ConfigFile: config})
	defer r.Close()

	call := toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"A": 2, "B": 3}.JSON(), NoWait: true}
	result := r.Run(ctx, call)
	fmt.Println(result.Error.Code)
	open, err := r.Approvals(ctx, toolroom.ApprovalPending)
	if err != nil {
		panic(err)
	}
	if _, err := r.Answer(ctx, open[0].ID, toolroom.Answer{Approve: true, By: "ann"}); err != nil {
		panic(err)
	}
	fmt.Println(r.Run(ctx, call).Text())
	// Output:
	// approval_required
	// 5
}

func ExampleRoom_Tools() {
	r := open(room.Options{})
	defer r.Close()
	page, err := r.Tools(toolroom.Identity{}, room.ListOptions{Namespace: "math"})
	if err != nil {
		panic(err)
	}
	for _, tool := range page.Tools {
		fmt.Println(tool.ID, tool.Description)
	}
	// Output: math:add Add two numbers.
}
