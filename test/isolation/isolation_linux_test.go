package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/cli/start/collector"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

// lacks makes this test binary the toolroom binary, on a machine without the named feature.
const lacks = "TOOLROOM_TEST_LACKS"

func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	what := os.Getenv(lacks)
	if what == "" {
		collector.Resume() // a process with little memory starts sandboxes sooner
		os.Exit(m.Run())
	}
	if err := removeFeature(what); err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	os.Exit(cli.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, User: "ann", Version: "test", Helper: self, Open: app.Open}.Run(context.Background(), os.Args[1:]))
}

// removeFeature permanently makes a kernel feature unavailable to this process.
func removeFeature(what string) error {
	switch what {
	case "user namespaces":
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	case "Landlock": // answer as a kernel built without it
		return denySyscall(unix.SYS_LANDLOCK_CREATE_RULESET)
	case "seccomp": // answer as some container runtimes do
		return denySyscall(unix.SYS_SECCOMP)
	}
	return nil
}

func denySyscall(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

const nobody = 65534

// machine is a machine that lacks a feature.
type machine struct {
	t        *testing.T
	lacks    string
	exe, dir string
}

func newMachine(t *testing.T, what string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs root")
		}
		t.Skip("this test needs root")
	}
	dir, err := os.MkdirTemp("", "isolation-") // other users must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t, what, filepath.Join(dir, "toolroom"), dir}
	// A machine without user namespaces runs Toolroom as nobody, which cannot write to a
	// folder of this user.
	if shared := os.Getenv(enginetest.CompiledEnv); shared != "" && what != "user namespaces" {
		if err := enginetest.ShareCompiled(filepath.Join(dir, "home"), shared); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	err = os.WriteFile(m.exe, self, 0o755)
	syscall.ForkLock.RUnlock()
	for _, e := range []error{err, os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "toolroom.yaml"), []byte("sources: {}\n"), 0o644)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	return m
}

func (m *machine) toolroom(args ...string) (stdout, stderr string) {
	m.t.Helper()
	args = append([]string{"--home", filepath.Join(m.dir, "home"), "--config", filepath.Join(m.dir, "toolroom.yaml")}, args...)
	cmd := exec.CommandContext(m.t.Context(), m.exe, args...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), lacks+"="+m.lacks, "TMPDIR=/tmp", "HOME="+m.dir)
	if m.lacks == "user namespaces" {
		own := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Cloneflags: unix.CLONE_NEWUSER, UidMappings: own, GidMappings: own,
			GidMappingsEnableSetgroups: true, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
		}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the tests check the output
	return out.String(), errs.String()
}

// check is a line of toolroom doctor.
type check struct {
	Name, Status, Detail, Fix string
}

func (m *machine) doctor() map[string]check {
	m.t.Helper()
	out, errs := m.toolroom("doctor", "--json")
	var report []check
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		m.t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	checks := map[string]check{}
	for _, c := range report {
		checks[strings.TrimPrefix(c.Name, "runtime ")] = c
	}
	return checks
}

// expectedLayers are the isolation layers of each engine on a machine that lacks a feature, or why
// the engine does not run there.
var expectedLayers = map[string]map[string]struct{ layers, reason, fix string }{
	"Landlock": {
		"js":        {layers: "wasm+ns+net+seccomp"},
		"py":        {layers: "wasm+ns+net+seccomp"},
		"process":   {layers: "ns+net+seccomp"},
		"py-native": {reason: "the kernel has no Landlock", fix: "Linux 5.13"},
	},
	"user namespaces": {
		"js":        {layers: "wasm+net+landlock+seccomp"},
		"py":        {layers: "wasm+net+landlock+seccomp"},
		"process":   {reason: "ns: ", fix: "max_user_namespaces"},
		"py-native": {reason: "ns: ", fix: "max_user_namespaces"},
	},
	"seccomp": {
		"js":        {reason: "seccomp: function not implemented"},
		"py":        {reason: "seccomp: function not implemented"},
		"process":   {reason: "seccomp: function not implemented"},
		"py-native": {reason: "seccomp: function not implemented"},
	},
}

func TestMissingFeaturesAreReportedByDoctorAndWithEachResult(t *testing.T) {
	t.Parallel()
	for what, engines := range expectedLayers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, what)
			checks := m.doctor()
			for engine, want := range engines {
				c := checks[engine]
				if want.layers != "" && (c.Status != "ok" || !strings.HasPrefix(c.Detail, want.layers)) || want.layers == "" && c.Status == "ok" ||
					!strings.Contains(c.Detail, want.reason) || !strings.Contains(c.Fix, want.fix) {
					t.Errorf("%s: doctor says %+v", engine, c)
				}
				if engine != "js" && engine != "process" {
					continue
				}
				out, errs := m.toolroom("exec", "--json", "-l", "js", "--engine", engine, "return 1 + 1")
				var result toolroom.Result
				if want.layers == "" {
					if !strings.Contains(errs, want.reason) || strings.Contains(out, `"value"`) {
						t.Errorf("%s: the run ended with %s%s", engine, out, errs)
					}
					continue
				}
				if err := json.Unmarshal([]byte(out), &result); err != nil || string(result.Value) != "2" {
					t.Errorf("%s: %v\n%s%s", engine, err, out, errs)
				} else if layers := result.Execution.Isolation; strings.TrimSuffix(layers, "+cgroup") != want.layers {
					t.Errorf("%s: the result says %s, want %s", engine, layers, want.layers)
				}
			}
			if what == "seccomp" {
				if out, errs := m.toolroom("exec", "--json", "-l", "js", "return 1"); !strings.Contains(errs, "no sandbox here can run javascript") {
					t.Errorf("auto: %s%s", out, errs)
				}
			}
		})
	}
}
