package service

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/toolroom/toolroom"
)

// Manager starts and stops services with the commands of systemd or launchd.
type Manager struct {
	Kind   string
	System bool
	// UID is the id of the user, for launchd.
	UID int
	// Run runs a command and shows its output to the user.
	Run func(ctx context.Context, name string, args ...string) error
	// Booted is a folder that exists if systemd runs; empty means /run/systemd/system.
	Booted string
}

// Check returns an error if the service manager does not run here.
func (m Manager) Check() error {
	if m.Kind != Systemd {
		return nil
	}
	booted := m.Booted
	if booted == "" {
		booted = "/run/systemd/system" // see sd_booted(3)
	}
	if info, err := os.Stat(booted); err != nil || !info.IsDir() {
		return toolroom.Errorf(toolroom.CodeUnsupported, "systemd does not run on this machine").
			WithCLIHint("start toolroom serve with what starts programs here; to see the unit: toolroom service install --dry-run, or write it to a folder: --prefix FOLDER")
	}
	return nil
}

func (m Manager) systemctl(ctx context.Context, args ...string) error {
	if !m.System {
		args = append([]string{"--user"}, args...)
	}
	return m.Run(ctx, "systemctl", args...)
}

// launchdDomain returns launchd's domain for the service.
func (m Manager) launchdDomain() string {
	if m.System {
		return "system"
	}
	return "gui/" + strconv.Itoa(m.UID)
}

// Start starts the service in file now, and at each start of the machine or login. It restarts
// a running service.
func (m Manager) Start(ctx context.Context, file string) error {
	if m.Kind == Launchd {
		// It fails if the job is not loaded.
		_ = m.Run(ctx, "launchctl", "bootout", m.launchdDomain()+"/"+Label)
		return m.Run(ctx, "launchctl", "bootstrap", m.launchdDomain(), file)
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", Name}, {"restart", Name}} {
		if err := m.systemctl(ctx, args...); err != nil {
			return fmt.Errorf("systemctl %s: %w", args[0], err)
		}
	}
	return nil
}

// Active reports whether systemd runs the service.
func (m Manager) Active(ctx context.Context) bool {
	return m.Kind == Systemd && m.systemctl(ctx, "is-active", "--quiet", Name) == nil
}

// Failed reports whether systemd has stopped restarting the service. Launchd never stops.
func (m Manager) Failed(ctx context.Context) bool {
	return m.Kind == Systemd && m.systemctl(ctx, "is-failed", "--quiet", Name) == nil
}

// Stop stops the service and keeps it from starting.
func (m Manager) Stop(ctx context.Context) error {
	if m.Kind == Launchd {
		return m.Run(ctx, "launchctl", "bootout", m.launchdDomain()+"/"+Label)
	}
	return m.systemctl(ctx, "disable", "--now", Name)
}

// Removed tells the manager that the service's file has been removed.
func (m Manager) Removed(ctx context.Context) error {
	if m.Kind == Launchd {
		return nil
	}
	return m.systemctl(ctx, "daemon-reload")
}

// Status shows the state of the service.
func (m Manager) Status(ctx context.Context) error {
	if m.Kind == Launchd {
		return m.Run(ctx, "launchctl", "print", m.launchdDomain()+"/"+Label)
	}
	return m.systemctl(ctx, "--no-pager", "status", Name)
}

// Logs shows the last lines of the service's log; file is that of launchd.
func (m Manager) Logs(ctx context.Context, file string, lines int, follow bool) error {
	n := strconv.Itoa(lines)
	if m.Kind == Launchd {
		args := []string{"-n", n}
		if follow {
			args = append(args, "-F")
		}
		return m.Run(ctx, "tail", append(args, file)...)
	}
	args := []string{"--no-pager", "-n", n, "-u", Name}
	if !m.System {
		// Journals in memory, and those of root, hold no file for --user; -q leaves out that
		// other users' messages are not seen.
		args = []string{"--no-pager", "-q", "-n", n, "--user-unit", Name}
	}
	if follow {
		args = append(args, "-f")
	}
	return m.Run(ctx, "journalctl", args...)
}
