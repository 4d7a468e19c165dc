//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/proc"
)

// JailMain runs the launcher; args are the arguments after [JailArg]. It returns only if the
// program cannot be executed.
func JailMain(args []string) int {
	runtime.LockOSThread()
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, JailArg+" is used by toolroom to start programs without a network; it is not a command")
		return 2
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd < 3 {
		return 2
	}
	unix.CloseOnExec(fd)
	message := JailMessage{Error: args[1], Missing: true}
	if err := execute(fd, args[1], args[2:]); !errors.Is(err, errMissing) {
		message = JailMessage{Error: err.Error()}
	}
	text, _ := json.Marshal(message)
	_, _ = unix.Write(fd, text)
	return 127
}

// execute executes the program, which replaces the launcher.
func execute(fd int, program string, argv []string) error {
	do, err := readOrder(fd)
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if len(do.Binds) > 0 {
		if err := mountOver(do.Binds); err != nil {
			return err
		}
	}
	env := os.Environ()
	if !do.HostNetwork {
		if err := LoopbackUp(); err != nil {
			return fmt.Errorf("bring up the loopback: %w", err)
		}
		env = proc.WithoutProxy(env)
	}
	if do.Guarded {
		port, err := sendListener(fd)
		if err != nil {
			return fmt.Errorf("make the proxy's socket: %w", err)
		}
		env = append(env, proc.ProxyEnviron("http://127.0.0.1:"+strconv.Itoa(port))...)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := lockNetwork(); err != nil {
		return err
	}
	if err := unix.Exec(program, argv, env); errors.Is(err, unix.ENOENT) {
		return errMissing
	} else {
		return fmt.Errorf("execute %s: %w", program, err)
	}
}

var errMissing = errors.New("there is no such program")

// readOrder reads the order. The socket stays open for what is sent back.
func readOrder(fd int) (do JailOrder, err error) {
	var text []byte
	piece := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, piece)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return do, err
		case n == 0:
			return do, json.Unmarshal(text, &do)
		}
		text = append(text, piece[:max(n, 0)]...)
	}
}

// sendListener makes a listening socket in this namespace and sends it to the server. A socket
// stays in the namespace in which it was made.
func sendListener(fd int) (port int, err error) {
	s, err := listenOn(0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(s)
	address, err := unix.Getsockname(s)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(JailMessage{Proxy: true})
	if err != nil {
		return 0, err
	}
	return address.(*unix.SockaddrInet4).Port, unix.Sendmsg(fd, text, unix.UnixRights(s), nil, 0)
}

// jailRights are the capabilities that root inside needs to use the same files as outside. They
// apply in the program's own namespace only.
var jailRights = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETUID, unix.CAP_SETGID,
}

// dropCapabilities drops all capabilities except those in jailRights, permanently, even if the
// program is root inside.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	keep := map[uintptr]bool{}
	for _, c := range jailRights {
		keep[c] = true
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if keep[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
