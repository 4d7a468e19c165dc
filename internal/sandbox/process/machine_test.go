//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// lackingArg makes this binary a server on a machine that lacks the feature named by
// the next argument.
const lackingArg = "__lacking"

const nobody = 65534

// report is what such a server reports.
type report struct {
	Probe sandbox.Probe
	// Plain is the isolation of a sandbox without limits, or the error of its start.
	Plain string
	// Limited is the error of a start with limits.
	Limited toolroom.Error
}

// lacking runs that server.
func lacking(what string) int {
	if err := takeAway(what); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d := process.New(self, []string{guest.MainArg})
	ctx, spec := context.Background(), sandbox.Spec{Guest: self, Args: []string{guest.MainArg}}
	out := report{Probe: d.Probe(ctx)}
	if instance, err := d.Start(ctx, spec); err != nil {
		out.Plain = err.Error()
	} else {
		if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
			out.Plain = err.Error()
		} else {
			out.Plain = instance.Isolation()
		}
		_ = instance.Kill(ctx)
	}
	spec.Limits = sandbox.Limits{Memory: 64 << 20, CPUs: 1, CPU: time.Second}
	if instance, err := d.Start(ctx, spec); err != nil {
		out.Limited = *toolroom.AsError(err)
	} else {
		_ = instance.Kill(ctx)
	}
	if json.NewEncoder(os.Stdout).Encode(out) != nil {
		return 1
	}
	return 0
}

// takeAway permanently takes a kernel feature from this process.
func takeAway(what string) error {
	switch what {
	case "a lenient umask":
		syscall.Umask(0o077)
	case "user namespaces":
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	case "Landlock": // answer as a kernel built without it
		load := func(offset uint32) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
		}
		answer := func(action uint32) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
		}
		filter := []unix.SockFilter{
			load(0), // the number of the call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
			answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)), answer(unix.SECCOMP_RET_ALLOW),
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
		if errno != 0 {
			return errno
		}
	}
	return nil // the server runs as a user who cannot write to cgroups
}

func TestAMissingKernelFeatureIsReportedWithItsFix(t *testing.T) {
	t.Parallel()
	driver(t)
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs root")
		}
		t.Skip("this test needs root")
	}
	folder, err := os.MkdirTemp("", "process-test-") // other users must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	exe := filepath.Join(folder, "server")
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	copySelf(t, exe, 0o755)
	anyone := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	own := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}}
	for _, tt := range []struct {
		lacks string
		as    *syscall.SysProcAttr
		// The probe's reason and fix; both are empty if the driver is available.
		reason, fix string
		plain       string // the isolation of a sandbox without limits
		limited     string // the error of a start with limits
		code        toolroom.Code
	}{
		{
			"user namespaces", &syscall.SysProcAttr{
				Credential: anyone.Credential, Cloneflags: unix.CLONE_NEWUSER, UidMappings: own, GidMappings: own,
				GidMappingsEnableSetgroups: true, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
			},
			"ns: user namespaces are forbidden: ", "max_user_namespaces", "ns is not available here", "ns is not available here", toolroom.CodeSandboxUnavailable,
		},
		{"a lenient umask", nil, "", "", "ns+net+landlock+seccomp+cgroup", "", ""},
		{"Landlock", nil, "", "", "ns+net+seccomp+cgroup", "", ""},
		{"a cgroup to write to", anyone, "", "", "ns+net+landlock+seccomp", "memory (each process by itself", toolroom.CodeLimitNotEnforceable},
	} {
		t.Run(tt.lacks, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), exe, lackingArg, tt.lacks)
			cmd.Dir, cmd.Env, cmd.Stderr, cmd.SysProcAttr = "/", append(os.Environ(), "TMPDIR=/tmp"), os.Stderr, tt.as
			text, err := cmd.Output()
			var got report
			if err == nil {
				err = json.Unmarshal(text, &got)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			p := got.Probe
			if tt.reason == "" && p.State != sandbox.Available || !strings.Contains(p.Reason, tt.reason) || !strings.Contains(p.Fix, tt.fix) {
				t.Errorf("the probe said %+v", p)
			}
			if !strings.Contains(got.Plain, tt.plain) {
				t.Errorf("without limits: %q", got.Plain)
			}
			if e := got.Limited; e.Code != tt.code || !strings.Contains(e.Message, tt.limited) || (e.Hints() == "") != (tt.code == "") {
				t.Errorf("with limits: %+v", e)
			}
		})
	}
}

// copySelf copies this program to a file that can be executed at once: a process
// forked by another test could otherwise hold it open for writing
// (go.dev/issue/22315).
func copySelf(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, self, mode); err != nil {
		t.Fatal(err)
	}
}

func TestABinaryThatOtherUsersCannotExecuteIsReportedWithTheFix(t *testing.T) {
	t.Parallel()
	driver(t)
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs root, because the sandboxes of other users run as the same user")
		}
		t.Skip("this test needs root, because the sandboxes of other users run as the same user")
	}
	own := filepath.Join(t.TempDir(), "toolroom")
	copySelf(t, own, 0o700)
	if p := process.New(own, []string{guest.MainArg}).Probe(t.Context()); p.State == sandbox.Available || !strings.HasPrefix(p.Fix, "chmod a+rx "+own) {
		t.Errorf("the probe said %+v", p)
	}
}
