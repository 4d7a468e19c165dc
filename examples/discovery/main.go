// Command discovery finds tools by description and shows how to call them.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type message struct {
	To   string `json:"to" jsonschema:"address of the recipient"`
	Text string `json:"text" jsonschema:"what to say"`
}

type place struct {
	City string `json:"city" jsonschema:"name of the city"`
}

func send(context.Context, message) (string, error)   { return "sent", nil }
func forecast(context.Context, place) (string, error) { return "sunny", nil }

func main() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "mail:send", "Send a message to somebody.", send); err != nil {
		log.Fatal(err)
	}
	if err := room.Register(r, "weather:forecast", "Tell the weather of tomorrow.", forecast); err != nil {
		log.Fatal(err)
	}

	// The result depends on the caller. The zero Identity is the local operator.
	me := toolroom.Identity{}
	for _, hit := range r.Search(me, "what is the weather", room.SearchOptions{}).Hits {
		fmt.Println(hit.ID)
	}

	// Empty level and form mean the defaults.
	d, err := r.Describe(ctx, me, "weather:forecast", "", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Call)
	fmt.Println(d.Required, d.Types)
}
