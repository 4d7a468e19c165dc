//go:build amd64 || arm64

package lockdown

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExitCodesAndSignalsAreReported(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if o := do(t, s, task{Guest: []string{"exit", "7"}}); o.Exit != (Exit{Code: 7}) || o.Error != "" {
				t.Errorf("exit 7: %+v", o)
			}
			if o := do(t, s, task{Guest: []string{"signal", "15"}}); o.Exit != (Exit{Code: -1, Signal: 15}) {
				t.Errorf("signal 15: %+v", o)
			}
			if o := do(t, s, task{Guest: []string{"x32"}}); x32Bit != 0 && o.Exit.Signal != int(unix.SIGSYS) {
				t.Errorf("a call of another table: %+v", o)
			}
		})
	}
}

func TestInterpretersRun(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		for name, program := range map[string][]string{
			"python": {"/usr/bin/python3", "-c", `import json,ssl,sqlite3,asyncio,subprocess,tempfile,threading,os
async def f(): return await asyncio.sleep(0, 1)
assert asyncio.run(f()) == 1
threading.Thread(target=lambda: 1).start()
with tempfile.TemporaryFile() as t: t.write(b"x")
print("ok", subprocess.check_output(["/bin/sh", "-c", "echo sub"]).decode().strip())`},
			"node": {"/usr/bin/node", "-e", `const {execFileSync} = require("child_process"); console.log("ok", execFileSync("/bin/sh", ["-c", "echo sub"]).toString().trim())`},
			"sh":   {"/bin/sh", "-c", `echo ok $(echo sub | cat)`},
		} {
			t.Run(s.name+" "+name, func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(program[0]); err != nil {
					missing(t, "there is no "+program[0])
				}
				if o := do(t, s, task{Program: program}); o.Stdout != "ok sub\n" {
					t.Errorf("%+v", o)
				}
			})
		}
	}
}

func TestNoOrphanSurvives(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			token := token(t)
			t.Run("after its end", func(t *testing.T) {
				o := do(t, s, task{Guest: []string{"orphan and exit", token}})
				if o.Stdout != "ready\n" || o.Exit.Code != 0 {
					t.Fatalf("%+v", o)
				}
				waitGone(t, token)
			})
			t.Run("after the server is killed", func(t *testing.T) {
				server := startServer(t, s, task{Guest: []string{"orphan", token}})
				if line, err := bufio.NewReader(server.Stdout).ReadString('\n'); line != "ready\n" {
					t.Fatal(line, err)
				}
				if len(having(token)) < 2 {
					t.Fatalf("the processes cannot be seen: %q", having(token))
				}
				if err := server.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				waitGone(t, token)
			})
		})
	}
}

func token(t *testing.T) string {
	return fmt.Sprintf("token-%d-%s", os.Getpid(), filepath.Base(t.TempDir())+strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' {
			return '-'
		}
		return r
	}, t.Name()))
}

func TestKillEndsTheTreeBeforeItReturns(t *testing.T) {
	t.Parallel()
	var h HostMachine
	for _, how := range []string{"kill", "context"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			token := token(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, err := h.Start(ctx, guestSpec(Spec{Stdout: w}, "orphan", token))
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatal(line, err)
			}
			if how == "kill" {
				p.Kill()
				p.Kill()
			} else {
				cancel()
			}
			exit, err := p.Wait()
			if left := having(token); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if err != nil || exit.Signal != int(unix.SIGKILL) {
				t.Errorf("%+v, %v", exit, err)
			}
			if p.group != nil {
				p.group.each(func(dir string) {
					if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the cgroup %s is left: %v", dir, err)
					}
				})
			}
		})
	}
}

func TestSignalsReachTheProgram(t *testing.T) {
	t.Parallel()
	var h HostMachine
	p, err := h.Start(t.Context(), Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Root: System()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestAProgramStartsWhateverTheLengthOfItsPlan(t *testing.T) {
	t.Parallel()
	var h HostMachine
	start := func(length int) (plan int) {
		p, err := h.Start(t.Context(), Spec{Path: "/bin/true", Args: []string{"true", strings.Repeat("a", length)}, Root: System(), Direct: true})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			t.Errorf("%+v, %v", exit, err)
		}
		text, err := json.Marshal(p.plan)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	// Init's decoder reads this much at first; then it doubles its buffer and adds as much.
	const read = 512
	for buffer, empty := read, start(0); buffer < 4*empty; buffer = 2*buffer + read {
		for _, plan := range []int{buffer - 1, buffer, buffer + 1} {
			if plan < empty {
				continue
			}
			if got := start(plan - empty); got != plan {
				t.Fatalf("the plan has %d bytes, want %d", got, plan)
			}
		}
	}
}

func TestFilesAreHandedOver(t *testing.T) {
	t.Parallel()
	var h HostMachine
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct %t", direct), func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			in, err := os.Open("/etc/hostname")
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			p, err := h.Start(t.Context(), Spec{
				Path: "/bin/sh", Args: []string{"sh", "-c", "cat <&3 >&4; echo $$ $PPID >&4; ls /proc/self/fd >&4"},
				Env: []string{"PATH=/bin:/usr/bin"}, Root: System(), Files: []*os.File{in, w}, Direct: direct,
			})
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(); err != nil || exit.Code != 0 {
				t.Errorf("%+v, %v", exit, err)
			}
			name, err := os.ReadFile("/etc/hostname")
			if err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(string(got), string(name))
			if !ok {
				t.Fatalf("%q does not begin with %q", got, name)
			}
			if first := strings.HasPrefix(rest, "1 0\n"); first != direct {
				t.Errorf("its process id and its parent's: %q", rest)
			}
			// ls itself opens 5.
			if !strings.HasSuffix(rest, "\n0\n1\n2\n3\n4\n5\n") {
				t.Errorf("it has open: %q", rest)
			}
		})
	}
}

func TestEveryNamespaceIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, s := range namespaced() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s.mask {
				t.Skip("inside there is no /proc to look at")
			}
			o := do(t, s, task{Guest: []string{"namespaces"}})
			for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
				outside, err := os.Readlink("/proc/self/ns/" + kind)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(o.Stdout, kind+" "+kind+":[") || strings.Contains(o.Stdout, outside) {
					t.Errorf("%s: outside %s, inside\n%s", kind, outside, o.Stdout)
				}
			}
		})
	}
}

func TestLinksInTheWorkFolderDoNotLeadOut(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("swordfish"), 0o644); err != nil {
		t.Fatal(err)
	}
	var h HostMachine
	p, err := h.Start(t.Context(), Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", `ln -s "$0" /out/link; ln -s / /out/root; cat /out/link && echo leaked > /out/leak; cd /out/root && touch x && echo wrote > /out/leak; echo made > /out/plain`, outside},
		Env: []string{"PATH=/bin:/usr/bin"}, Root: System(), Binds: []Bind{{Source: folder, Target: "/out", Writable: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	// A reader that confines itself to the folder is not led out of it.
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.ReadFile("link"); err == nil {
		t.Error("a link led out of the folder")
	}
	if text, err := root.ReadFile("plain"); err != nil || string(text) != "made\n" {
		t.Errorf("a plain file: %q, %v", text, err)
	}
	if _, err := root.Stat("leak"); err == nil {
		t.Error("the guest followed a link out")
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	t.Parallel()
	var h HostMachine
	for _, tt := range []struct {
		name string
		spec Spec
		want string
	}{
		{"no path", Spec{}, "absolute path"},
		{"a relative path", Spec{Path: "sh"}, "absolute path"},
		{"a relative folder", Spec{Path: "/bin/sh", Dir: "x"}, "working folder"},
		{"root inside", Spec{Path: "/bin/sh", UID: -1}, "never root"},
		{"no such filter", Spec{Path: "/bin/sh", Seccomp: "loose"}, "no seccomp filter"},
		{"a negative limit", Spec{Path: "/bin/sh", Limits: Limits{Memory: -1}}, "negative"},
		{"a zero byte", Spec{Path: "/bin/sh", Args: []string{"a\x00b"}}, "zero byte"},
		{"a bind over /proc", Spec{Path: "/bin/sh", Binds: []Bind{{Source: "/usr", Target: "/proc/1"}}}, "reserved"},
		{"a bind over the root", Spec{Path: "/bin/sh", Binds: []Bind{{Source: "/usr", Target: "/x/.."}}}, "below /"},
		{"no such layer", Spec{Path: "/bin/sh", Minimum: []Layer{"moat"}}, "no such isolation layer"},
		{"no such program", Spec{Path: "/bin/no-such", Root: System()}, "execute /bin/no-such: no such file"},
		{"no such program, directly", Spec{Path: "/bin/no-such", Root: System(), Direct: true}, "execute /bin/no-such: no such file"},
		{"no such bind", Spec{Path: "/bin/sh", Root: System(), Binds: []Bind{{Source: "/no/such"}}}, "/no/such: no such file"},
		{"no such folder", Spec{Path: "/bin/sh", Root: System(), Dir: "/no/such"}, "chdir /no/such"},
		{"no mount point for a bind", Spec{Path: "/bin/sh", Root: System(), Binds: []Bind{{Source: "/usr/bin", Target: "/usr/no/such"}}}, "mount point for /usr/no/such"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := h.Start(t.Context(), tt.spec)
			if err == nil {
				p.Kill()
				t.Fatal("the program started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q does not say %q", err, tt.want)
			}
		})
	}
}

func TestForbiddenNamespacesAreReported(t *testing.T) {
	t.Parallel()
	o := do(t, flatServer, task{Guest: []string{"exit", "0"}, Minimum: []Layer{Namespaces}})
	if !strings.Contains(o.Error, "ns is not available here") || !strings.Contains(o.Error, "max_user_namespaces") {
		t.Errorf("%q", o.Error)
	}
	o = do(t, flatServer, task{Guest: []string{"exit", "0"}})
	if o.Error != "" || o.Layers != "net+landlock+seccomp" {
		t.Errorf("%+v", o)
	}
}

func TestTheEndOfOutputIsSeen(t *testing.T) {
	t.Parallel()
	var h HostMachine
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := h.Start(t.Context(), Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", "echo bye; exec >&- 3>&-; exec sleep 1000"},
		Env: []string{"PATH=/bin"}, Root: System(), Stdout: w, Files: []*os.File{w},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if got, err := io.ReadAll(r); err != nil || string(got) != "bye\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHostMachinesOfOneProcessAreIndependent(t *testing.T) {
	t.Parallel()
	var first, second HostMachine
	spec := Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Root: System()}
	a, err := first.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Kill()
	b, err := second.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	b.Kill()
	select {
	case <-a.Done():
		t.Error("killing one process ended the other")
	default:
	}
	if err := a.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit, _ := a.Wait(); exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("%+v", exit)
	}
}

func TestAnEmptyRootContainsOnlyTheProgram(t *testing.T) {
	t.Parallel()
	busybox, err := os.Stat("/bin/busybox")
	if err != nil || busybox.Mode().IsDir() {
		missing(t, "there is no static program to run: install busybox-static")
	}
	var h HostMachine
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := h.Start(t.Context(), Spec{Path: "/bin/busybox", Args: []string{"ls", "/", "/bin"}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if want := "/:\nbin\ndev\nproc\ntmp\nwork\n\n/bin:\nbusybox\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
}
