// Command governed lets a model pay bills, but only after a person has agreed. Each call has
// a receipt.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

type bill struct {
	To  string `json:"to" jsonschema:"who gets the money"`
	EUR int    `json:"eur"`
}

func pay(_ context.Context, b bill) (string, error) {
	return fmt.Sprintf("paid %d EUR to %s", b.EUR, b.To), nil
}

func main() {
	ctx := context.Background()
	r, err := room.Open(ctx, room.Options{ConfigFile: "toolroom.yaml"})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "bank:pay", "Pay a bill.", pay); err != nil {
		log.Fatal(err)
	}
	if err := room.Register(r, "bank:close", "Close the account.", pay); err != nil {
		log.Fatal(err)
	}

	// The config denies this tool. The error names the rule.
	call := toolroom.Call{Tool: "bank:close", Arguments: toolroom.Args{"to": "Ann", "eur": 0}.JSON(), NoWait: true}
	fmt.Println(r.Run(ctx, call).Error.Code)

	// This one needs a person. NoWait returns at once instead of waiting for the answer.
	call = toolroom.Call{Tool: "bank:pay", Arguments: toolroom.Args{"to": "Ann", "eur": 5}.JSON(), NoWait: true}
	fmt.Println(r.Run(ctx, call).Error.Code)

	// The program asks the person in its own way, and gives the answer to the room.
	open, err := r.Approvals(ctx, toolroom.ApprovalPending)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range open {
		fmt.Println("may it call", a.Tool, string(a.Arguments))
		if _, err := r.Answer(ctx, a.ID, toolroom.Answer{Approve: true, By: "ann"}); err != nil {
			log.Fatal(err)
		}
	}

	// The approval is for this very call, once.
	fmt.Println(r.Run(ctx, call).Text())
	fmt.Println(r.Run(ctx, call).Error.Code)

	receipts, err := r.Receipts(ctx, toolroom.ReceiptQuery{Tool: "bank:pay"})
	if err != nil {
		log.Fatal(err)
	}
	for _, receipt := range receipts {
		fmt.Println("receipt:", receipt.Status, receipt.Decision)
	}
}
