package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// JobQuestion is a question of a job to the client that submitted it. It is
// stored, so that the client can answer in any process, and so that a restarted
// job finds the earlier answers.
type JobQuestion struct {
	// Key identifies the question for the whole life of the job.
	Key string
	source.Question
	// Answer is the answer as JSON, empty while the question is open.
	Answer json.RawMessage
	Asked  time.Time
}

// QuestionStore is a JobStore that supports questions and cancellation from other
// processes.
type QuestionStore interface {
	JobStore
	// AskJob stores questions of a job. A question whose key is already stored
	// stays unchanged, with its answer. A stale fence is a conflict.
	AskJob(ctx context.Context, id string, fence int64, questions []JobQuestion) error
	// JobQuestions returns the questions of a job in the order of their keys.
	JobQuestions(ctx context.Context, id string) ([]JobQuestion, error)
	// AnswerJob stores answers to open questions and ignores all others.
	AnswerJob(ctx context.Context, id string, answers map[string]json.RawMessage) error
	// UpdateJobState stores a newer state to resume a job from. It does not change a job
	// that cannot be resumed, has ended or has another fence.
	UpdateJobState(ctx context.Context, id string, fence int64, state json.RawMessage) error
	// CancelJob records that a job is to be cancelled. It does not change a job that
	// has ended. An unknown id is not_found.
	CancelJob(ctx context.Context, id string) error
}

// questionWait is how long a job waits for answers before it ends.
const questionWait = 24 * time.Hour

// A Suspension is the [source.Asker] of its call. If it has a job, it stores the questions
// and waits for the answers, which can come to any process. Else the questions are open in
// memory until the client's next request brings the answers.

// canAsk reports whether the client of the job answers questions and the store supports
// them.
func (s *Suspension) canAsk() bool {
	_, ok := s.runner.Jobs.(QuestionStore)
	return ok && len(s.client.Answers) > 0
}

// Can reports whether the client answers a method.
func (s *Suspension) Can(method string) bool { return slices.Contains(s.client.Answers, method) }

// Capabilities implements [source.Asker].
func (s *Suspension) Capabilities() json.RawMessage { return s.client.Capabilities }

// Ask waits until all questions are answered. A job does not occupy a slot of the worker
// while it waits.
func (s *Suspension) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	if s.Job() == nil {
		return s.AskAbout(ctx, questions, "")
	}
	if err := s.checkAnswerable(questions); err != nil {
		return nil, err
	}
	store, err := s.questionStore()
	if err != nil {
		return nil, err
	}
	keys := s.questionKeys(questions)
	list := make([]JobQuestion, 0, len(questions))
	for key, q := range questions {
		list = append(list, JobQuestion{Key: keys[key], Question: q, Asked: s.runner.Now()})
	}
	if err := store.AskJob(ctx, s.job.ID, s.job.Fence, list); err != nil {
		return nil, err
	}
	s.worker.notifyQuestionChange()
	s.releaseSlot()
	defer s.takeSlot()
	return s.awaitAnswers(ctx, store, keys)
}

// checkAnswerable returns an error if the client does not answer one of the questions.
func (s *Suspension) checkAnswerable(questions map[string]source.Question) error {
	for _, q := range questions {
		if !s.Can(q.Method) {
			return source.Unanswerable(q.Method)
		}
	}
	return nil
}

// RecordTask implements [source.Asker].
func (s *Suspension) RecordTask(ctx context.Context, state json.RawMessage) error {
	if s.Job() == nil {
		return nil
	}
	store, err := s.questionStore()
	if err != nil {
		return err
	}
	return store.UpdateJobState(ctx, s.job.ID, s.job.Fence, state)
}

func (s *Suspension) questionStore() (QuestionStore, error) {
	store, ok := s.runner.Jobs.(QuestionStore)
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "this job store does not support questions")
	}
	return store, nil
}

// releaseSlot releases the job's slot of the worker if no other question is waiting.
func (s *Suspension) releaseSlot() {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.waiting++; s.waiting == 1 {
		<-s.slots
		s.worker.Wake()
	}
}

// takeSlot takes a slot again when no question is waiting any more. It must not fail, because
// the job releases the slot at its end.
func (s *Suspension) takeSlot() {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.waiting--; s.waiting == 0 {
		s.slots <- struct{}{}
	}
}

// questionKeys returns for the key of each question a key that is unique in the job. A
// restarted job asks in the same order and so gets the same keys.
func (s *Suspension) questionKeys(questions map[string]source.Question) map[string]string {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.keyUses == nil {
		s.keyUses = map[string]int{}
	}
	keys := make(map[string]string, len(questions))
	for key := range questions {
		s.keyUses[key]++
		keys[key] = key
		if n := s.keyUses[key]; n > 1 {
			keys[key] = fmt.Sprintf("%s-%d", key, n)
		}
	}
	return keys
}

func (s *Suspension) awaitAnswers(ctx context.Context, store QuestionStore, keys map[string]string) (map[string]json.RawMessage, error) {
	timeout := time.NewTimer(questionWait)
	defer timeout.Stop()
	tick := time.NewTicker(s.worker.o.Poll)
	defer tick.Stop()
	for {
		changed := s.worker.nextQuestionChange()
		stored, err := store.JobQuestions(ctx, s.job.ID)
		if err != nil && ctx.Err() == nil && !toolroom.AsError(err).Retryable {
			return nil, err
		}
		given := make(map[string]json.RawMessage, len(stored))
		for _, q := range stored {
			if len(q.Answer) > 0 {
				given[q.Key] = q.Answer
			}
		}
		answers := make(map[string]json.RawMessage, len(keys))
		for key, name := range keys {
			if answer, ok := given[name]; ok {
				answers[key] = answer
			}
		}
		if len(answers) == len(keys) {
			return answers, nil
		}
		select {
		case <-changed:
		case <-tick.C: // answers may come to other processes
		case <-timeout.C:
			return nil, toolroom.Errorf(toolroom.CodeTimeout, "no answer arrived within %s", questionWait)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notifyQuestionChange wakes all goroutines that wait for questions or answers.
func (w *Worker) notifyQuestionChange() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.questions)
	w.questions = make(chan struct{})
}

// nextQuestionChange returns a channel that is closed at the next question or answer.
func (w *Worker) nextQuestionChange() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.questions
}

// Answer stores answers to a job's open questions and ignores all others.
func (w *Worker) Answer(ctx context.Context, id string, answers map[string]json.RawMessage) error {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return toolroom.Errorf(toolroom.CodeUnsupported, "this job store does not support questions")
	}
	if err := store.AnswerJob(ctx, id, answers); err != nil {
		return err
	}
	w.notifyQuestionChange()
	return nil
}

// CancelJob cancels a job, whichever process runs it.
func (w *Worker) CancelJob(ctx context.Context, id string) error {
	// A job that waits for a person has no worker that would notice.
	if withdrawn, err := w.runner.CancelIdle(ctx, id); withdrawn || err != nil {
		return err
	}
	if store, ok := w.runner.Jobs.(QuestionStore); ok {
		if err := store.CancelJob(ctx, id); err != nil {
			return err
		}
	}
	w.CancelRunning(id)
	w.Wake()
	return nil
}

// Questions returns the questions of a job.
func (w *Worker) Questions(ctx context.Context, id string) ([]JobQuestion, error) {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return nil, nil
	}
	return store.JobQuestions(ctx, id)
}

// AwaitQuestion waits until a job has an open question or has ended.
func (w *Worker) AwaitQuestion(ctx context.Context, id string) error {
	tick := time.NewTicker(w.o.Poll)
	defer tick.Stop()
	for {
		changed := w.nextQuestionChange()
		job, err := w.runner.Jobs.Job(ctx, id)
		if err != nil || job.State == toolroom.JobDone {
			return err
		}
		questions, err := w.Questions(ctx, id)
		if err != nil {
			return err
		}
		for _, q := range questions {
			if len(q.Answer) == 0 {
				return nil
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

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
