package toolroom

import "time"

// JobState is the state of a background call.
type JobState string

// The states of a background call.
const (
	JobQueued  JobState = "queued"
	JobRunning JobState = "running"
	// JobWaiting is a suspended call, which is resumed when a person has answered.
	JobWaiting JobState = "waiting"
	JobDone    JobState = "done"
)

// Job is a background call: accepted, durable, and run once.
type Job struct {
	ID       string    `json:"id"`
	Identity Identity  `json:"identity,omitzero"`
	Call     Call      `json:"call"`
	State    JobState  `json:"state"`
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished,omitzero"`
	// Started says that the tool itself may have started: after a crash such a job is
	// repeated only if the tool's guarantee allows it.
	Started bool    `json:"started,omitempty"`
	Result  *Result `json:"result,omitempty"`
	// Answers are the methods of questions that the submitting client answers.
	Answers []string `json:"answers,omitempty"`
	// Approvals are the approvals that a suspended job waits for.
	Approvals []string `json:"approvals,omitempty"`
	// Cancelled says that the job is to be cancelled.
	Cancelled bool `json:"cancelled,omitempty"`
}
