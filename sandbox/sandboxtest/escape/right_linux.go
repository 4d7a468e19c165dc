//go:build linux && (amd64 || arm64)

package escape

import (
	"errors"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

func rights(o Outside) map[string]func() error {
	return map[string]func() error{
		"become root":         func() error { return unix.Setresuid(0, 0, 0) },
		"become another user": func() error { return unix.Setresuid(1000, 1000, 1000) },
		"join root's group":   func() error { return unix.Setresgid(0, 0, 0) },
		"join groups":         func() error { return unix.Setgroups([]int{0}) },
		"raise capabilities": func() error {
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
		},
		"have a capability": func() error {
			var data [2]unix.CapUserData
			if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
				return err
			}
			if data[0] == (unix.CapUserData{}) && data[1] == (unix.CapUserData{}) {
				return errors.New("none")
			}
			return nil
		},
		"undo no_new_privs": func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) },
		"have no filter": func() error {
			mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
			if err == nil && mode != unix.SECCOMP_MODE_FILTER {
				return nil
			}
			return errors.New("there is one")
		},
		"gain by a set-user-ID program": func() error {
			if o.SetUID == "" {
				if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set == 1 {
					return errors.New("no_new_privs")
				}
				return nil
			}
			out, err := exec.Command(o.SetUID, SetUIDArg).Output()
			if err != nil {
				return err
			}
			if string(out) != strconv.Itoa(os.Geteuid()) {
				return nil
			}
			return errors.New("it ran as this user")
		},
		"be root": func() error {
			if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getegid() == 0 {
				return nil
			}
			return errors.New("no")
		},
	}
}
