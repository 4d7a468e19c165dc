package bridge_test

import (
	"context"
	"fmt"
	"net"

	"github.com/toolroom/toolroom/bridge"
)

// adder is a call handler with one tool.
type adder struct{ quiet }

func (adder) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	return arguments.Int("a") + arguments.Int("b"), nil
}

func (adder) Print(stream, text string) { fmt.Print(stream, ": ", text) }

// A guest that runs every program by adding two inputs with a tool.
func ExampleJoin() {
	host, stream := net.Pipe()
	go func() {
		g, err := bridge.Join(stream, bridge.GuestOptions{Name: "mine"})
		if err != nil {
			return
		}
		job, err := g.Next(context.Background())
		if err != nil {
			return
		}
		sum, err := job.Call(job.Context(), "math:add", job.Program.Inputs)
		if err != nil {
			_ = job.End(bridge.End{Failure: &bridge.Failure{Kind: bridge.FailProgram, Message: err.Error()}})
			return
		}
		_ = job.Print("stdout", "added\n")
		_ = job.End(bridge.End{Value: sum})
	}()
	conn, err := bridge.Accept(context.Background(), host, bridge.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	out, err := conn.Run(context.Background(), bridge.Program{
		Language: "mine", Inputs: bridge.Map{{Key: "a", Value: int64(1)}, {Key: "b", Value: int64(2)}},
	}, adder{})
	fmt.Println(out.Value, err)
	// Output:
	// stdout: added
	// 3 <nil>
}
