// Package vm is the guest as the first process of a virtual machine: it
// prepares the machine, waits for its [Settings], starts the guest proper as an
// unprivileged process inside walls of the machine's kernel, reports how that
// ended, and switches the machine off.
//
// The host and this package talk over one stream, which is the bridge's later:
// the machine says [Ready] as soon as it could run a program (a snapshot is
// taken here), the host answers with a line of JSON, and what follows is the
// bridge. The [Report] goes to the console, which no program in the machine can
// write to.
package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Arg is the argument by which a guest's binary knows that it is the first
// process of a machine.
const Arg = "vm"

// Ready is what a machine says when it waits for its settings.
const Ready = "toolroom-vm 1\n"

// Options on the kernel's command line.
const (
	// VsockOption makes a machine listen on that port of its virtual socket, in
	// place of its first virtio serial port.
	VsockOption = "toolroom.vsock="
	// ModulesFile lists, in the initial file system, the kernel modules to load,
	// one path a line, in order.
	ModulesFile = "/modules/load"
)

// Places in the program's file system; the image has a folder for each mount.
const (
	// GuestPath is the guest's binary.
	GuestPath = "/run/toolroom-guest"
	// WorkDir is the folder of the program, in memory.
	WorkDir = "/work"
)

// Mountpoints are the folders that an image must have.
var Mountpoints = []string{"proc", "dev", "run", "tmp", "var/tmp", "work"}

// UID is the user and group of the guest and its programs.
const UID = 65534

// Settings are of one run. Zero means no limit.
type Settings struct {
	// Entropy and Now set a restored machine apart from its snapshot.
	Entropy []byte    `json:"entropy"`
	Now     time.Time `json:"now"`
	Args    []string  `json:"args"` // of the guest
	Env     []string  `json:"env"`
	// Memory and Disk are bytes; Disk is that of all writable folders together.
	Memory int64         `json:"memory,omitempty"`
	Disk   int64         `json:"disk,omitempty"`
	PIDs   int           `json:"pids,omitempty"`
	CPUs   float64       `json:"cpus,omitempty"`
	CPU    time.Duration `json:"cpu,omitempty"`
}

// maxLine bounds a line of settings: an environment and arguments.
const maxLine = 1 << 20

// WriteSettings sends s to a machine that is ready.
func WriteSettings(w io.Writer, s Settings) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(line) >= maxLine {
		return fmt.Errorf("the settings of a machine take %d bytes, and may take %d: its environment is too large", len(line), maxLine)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readSettings reads byte by byte: what follows is not its own.
func readSettings(r io.Reader) (s Settings, err error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return s, fmt.Errorf("read the settings: %w", err)
		}
		if b[0] == '\n' {
			return s, json.Unmarshal(line, &s)
		}
		if line = append(line, b[0]); len(line) > maxLine {
			return s, errors.New("the settings are too long")
		}
	}
}

// ReportMark begins the line of the console that holds the report.
const ReportMark = "toolroom-report: "

// Report is how the guest ended, in the words of the machine's first process.
type Report struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Error says why no guest was started.
	Error string `json:"error,omitempty"`
}
