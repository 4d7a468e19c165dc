// Command full reads toolroom.yaml beside it, adds a Go function to the sources
// that the file names, finds and calls both kinds of tool, is refused one by
// the rules, and reads the receipts. Run it in this folder; it needs git.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type output struct {
	Stdout string `json:"stdout"`
}

type firstWord struct {
	Text string `json:"text" jsonschema:"any text"`
}

func first(_ context.Context, in firstWord) (string, error) {
	word, _, _ := strings.Cut(in.Text, " ")
	return word, nil
}

func main() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{ConfigFile: "toolroom.yaml"})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "text:first", "Give the first word of a text.", first); err != nil {
		log.Fatal(err)
	}

	// Sources are listed at first use; Load does it now, so that search sees them.
	if err := r.Load(ctx); err != nil {
		log.Fatal(err)
	}
	page, err := r.Tools(toolroom.Identity{}, room.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Tools {
		fmt.Println("tool", e.ID, e.Source)
	}

	// A program's value has stdout, stderr, exit_code and ok.
	var version output
	if err := r.Run(ctx, toolroom.Call{Tool: "git:version"}).Decode(&version); err != nil {
		log.Fatal(err)
	}
	result := r.Run(ctx, toolroom.Call{Tool: "text:first", Arguments: toolroom.Args{"text": version.Stdout}.JSON()})
	fmt.Println("first word", result.Text())

	result = r.Run(ctx, toolroom.Call{Tool: "git:push"})
	fmt.Println("push", result.Status, result.Error.Code)

	n, err := r.VerifyReceipts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("receipts", n)
}
