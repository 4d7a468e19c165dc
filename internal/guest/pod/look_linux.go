package pod

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// reachTimeout is how long an address may take to answer.
const reachTimeout = 2 * time.Second

// Look writes the [Facts] to w, as JSON, with the languages that its caller has found. It puts the standard filter on this
// process.
func Look(w io.Writer, languages []string) error {
	f := Facts{Processes: processes(), Cgroup: "v1", Languages: languages}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		f.Cgroup = "v2"
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			f.Interfaces = append(f.Interfaces, i.Name)
		}
	}
	f.reach(known())
	if err := lockdown.Harden(lockdown.Standard, false); err == nil {
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		f.Offline = errors.Is(err, unix.EAFNOSUPPORT)
	}
	return json.NewEncoder(w).Encode(f)
}

// known are addresses that nearly every Pod with a network reaches: the API, the
// node, and its gateway, where nothing listens but something answers.
func known() []string {
	var list []string
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		list = append(list, net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")))
	}
	if node := os.Getenv(NodeEnv); node != "" {
		list = append(list, net.JoinHostPort(node, "10250"))
	}
	if gateway := gateway(); gateway != nil {
		list = append(list, net.JoinHostPort(gateway.String(), "10250"))
	}
	return list
}

// gateway is that of the default route (proc_net(5): addresses in hex, in the
// order of this machine).
func gateway() net.IP {
	routes, err := os.Open("/proc/net/route")
	if err != nil {
		return nil
	}
	defer routes.Close()
	for lines := bufio.NewScanner(routes); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[1] != "00000000" {
			continue
		}
		var a, b, c, d byte
		if _, err := fmt.Sscanf(fields[2], "%02X%02X%02X%02X", &d, &c, &b, &a); err == nil {
			return net.IPv4(a, b, c, d)
		}
	}
	return nil
}

// reach dials all at once. What is on the Pod's own loopback says nothing.
func (f *Facts) reach(addresses []string) {
	addresses = slices.DeleteFunc(addresses, func(a string) bool {
		host, _, _ := net.SplitHostPort(a)
		return net.ParseIP(host).IsLoopback()
	})
	errs := make([]error, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() {
			var conn net.Conn
			if conn, errs[i] = net.DialTimeout("tcp", address, reachTimeout); errs[i] == nil {
				conn.Close()
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			f.Reached = append(f.Reached, addresses[i])
		case errors.Is(err, syscall.ECONNREFUSED):
			f.Refused = append(f.Refused, addresses[i])
		}
	}
}

// processes makes children until it may make no more, which the kernel counts
// as long as nobody has waited for them.
func processes() int {
	var children []int
	for range MostProcesses {
		pid, err := ended()
		if err != 0 {
			break
		}
		children = append(children, pid)
	}
	for _, pid := range children {
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
	}
	if len(children) == MostProcesses {
		return 0
	}
	return len(children)
}

// ended is a child that has ended, and has done nothing else: a forked child of
// a Go program may do no more than system calls.
//
//go:nosplit
//go:norace
func ended() (int, syscall.Errno) {
	pid, _, err := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if err == 0 && pid == 0 {
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return int(pid), err
}
