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

// message is a piece of data in Temporal. Without the secret, nobody can make or read one, but
// anybody with access to the namespace can send a recorded one again, or in place of another.
// Therefore a message names the run of the workflow and the one place in that run to which it
// belongs.
type message[T any] struct {
	Run   string `json:"run"`
	Place string `json:"place"`
	Body  T      `json:"body"`
}

// The places of messages in a run. An id follows those that end with a space.
const (
	orderPlace          = "order"
	programPlace        = "start" // the program's activity
	programResultPlace  = "end"   // its result
	resultPlace         = "result"
	approvalsPlace      = "waits"
	madeCallsPlace      = "made"
	updatePlace         = "ask "    // an update
	updateResultPlace   = "tell "   // its result
	activityPlace       = "call "   // an activity
	activityResultPlace = "done "   // its result
	propertiesPlace     = "facts "  // the result of a local activity
	answeredPlace       = "answer " // the result of a local activity
)

var errForeign = errors.New("the data belongs to another run or another place: somebody without the secret sent it")

// read returns the body. It returns an error if the message does not belong to that place of
// that run.
func (n message[T]) read(run, place string) (T, error) {
	if n.Run != run || n.Place != place {
		var none T
		return none, errForeign
	}
	return n.Body, nil
}

// activityMessage returns a message for the run to which the activity of ctx belongs.
func activityMessage[T any](ctx context.Context, place string, body T) message[T] {
	return message[T]{activity.GetInfo(ctx).WorkflowExecution.RunID, place, body}
}

// callName returns a name for a call. It reveals nothing about the call to anybody without the
// secret.
func callName(key []byte, run string, call toolroom.Call) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(run + "\x00" + call.Tool + "\x00"))
	mac.Write(call.Arguments)
	return hex.EncodeToString(mac.Sum(nil)[:12])
}
