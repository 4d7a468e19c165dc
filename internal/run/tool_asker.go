package run

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// toolAsker is the asker that a tool gets. It redacts known secrets in the questions and pauses
// the deadlines of the call and of its parent calls while a question is open.
type toolAsker struct {
	source.Asker
	call    *call
	secrets *secret.Redactor // nil if there are none
}

// Ask waits for the answers with the deadlines paused.
func (a toolAsker) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	defer deadline.Pause(ctx)()
	answers, err := a.Asker.Ask(ctx, a.redacted(questions))
	if err == nil {
		err = a.call.checkToken()
	}
	return answers, err
}

// RecordTask records the state without secrets.
func (a toolAsker) RecordTask(ctx context.Context, state json.RawMessage) error {
	if a.secrets != nil {
		state = a.secrets.Redact(state)
	}
	return a.Asker.RecordTask(ctx, state)
}

func (a toolAsker) redacted(questions map[string]source.Question) map[string]source.Question {
	if a.secrets == nil {
		return questions
	}
	redacted := make(map[string]source.Question, len(questions))
	for key, q := range questions {
		q.Params, q.Sent, q.Round = a.secrets.Redact(q.Params), a.secrets.Redact(q.Sent), a.secrets.Redact(q.Round)
		redacted[key] = q
	}
	return redacted
}
