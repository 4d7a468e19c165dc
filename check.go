package toolroom

// The values of [Check.Status].
const (
	CheckOK   = "ok"
	CheckInfo = "info" // something optional that is not available
	CheckWarn = "warn"
	CheckFail = "fail"
)

// Check is one finding about something that calls depend on, such as a source or a sandbox.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Fix is the next step if Status is not ok.
	Fix string `json:"fix,omitempty"`
}
