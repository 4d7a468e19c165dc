package temporal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/toolroom/toolroom"
)

// note is a piece of data in Temporal. Somebody without the secret cannot make or read one,
// but can send a recorded one again, or in place of another. Therefore it names the run
// of the workflow and the one place in that run to which it belongs.
type note[T any] struct {
	Run   string `json:"run"`
	Place string `json:"place"`
	Body  T      `json:"body"`
}

// The places of notes in a run. Those of calls are followed by an id.
const (
	orderPlace    = "order"
	startPlace    = "start" // the program's activity
	endPlace      = "end"   // its result
	resultPlace   = "result"
	waitsPlace    = "waits"
	madePlace     = "made"
	askPlace      = "ask "    // an update
	tellPlace     = "tell "   // its result
	callPlace     = "call "   // an activity
	donePlace     = "done "   // its result
	factsPlace    = "facts "  // the result of a local activity
	answeredPlace = "answer " // the result of a local activity
)

var errForeign = errors.New("the data belongs to another run or another place: somebody without the secret sent it")

// read returns the body if the note belongs to that place of that run.
func (n note[T]) read(run, place string) (T, error) {
	if n.Run != run || n.Place != place {
		var none T
		return none, errForeign
	}
	return n.Body, nil
}

// answerOf returns a note of the run of an activity.
func answerOf[T any](ctx context.Context, place string, body T) note[T] {
	return note[T]{activity.GetInfo(ctx).WorkflowExecution.RunID, place, body}
}

// nameOf returns a name for a call, which tells nothing about it without the secret.
func nameOf(key []byte, run string, call toolroom.Call) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(run + "\x00" + call.Tool + "\x00"))
	mac.Write(call.Arguments)
	return hex.EncodeToString(mac.Sum(nil)[:12])
}
