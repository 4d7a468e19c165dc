package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test binary play another role.
const roleVariable = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "owner": // print its name and exit
		fmt.Println(Owner())
	case "parent": // start a child and wait to be killed
		p, err := Start(Spec{Command: "sleep", Args: []string{"600"}, Env: os.Environ(), Owner: Owner()})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		<-p.Done()
	case "exhausted": // start children without enough files
		fmt.Println(startWithoutFiles())
	default:
		os.Exit(m.Run())
	}
}

// sh starts a shell script and reads its first line of output.
func sh(t *testing.T, script string, stderr io.Writer) (p *Process, line string) {
	t.Helper()
	p, err := Start(Spec{Command: "sh", Args: []string{"-c", script}, Env: os.Environ(), Owner: Owner(), Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	line, err = bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(line)
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for startTime(pid) != "" {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func TestAProcessTalksAndEndsByItself(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	p, err := Start(Spec{Command: "sh", Args: []string{"-c", `cat; pwd; echo oops >&2; exit 3`}, Env: os.Environ(), Dir: "/", Owner: Owner(), Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	<-p.Done()
	if err != nil || string(out) != "hello\n/\n" {
		t.Errorf("stdout %q, %v", out, err)
	}
	if stderr.String() != "oops\n" {
		t.Errorf("stderr %q", stderr.String())
	}
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("the process ended with %v, want exit code 3", p.Err())
	}
	if _, peak := p.Usage(); peak <= 0 {
		t.Errorf("peak memory %d", peak)
	}
	p.Stop(time.Minute) // returns at once, because the process has ended
}

func TestOutputWrittenBeforeTheEndIsNotLost(t *testing.T) {
	t.Parallel()
	p, err := Start(Spec{Command: "sh", Args: []string{"-c", "echo last words"}, Env: os.Environ(), Owner: Owner()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(0)
	<-p.Done()
	if out, err := io.ReadAll(p.Stdout); err != nil || string(out) != "last words\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAFailedStartNamesTheCommand(t *testing.T) {
	t.Parallel()
	for _, s := range []Spec{{Command: "no-such-program-here"}, {Command: "sh", Dir: "/no/such/folder"}} {
		p, err := Start(s)
		if err == nil {
			p.Stop(0)
			t.Fatalf("%+v started", s)
		}
		if !strings.HasPrefix(err.Error(), "start "+s.Command+": ") {
			t.Errorf("%v", err)
		}
	}
}

func TestStopEscalates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		signal       syscall.Signal // that ended the process; 0 if it ended by itself
	}{
		{"closing stdin ends a process that reads it", `echo up; cat >/dev/null`, time.Minute, 0},
		{"SIGTERM ends a process that does not read", `echo up; exec sleep 600`, 300 * time.Millisecond, syscall.SIGTERM},
		{"SIGKILL ends a process that ignores SIGTERM", `trap "" TERM; echo up; while :; do sleep 600; done`, 300 * time.Millisecond, syscall.SIGKILL},
		{"without grace SIGKILL comes soon", `trap "" TERM; echo up; while :; do sleep 600; done`, 0, syscall.SIGKILL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _ := sh(t, tt.script, nil)
			p.Stop(tt.grace)
			p.Stop(tt.grace) // idempotent
			select {
			case <-p.Done():
			default:
				t.Fatal("Stop returned before the process was gone")
			}
			var exit *exec.ExitError
			switch {
			case tt.signal == 0:
				if p.Err() != nil {
					t.Errorf("the process ended with %v", p.Err())
				}
			case !errors.As(p.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != tt.signal:
				t.Errorf("the process ended with %v, want %v", p.Err(), tt.signal)
			}
		})
	}
}

func TestGrandchildrenAreKilledWithTheGroup(t *testing.T) {
	t.Parallel()
	t.Run("at stop", func(t *testing.T) {
		t.Parallel()
		p, grandchild := sh(t, `sh -c 'trap "" TERM; echo $$; while :; do sleep 600; done' & wait`, nil)
		p.Stop(200 * time.Millisecond)
		waitGone(t, number(t, grandchild))
	})
	t.Run("when the process ends by itself", func(t *testing.T) {
		t.Parallel()
		p, grandchild := sh(t, `sleep 600 & echo $!`, nil)
		<-p.Done()
		waitGone(t, number(t, grandchild))
	})
	t.Run("even if it keeps stderr open, which is not an error", func(t *testing.T) {
		t.Parallel()
		p, grandchild := sh(t, `sleep 600 & echo $!`, &bytes.Buffer{})
		<-p.Done()
		if p.Err() != nil {
			t.Errorf("exit code 0 is reported as %v", p.Err())
		}
		waitGone(t, number(t, grandchild))
	})
}

func TestAChildEndsWithItsKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child := number(t, line)
	if startTime(child) == "" {
		t.Fatal("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	waitGone(t, child)
}

// deadOwner returns the owner name of a process that has ended.
func deadOwner(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=owner")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestAliveRejectsDeadAndMalformedOwners(t *testing.T) {
	t.Parallel()
	if !Alive(Owner()) {
		t.Errorf("%s, this process, is not alive", Owner())
	}
	pid := strconv.Itoa(os.Getpid())
	for _, owner := range []string{deadOwner(t), "", "-", pid, pid + "-", pid + "-1", "x-1", "-1-1", "999999999-1"} {
		if Alive(owner) {
			t.Errorf("%q is alive", owner)
		}
	}
}

// The test calls the parts of Sweep on its own processes only, because Sweep could kill
// orphans of another Toolroom on this machine.
func TestSweepKillsOnlyProcessesOfDeadOwners(t *testing.T) {
	t.Parallel()
	dead := deadOwner(t)
	start := func(env ...string) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Env = append(Environ(os.Environ(), nil), env...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	orphan := start(ownerVariable + "=" + dead)
	others := map[string]*exec.Cmd{
		"of a living owner":       start(ownerVariable + "=" + Owner()),
		"without a label":         start(),
		"with an empty label":     start(ownerVariable + "="),
		"with a foreign label":    start(ownerVariable + "=somebody"),
		"with a label in a value": start("OTHER=" + ownerVariable + "=" + dead),
	}
	environs := []string{"/proc/self/environ", "/proc/none/environ"}
	for _, cmd := range append(slices.Collect(maps.Values(others)), orphan) {
		environs = append(environs, fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
	}
	killAll(orphans(environs))

	err := orphan.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the orphan ended with %v", err)
	}
	for what, cmd := range others {
		if startTime(cmd.Process.Pid) == "" {
			t.Errorf("the process %s was killed", what)
		}
	}
	if n := killAll(orphans(environs)); n != 0 {
		t.Errorf("a second sweep found %d orphans", n)
	}
}

func TestStartTimeReadsPastAnyCommandName(t *testing.T) {
	t.Parallel()
	name := t.TempDir() + "/a ) R 1 2"
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "600")
	cmd.Args[0] = "sleep"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ticks := startTime(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if own := startTime(os.Getpid()); number(t, ticks) < number(t, own) {
		t.Errorf("a child started at %s, before this process at %s", ticks, own)
	}
	if startTime(cmd.Process.Pid) == ticks {
		t.Error("an ended process still has its start time")
	}
}

func TestOnlyThisUsersProcessesAreOrphans(t *testing.T) {
	t.Parallel()
	folder := t.TempDir() // as in /proc/PID
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := strconv.Itoa(os.Geteuid())
	for uids, want := range map[string]bool{
		own + "\t" + own + "\t" + own + "\t" + own:    true,
		"4711\t" + own + "\t" + own + "\t" + own:      false, // setuid
		"4711\t4711\t4711\t4711":                      false,
		own + "\t" + own + "\t" + own + "\t" + "4711": false,
	} {
		write("status", "Name:\tUid:\nUid:\t"+uids+"\nGid:\t0\t0\t0\t0\n")
		if got := isOfThisUser(folder); got != want {
			t.Errorf("ids %q: %v", uids, got)
		}
	}
}

// startWithoutFiles starts children while ever fewer files may be open, and returns how many
// stay open after the starts that fail.
func startWithoutFiles() string {
	open := func() int {
		entries, _ := os.ReadDir("/proc/self/fd")
		return len(entries)
	}
	if p, err := Start(Spec{Command: "true", Env: os.Environ(), Owner: Owner()}); err == nil { // the runtime opens files of its own at the first
		<-p.Done()
		p.Stdin.Close()
		p.Stdout.Close()
	}
	before, failed := open(), 0
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	for most := before + 12; most >= before; most-- {
		p, err := func() (*Process, error) {
			low := syscall.Rlimit{Cur: uint64(most), Max: limit.Max}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
				return nil, nil
			}
			defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
			return Start(Spec{Command: "true", Env: os.Environ(), Owner: Owner()})
		}()
		if p != nil {
			<-p.Done()
			p.Stdin.Close()
			p.Stdout.Close()
		}
		if err != nil {
			failed++
		}
		if after := open(); after != before {
			return fmt.Sprintf("%d files are open, and %d were (limit %d, %v)", after, before, most, err)
		}
	}
	return fmt.Sprintf("%v", failed >= 6)
}

func TestAStartThatFailsLeavesNoFileOpen(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=exhausted")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "true" {
		t.Errorf("%s, %v", out, err)
	}
}
