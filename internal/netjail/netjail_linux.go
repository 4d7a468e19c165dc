//go:build amd64 || arm64

package netjail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

// Start starts a program in the jail. If this machine does not support that, Start returns
// an error with code sandbox_unavailable and starts nothing.
func (j *Jail) Start(s proc.Spec) (*proc.Process, error) {
	if len(j.Launcher) == 0 {
		return nil, unavailable(errors.New("the program that embeds Toolroom names no helper (room.Options.Helper)"))
	}
	program := s.Command
	if !strings.Contains(program, "/") {
		found, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		program = found
	}
	ours, theirs, err := proc.SocketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, unavailable(err)
	}
	defer ours.Close()

	fd := 3 + len(s.Files)
	s.Files = append(s.Files[:len(s.Files):len(s.Files)], theirs)
	s.Args = slices.Concat(j.Launcher[1:], []string{lockdown.JailArg, strconv.Itoa(fd), program, s.Command}, s.Args)
	s.Command, s.Namespaces = j.Launcher[0], j.setNamespaces
	p, err := proc.Start(s)
	theirs.Close()
	if err != nil {
		return nil, unavailable(err)
	}
	// An error means that the launcher has ended, which receive reports.
	_ = json.NewEncoder(ours).Encode(lockdown.JailOrder{HostNetwork: j.HostNetwork, Guarded: j.usesProxy(), Binds: j.Binds})
	_ = ours.CloseWrite()
	listener, err := receive(ours)
	if err != nil {
		p.Stop(0)
		return nil, err
	}
	if listener != nil {
		egress.ServeProxy(listener, j.Guard, j.Log, nil, p.Done())
	}
	return p, nil
}

func (j *Jail) usesProxy() bool { return j.Guard != nil && !j.HostNetwork }

// setNamespaces gives a child its own user namespace, and those for network and mounts that
// the jail needs. It keeps its user; its rights apply to its own namespaces only.
func (j *Jail) setNamespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	if !j.HostNetwork {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if len(j.Binds) > 0 {
		attr.Cloneflags |= unix.CLONE_NEWNS
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	if os.Geteuid() == 0 {
		// Root must still see the owners of files.
		attr.UidMappings, attr.GidMappings = sameIDs("/proc/self/uid_map"), sameIDs("/proc/self/gid_map")
		attr.GidMappingsEnableSetgroups = true
	}
	attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
}

// sameIDs returns a mapping of every id of this namespace to itself. Each line of a map
// file contains the first id inside, the first id outside, and a count
// (user_namespaces(7)).
func sameIDs(file string) []syscall.SysProcIDMap {
	var all []syscall.SysProcIDMap
	text, _ := os.ReadFile(file) // without the file no namespace can be made, and the start fails
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 {
			all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
		}
	}
	return all
}

// receive waits until the program has been executed, and returns the listening socket of
// its proxy, or nil if it has none.
func receive(conn *net.UnixConn) (listener net.Listener, err error) {
	defer func() {
		if err != nil && listener != nil {
			listener.Close()
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(startTimeout))
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := conn.ReadMsgUnix(text, oob)
		if n == 0 && oobn == 0 {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return listener, unavailable(fmt.Errorf("the program was not started within %s", startTimeout))
			}
			return listener, nil // the launcher's end was closed on exec
		}
		var message lockdown.JailMessage
		if err := json.Unmarshal(text[:n], &message); err != nil {
			return listener, unavailable(err)
		}
		switch {
		case message.Missing:
			return listener, &fs.PathError{Op: "start", Path: message.Error, Err: fs.ErrNotExist}
		case message.Error != "":
			return listener, unavailable(errors.New(message.Error))
		case message.Proxy:
			if listener, err = listenerOf(oob[:oobn]); err != nil {
				return nil, unavailable(err)
			}
		}
	}
}

func listenerOf(oob []byte) (net.Listener, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("the launcher sent no socket: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("the launcher sent no socket: %w", err)
	}
	unix.CloseOnExec(fds[0])
	file := os.NewFile(uintptr(fds[0]), "proxy")
	defer file.Close()
	return net.FileListener(file)
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the program's network cannot be isolated here: %w", err).
		WithHint("that needs user namespaces of Linux; network: host runs the program without a guard").WithCLIHint("toolroom doctor shows what is missing")
}
