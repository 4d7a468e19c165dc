package toolroom

import (
	"encoding/json"
	"fmt"
	"time"
)

// Execution says how a program ran: where, within which walls, and what it did
// besides its value. It is part of the result of code:execute.
type Execution struct {
	Language string `json:"language"`
	// Engine ran the program; Why says why it was this one.
	Engine string `json:"engine"`
	Why    string `json:"why,omitempty"`
	// Isolation names the walls that really stood around it, joined by +.
	Isolation string `json:"isolation"`
	// Profile is the one of the sandbox, such as standard.
	Profile string `json:"profile,omitempty"`
	// Asked are the limits that the request named, zero what it did not. Limits
	// are those that the program had: what was asked or is the default, and no more
	// than the config and the call's own deadline permit. Held says of each limit
	// of the sandbox how it was held. One that is missing was not.
	Asked  ExecutionLimits   `json:"asked,omitzero"`
	Limits ExecutionLimits   `json:"limits"`
	Held   map[string]string `json:"held,omitempty"`

	// Stdout and Stderr are cut like results; the Hidden fields tell what is
	// missing.
	Stdout       string  `json:"stdout"`
	StdoutHidden *Hidden `json:"stdout_hidden,omitempty"`
	Stderr       string  `json:"stderr"`
	StderrHidden *Hidden `json:"stderr_hidden,omitempty"`
	// Exit is the exit code of a command or script.
	Exit int `json:"exit_code,omitempty"`

	// Calls are the tool calls that the program made, in the order in which
	// they began.
	Calls []ExecutionCall `json:"calls"`
	// Refused are the connections that the program asked for and may not make, in
	// the order in which it asked first.
	Refused []RefusedConnection `json:"refused_connections,omitempty"`
	// Session is the one whose variables the program had; empty for none.
	Session string `json:"session,omitempty"`
	// Start is how long it took until the program could run.
	Start time.Duration `json:"start_ns"`
}

// RefusedConnection is where a program wanted to go and may not, by the hosts that
// it named or by the config.
type RefusedConnection struct {
	// Address is host:port as the program gave it. It is empty in the last of a
	// long list, which stands for all further ones.
	Address string `json:"address,omitempty"`
	Reason  string `json:"reason"`
	// Times is how often it asked.
	Times int `json:"times"`
}

// ExecutionLimits bound a program. Of those that may be left out, zero means that
// the program had no limit of its own.
type ExecutionLimits struct {
	// Wall is the time that the program may take, without its waiting for people.
	Wall time.Duration `json:"wall_ns,omitempty"`
	CPU  time.Duration `json:"cpu_ns,omitempty"`
	// CPUs is how many processors the program may use at once.
	CPUs float64 `json:"cpus,omitempty"`
	// Memory, Output (stdout and stderr together) and Disk are in bytes.
	Memory int64 `json:"memory_bytes,omitempty"`
	Output int64 `json:"output_bytes,omitempty"`
	// Calls is how many tools the program may call, and PIDs how many processes
	// and threads it may have at once.
	Calls int   `json:"calls,omitempty"`
	PIDs  int   `json:"pids,omitempty"`
	Disk  int64 `json:"disk_bytes,omitempty"`
}

// Lowered says of each limit that was asked for and not given in full what the
// program had in its place, such as "memory: 4294967296 bytes asked, 2147483648
// given".
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
	// Call is its id; the receipt has the whole.
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Status    Status          `json:"status"`
	Code      Code            `json:"code,omitempty"`
	Duration  time.Duration   `json:"duration_ns"`
}
