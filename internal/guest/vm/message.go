// Package vm runs the guest as the first process of a virtual machine (VM): it
// prepares the VM, waits for its [Settings], starts the guest proper as an
// unprivileged process under the limits of the VM's kernel, reports how that ended,
// and switches the VM off.
//
// The driver and this package talk over one stream, which later carries the bridge:
// the VM sends [Ready] as soon as it could run a program (snapshots are taken at this
// point), the driver answers with one line of JSON, and the bridge follows. The
// [Report] goes to the console, to which no program in the VM can write.
package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Arg makes the guest's binary run as the first process of a VM.
const Arg = "vm"

// Ready is what a VM sends when it waits for its settings.
const Ready = "toolroom-vm 1\n"

// Options on the VM kernel's command line, and files of the initial file system.
const (
	// VsockOption makes a VM listen on that port of its virtual socket, instead of its
	// first virtio serial port.
	VsockOption = "toolroom.vsock="
	// ModulesFile lists, in the initial file system, the kernel modules to load,
	// one path a line, in order.
	ModulesFile = "/modules/load"
)

// Paths in the program's file system; the image has a folder for each mount.
const (
	// GuestPath is the path of the guest's binary.
	GuestPath = "/run/toolroom-guest"
	// WorkDir is the program's folder, in memory.
	WorkDir = "/work"
)

// Mountpoints are the folders that an image must contain.
var Mountpoints = []string{"proc", "dev", "run", "tmp", "var/tmp", "work"}

// UID is the user and group of the guest and its programs.
const UID = 65534

// Settings configures one run. Zero means no limit.
type Settings struct {
	// Entropy and Now make a restored VM differ from its snapshot.
	Entropy []byte    `json:"entropy"`
	Now     time.Time `json:"now"`
	Args    []string  `json:"args"` // the guest's arguments
	Env     []string  `json:"env"`
	// Memory and Disk are in bytes; Disk limits all writable folders together.
	Memory int64         `json:"memory,omitempty"`
	Disk   int64         `json:"disk,omitempty"`
	PIDs   int           `json:"pids,omitempty"`
	CPUs   float64       `json:"cpus,omitempty"`
	CPU    time.Duration `json:"cpu,omitempty"`
}

// maxLine is the maximum length of the settings: an environment and arguments.
const maxLine = 1 << 20

// WriteSettings sends s to a VM that is ready.
func WriteSettings(w io.Writer, s Settings) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(line) >= maxLine {
		return fmt.Errorf("the settings of the VM have %d bytes, the limit is %d: the environment is too large", len(line), maxLine)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readSettings reads byte by byte, because the bytes after the line belong to the
// bridge.
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

// ReportMark starts the console line that contains the report.
const ReportMark = "toolroom-report: "

// Report describes how the guest ended.
type Report struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Error says why no guest was started.
	Error string `json:"error,omitempty"`
}
