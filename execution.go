package toolroom

import (
	"encoding/json"
	"fmt"
	"time"
)

// Execution describes how a program ran: where, under which isolation, and what it did
// besides returning its value. It is part of the result of code:execute.
type Execution struct {
	Language string `json:"language"`
	// Engine is the engine that ran the program, and Why the reason for its choice.
	Engine string `json:"engine"`
	Why    string `json:"why,omitempty"`
	// Isolation lists the isolation layers that were in force, joined by +.
	Isolation string `json:"isolation"`
	// Profile is the sandbox profile, such as standard.
	Profile string `json:"profile,omitempty"`
	// Asked holds the limits that the request named, and zero for the others. Limits holds
	// the program's limits: the requested or default ones, capped by the config and the
	// call's own deadline. Held says how each limit of the sandbox was enforced; a limit
	// that is missing was not enforced.
	Asked  ExecutionLimits   `json:"asked,omitzero"`
	Limits ExecutionLimits   `json:"limits"`
	Held   map[string]string `json:"held,omitempty"`

	// Stdout and Stderr are truncated like results; the Hidden fields describe the missing
	// part.
	Stdout       string  `json:"stdout"`
	StdoutHidden *Hidden `json:"stdout_hidden,omitempty"`
	Stderr       string  `json:"stderr"`
	StderrHidden *Hidden `json:"stderr_hidden,omitempty"`
	// Exit is the exit code of a command or script.
	Exit int `json:"exit_code,omitempty"`

	// Calls are the program's tool calls, in the order in which they began.
	Calls []ExecutionCall `json:"calls"`
	// Refused are the connections that were refused to the program, in the order of the
	// first attempts.
	Refused []RefusedConnection `json:"refused_connections,omitempty"`
	// Session is the code session whose variables the program had; empty if none.
	Session string `json:"session,omitempty"`
	// Start is the time until the program could run.
	Start time.Duration `json:"start_ns"`
}

// RefusedConnection is an address that the program's own host list or the config did not
// allow it to connect to.
type RefusedConnection struct {
	// Address is host:port, as the program spelled it. It is empty in the last entry of a
	// long list, which counts all further connections.
	Address string `json:"address,omitempty"`
	Reason  string `json:"reason"`
	// Times is the number of attempts.
	Times int `json:"times"`
}

// ExecutionLimits bound a program. For the optional ones, zero means that the program had
// no limit of its own.
type ExecutionLimits struct {
	// Wall is the time that the program may take, not counting waits for people.
	Wall time.Duration `json:"wall_ns,omitempty"`
	CPU  time.Duration `json:"cpu_ns,omitempty"`
	// CPUs is the number of processors that the program may use at once.
	CPUs float64 `json:"cpus,omitempty"`
	// Memory, Output (stdout and stderr together) and Disk are in bytes.
	Memory int64 `json:"memory_bytes,omitempty"`
	Output int64 `json:"output_bytes,omitempty"`
	// Calls is the number of tool calls that the program may make, and PIDs the number of
	// processes and threads that it may have at once.
	Calls int   `json:"calls,omitempty"`
	PIDs  int   `json:"pids,omitempty"`
	Disk  int64 `json:"disk_bytes,omitempty"`
}

// Lowered describes each requested limit that was not granted in full, such as "memory:
// 4294967296 bytes asked, 2147483648 given".
func (x *Execution) Lowered() []string {
	var all []string
	a, l := x.Asked, x.Limits
	if a.Wall > l.Wall {
		all = append(all, fmt.Sprintf("time: %v asked, %v given", a.Wall, l.Wall.Round(time.Millisecond)))
	}
	if a.CPU > l.CPU {
		all = append(all, fmt.Sprintf("CPU time: %v asked, %v given", a.CPU, l.CPU))
	}
	if a.CPUs > l.CPUs {
		all = append(all, fmt.Sprintf("processors: %v asked, %v given", a.CPUs, l.CPUs))
	}
	for _, one := range []struct {
		name, unit   string
		asked, given int64
	}{
		{"memory", " bytes", a.Memory, l.Memory},
		{"output", " bytes", a.Output, l.Output},
		{"calls", "", int64(a.Calls), int64(l.Calls)},
		{"processes", "", int64(a.PIDs), int64(l.PIDs)},
		{"disk", " bytes", a.Disk, l.Disk},
	} {
		if one.asked > one.given {
			all = append(all, fmt.Sprintf("%s: %d%s asked, %d given", one.name, one.asked, one.unit, one.given))
		}
	}
	return all
}

// ExecutionCall is one tool call of a program.
type ExecutionCall struct {
	// Call is its id. Its receipt has the details.
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Status    Status          `json:"status"`
	Code      Code            `json:"code,omitempty"`
	Warnings  []Warning       `json:"warnings,omitempty"`
	Duration  time.Duration   `json:"duration_ns"`
}
