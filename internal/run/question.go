package run

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// JobQuestion is something that a job asks of the client that submitted it. It
// is stored, so that the client may answer in any process, and so that a job
// which is begun anew has the answers that were given before.
type JobQuestion struct {
	// Key names the question for the whole life of the job.
	Key string
	source.Question
	// Answer is the JSON that came, empty while the question is open.
	Answer json.RawMessage
	Asked  time.Time
}

// QuestionStore is a JobStore whose jobs can ask and can be cancelled from other
// processes.
type QuestionStore interface {
	JobStore
	// AskJob stores questions of a job. One whose key is there already stays as
	// it is, with its answer. A stale fence is a conflict.
	AskJob(ctx context.Context, id string, fence int64, questions []JobQuestion) error
	// JobQuestions lists the questions of a job in the order of their keys.
	JobQuestions(ctx context.Context, id string) ([]JobQuestion, error)
	// AnswerJob stores answers of open questions and ignores all others.
	AnswerJob(ctx context.Context, id string, answers map[string]json.RawMessage) error
	// NoteJob keeps a newer state that a job is carried on from. One that cannot be
	// carried on, that has ended or has another fence stays as it is.
	NoteJob(ctx context.Context, id string, fence int64, state json.RawMessage) error
	// CancelJob notes that a job is to end; one that has ended stays as it is. An
	// unknown id is not_found.
	CancelJob(ctx context.Context, id string) error
}

// questionWait is how long a job waits for answers before it ends.
const questionWait = 24 * time.Hour

// jobAsker puts the questions of a job into the store and waits for the answers.
// A job that waits takes no place of one that works.
type jobAsker struct {
	worker *Worker
	store  QuestionStore
	job    *Job
	slots  chan struct{} // has one token of this job while it works

	mu      sync.Mutex
	used    map[string]int // how often each key was used in this run
	waiting int            // how many calls of Ask wait
}

// rest gives the place in the worker up when the first question waits.
func (a *jobAsker) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting++; a.waiting == 1 {
		<-a.slots
		a.worker.Wake()
	}
}

// resume takes a place again when the last question is answered. It does so in
// any case: the job gives the place back at its end.
func (a *jobAsker) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.slots <- struct{}{}
	}
}

// Can reports whether the client that submitted the job answers a method.
func (a *jobAsker) Can(method string) bool {
	for _, answers := range a.job.Answers {
		if answers == method {
			return true
		}
	}
	return false
}

// Ask waits until all questions are answered.
func (a *jobAsker) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	for _, q := range questions {
		if !a.Can(q.Method) {
			return nil, source.Unanswerable(q.Method)
		}
	}
	keys := a.keys(questions)
	list := make([]JobQuestion, 0, len(questions))
	for key, q := range questions {
		list = append(list, JobQuestion{Key: keys[key], Question: q, Asked: a.worker.runner.Now()})
	}
	if err := a.store.AskJob(ctx, a.job.ID, a.job.Fence, list); err != nil {
		return nil, err
	}
	a.worker.questionChanged()
	a.rest()
	defer a.resume()
	return a.wait(ctx, keys)
}

// Note implements [source.Noter].
func (a *jobAsker) Note(ctx context.Context, state json.RawMessage) error {
	return a.store.NoteJob(ctx, a.job.ID, a.job.Fence, state)
}

// keys gives each question a name of its own for the life of the job. A job that
// is begun anew asks in the same order, and finds the same names.
func (a *jobAsker) keys(questions map[string]source.Question) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == nil {
		a.used = map[string]int{}
	}
	keys := make(map[string]string, len(questions))
	for key := range questions {
		a.used[key]++
		keys[key] = key
		if n := a.used[key]; n > 1 {
			keys[key] = fmt.Sprintf("%s-%d", key, n)
		}
	}
	return keys
}

func (a *jobAsker) wait(ctx context.Context, keys map[string]string) (map[string]json.RawMessage, error) {
	over := time.NewTimer(questionWait)
	defer over.Stop()
	tick := time.NewTicker(a.worker.o.Poll)
	defer tick.Stop()
	for {
		changed := a.worker.nextQuestionChange()
		stored, err := a.store.JobQuestions(ctx, a.job.ID)
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
		case <-over.C:
			return nil, toolroom.Errorf(toolroom.CodeTimeout, "nobody answered within %s", questionWait)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// questionChanged wakes those who wait for questions or answers.
func (w *Worker) questionChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.questions)
	w.questions = make(chan struct{})
}

func (w *Worker) nextQuestionChange() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.questions
}

// Answer stores answers of a job's open questions and ignores all others.
func (w *Worker) Answer(ctx context.Context, id string, answers map[string]json.RawMessage) error {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return toolroom.Errorf(toolroom.CodeUnsupported, "the jobs of this store ask nothing")
	}
	if err := store.AnswerJob(ctx, id, answers); err != nil {
		return err
	}
	w.questionChanged()
	return nil
}

// End asks a job to end, whichever process runs it.
func (w *Worker) End(ctx context.Context, id string) error {
	if store, ok := w.runner.Jobs.(QuestionStore); ok {
		if err := store.CancelJob(ctx, id); err != nil {
			return err
		}
	}
	w.Cancel(id)
	w.Wake()
	return nil
}

// Questions lists what a job has asked.
func (w *Worker) Questions(ctx context.Context, id string) ([]JobQuestion, error) {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return nil, nil
	}
	return store.JobQuestions(ctx, id)
}

// AwaitQuestion waits until a job asks something or has ended.
func (w *Worker) AwaitQuestion(ctx context.Context, id string) error {
	tick := time.NewTicker(w.o.Poll)
	defer tick.Stop()
	for {
		changed := w.nextQuestionChange()
		job, err := w.runner.Jobs.Job(ctx, id)
		if err != nil || job.State == JobDone {
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
