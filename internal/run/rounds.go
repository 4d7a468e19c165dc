package run

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Client is the client that answers the questions of a suspended call.
type Client struct {
	// Answers are the methods that the client answers.
	Answers []string
	// Capabilities are what the client declares, in MCP's format.
	Capabilities json.RawMessage
	// Offered are answers that the client has sent in advance, by the key of the question.
	Offered map[string]json.RawMessage
	// Fits reports whether an answer is one to the question.
	Fits func(q source.Question, answer json.RawMessage) bool
}

// openQuestion is a question that waits in memory for its answer.
type openQuestion struct {
	source.Question
	answer   chan json.RawMessage // takes one
	approval string               // the id of the approval that the question is about, or empty
}

// NewSuspension returns a suspension for a multi-round request: its questions wait in memory
// until the client's next request answers them. The call is not made again meanwhile.
func NewSuspension(client Client) *Suspension {
	client.Offered = maps.Clone(client.Offered)
	return &Suspension{client: client, open: map[string]*openQuestion{}, asked: make(chan struct{}, 1)}
}

// Asked returns a channel that has a value when there may be questions to ask.
func (s *Suspension) Asked() <-chan struct{} { return s.asked }

// OpenQuestions returns the open questions by key. If the only open question is about an
// approval, it returns the approval's id as well.
func (s *Suspension) OpenQuestions() (questions map[string]source.Question, approval string) {
	s.asking.Lock()
	defer s.asking.Unlock()
	questions = make(map[string]source.Question, len(s.open))
	for key, q := range s.open {
		questions[key] = q.Question
		if len(s.open) == 1 {
			approval = q.approval
		}
	}
	return questions, approval
}

// Answer passes the call the answers that fit an open question. If questions stay open, Asked
// reports them again.
func (s *Suspension) Answer(answers map[string]json.RawMessage) {
	s.asking.Lock()
	defer s.asking.Unlock()
	for key, answer := range answers {
		if q := s.open[key]; q != nil && s.client.Fits(q.Question, answer) {
			delete(s.open, key)
			q.answer <- answer
		}
	}
	if len(s.open) > 0 {
		s.signalAsked()
	}
}

// signalAsked puts a value into the channel of Asked, unless it has one.
func (s *Suspension) signalAsked() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// AskAbout opens questions in memory and waits until all are answered or withdrawn. approval is
// the id of the approval that the questions are about, or empty. Answers sent in advance do not
// count for an approval, because a person must have seen the question.
func (s *Suspension) AskAbout(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error) {
	if err := s.checkAnswerable(questions); err != nil {
		return nil, err
	}
	opened, answers, err := s.addQuestions(questions, approval)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(opened)) {
		select {
		case answers[key] = <-opened[key].answer:
		case <-opened[key].Withdrawn():
			s.closeQuestions(key)
		case <-ctx.Done():
			s.closeQuestions(slices.Collect(maps.Keys(opened))...)
			return nil, ctx.Err()
		}
	}
	return answers, nil
}

// addQuestions opens the questions to which no answer was sent in advance. It returns them, and
// the answers to the others.
func (s *Suspension) addQuestions(questions map[string]source.Question, approval string) (map[string]*openQuestion, map[string]json.RawMessage, error) {
	opened := make(map[string]*openQuestion, len(questions))
	answers := make(map[string]json.RawMessage, len(questions))
	s.asking.Lock()
	defer s.asking.Unlock()
	for key, q := range questions {
		if offered, ok := s.client.Offered[key]; ok && approval == "" && s.client.Fits(q, offered) {
			answers[key] = offered
			delete(s.client.Offered, key)
			continue
		}
		if s.open[key] != nil {
			return nil, nil, toolroom.Errorf(toolroom.CodeConflict, "a question with the key %q is already open", key)
		}
		opened[key] = &openQuestion{Question: q, answer: make(chan json.RawMessage, 1), approval: approval}
	}
	maps.Copy(s.open, opened)
	if len(opened) > 0 {
		s.signalAsked()
	}
	return opened, answers, nil
}

// closeQuestions removes questions whose answer is no longer needed.
func (s *Suspension) closeQuestions(keys ...string) {
	s.asking.Lock()
	defer s.asking.Unlock()
	for _, key := range keys {
		delete(s.open, key)
	}
}
