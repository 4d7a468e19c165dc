// Command streaming follows a call while it runs: progress, log lines, parts of the output,
// and at the end exactly one done or error.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type task struct {
	Steps int `json:"steps"`
}

// work reports its progress through its context.
func work(ctx context.Context, in task) (string, error) {
	room.Log(ctx, "info", "started")
	for i := 1; i <= in.Steps; i++ {
		room.Progress(ctx, float64(i), float64(in.Steps), "working")
		if err := room.Chunk(ctx, fmt.Sprintf("piece %d", i)); err != nil {
			return "", err
		}
	}
	return "finished", nil
}

func main() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "job:work", "Work for a while.", work); err != nil {
		log.Fatal(err)
	}

	// Leaving the loop early cancels the call.
	for e := range r.Stream(ctx, toolroom.Call{Tool: "job:work", Arguments: toolroom.Args{"steps": 2}.JSON()}) {
		switch e.Kind {
		case toolroom.EventProgress:
			fmt.Println("progress", e.Progress.Done, "of", e.Progress.Total)
		case toolroom.EventChunk:
			fmt.Println("chunk", string(e.Chunk))
		case toolroom.EventLog:
			fmt.Println("log", e.Log.Level, e.Log.Message)
		case toolroom.EventDone, toolroom.EventError:
			fmt.Println(e.Kind, e.Result.Text())
		default:
			fmt.Println(e.Kind, e.Tool)
		}
	}
}
