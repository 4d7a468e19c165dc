package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is the running process of a route.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(ctx context.Context, role, target string, more ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startBuild(ctx, self, role, target, more...)
}

// startBuild is start with the bench of another build.
func startBuild(ctx context.Context, build, role, target string, more ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, build, append([]string{"-role", role, "-target", target}, more...)...)}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line := make([]byte, 256)
	n, err := out.Read(line)
	p.url = strings.TrimSpace(string(line[:n]))
	if err != nil || p.url == "" {
		return nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	return p, nil
}

// ticksPerSecond is Linux's USER_HZ, the unit of the times in /proc.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	user, errU := strconv.Atoi(fields[11])
	system, errS := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(errU, errS)
}

// resident returns the process's resident memory, in bytes.
func (p *process) resident() (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	return pages * os.Getpagesize(), err
}

// end ends the process and waits for it.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait() // the error is that it was killed
}
