//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom"
)

// everythingSource returns the everything server with a second argument, which it ignores, and by which its
// processes differ from those of other tests.
func (r *room) everythingSource() object {
	return npmServer(r.t, "mcp-server-everything", "stdio", r.files)
}

// upstreamPIDs returns the processes with the room's folder in their arguments.
func (r *room) upstreamPIDs() []int {
	r.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		r.t.Fatalf("this needs /proc: %v", err)
	}
	var pids []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(line), "\x00"), r.files) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		pids = append(pids, pid)
	}
	return pids
}

// upstreamPID returns the only such process.
func (r *room) upstreamPID() int {
	r.t.Helper()
	pids := r.upstreamPIDs()
	if len(pids) != 1 {
		r.t.Fatalf("the upstream server runs %d times, want once", len(pids))
	}
	return pids[0]
}

func (r *room) wantNoUpstream() {
	r.t.Helper()
	eventually(r.t, "no upstream server is left", func() bool { return len(r.upstreamPIDs()) == 0 })
}

func TestNoProcessIsLeft(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{
		"after the server is asked to end": syscall.SIGTERM,
		"after the server is killed":       syscall.SIGKILL,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, nil)
			// The second runs below a shell, as programs started by npx do.
			shell := object{"mcp": object{"command": "sh", "args": []string{"-c", `"$@"; true`, "sh", nodeProgram(t), npmProgram(t, "mcp-server-everything"), "stdio", r.files}}}
			r.configure(object{"filesystem": r.filesystem(), "term": shell})
			s := r.serveListed()
			a := api{r, s.url + "/api/v1"}
			a.want("200", "/call", "-d", `{"tool": "filesystem:list_allowed_directories"}`)
			a.want("200", "/call", "-d", `{"tool": "term:echo", "arguments": {"message": "m"}}`)
			if len(r.upstreamPIDs()) != 3 {
				t.Errorf("%d processes run, want 3", len(r.upstreamPIDs()))
			}
			s.stop(t, signal)
			r.wantNoUpstream()
		})
	}
	t.Run("after a call in the middle is cut off by the end", func(t *testing.T) {
		r := newRoom(t, nil)
		r.configure(object{"everything": r.everythingSource()})
		s := r.serveListed()
		ended := r.startLongCall(s, 500)
		s.stop(t, syscall.SIGTERM)
		<-ended
		r.wantNoUpstream()
	})
	t.Run("after its source is removed", func(t *testing.T) {
		t.Parallel()
		r := bareRoom(t)
		r.toolroom(0, "init")
		r.toolroom(0, "sources", "add", "filesystem", "--", nodeProgram(t), npmProgram(t, "mcp-server-filesystem"), r.files)
		a := api{r, r.serveAt("127.0.0.1:0").url + "/api/v1"}
		eventually(t, "the tool can be called", func() bool {
			status, _ := a.request("/call", "-d", `{"tool": "filesystem:list_allowed_directories"}`)
			return status == "200"
		})
		r.upstreamPID()
		r.toolroom(0, "sources", "remove", "filesystem")
		r.wantNoUpstream()
		a.want("404", "/call", "-d", `{"tool": "filesystem:list_allowed_directories"}`)
	})
	t.Run("after a command that called a tool", func(t *testing.T) {
		r := newRoom(t, nil)
		r.configure(object{"filesystem": r.filesystem()})
		r.toolroom(0, "call", "filesystem:list_allowed_directories")
		r.wantNoUpstream()
	})
}

// startLongCall starts a call with a number of steps of 100 ms and waits for the first. The result
// arrives on the channel.
func (r *room) startLongCall(s *server, steps int) <-chan toolroom.Result {
	r.t.Helper()
	c := r.command(r.t.Context(), "curl", "-sN", s.url+"/api/v1/call?stream=true", "-d",
		fmt.Sprintf(`{"tool": "everything:trigger-long-running-operation", "timeout_ms": 60000, "arguments": {"duration": %g, "steps": %d}}`, float64(steps)/10, steps))
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	started, ended := make(chan bool, 1), make(chan toolroom.Result, 1)
	go func() {
		defer close(ended)
		var result toolroom.Result
		for line := range eachLine(out) {
			if strings.HasPrefix(line, "event: progress") {
				select {
				case started <- true:
				default:
				}
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if event := decode[toolroom.Event](r.t, data); event.Final() {
					result = *event.Result
				}
			}
		}
		close(started)
		c.Wait()
		ended <- result
	}()
	if !<-started {
		r.t.Fatal("the call ended before any progress")
	}
	return ended
}

func TestUpstreamThatIsKilledIsStartedAgain(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"everything": r.everythingSource()})
	s := r.serveListed()
	ended := r.startLongCall(s, 30)
	killed := r.upstreamPID()
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The tool is read-only: its call may be repeated, and is.
	if result := <-ended; result.Status != toolroom.StatusOK || result.Usage.Attempts != 2 {
		t.Errorf("the call ended with %s after %d attempts: %+v", result.Status, result.Usage.Attempts, result.Error)
	}
	api{r, s.url + "/api/v1"}.want("200", "/call", "-d", `{"tool": "everything:echo", "arguments": {"message": "m"}}`)
	if r.upstreamPID() == killed {
		t.Error("the killed process is there")
	}
}

func TestUpstreamThatHangsTimesOutAlone(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem(), "memo": npmServer(t, "mcp-server-memory")})
	a := api{r, r.serveListed().url + "/api/v1"}
	list := `{"tool": "filesystem:list_allowed_directories", "timeout_ms": 1500}`
	a.want("200", "/call", "-d", list)
	pid := r.upstreamPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
	write := encode(t, object{"tool": "filesystem:write_file", "timeout_ms": 1500, "arguments": object{"path": r.files + "/new.txt", "content": "x"}})
	result := decode[toolroom.Result](t, a.want("504", "/call", "-d", write))
	if result.Status != toolroom.StatusTimeout || result.Error.Code != toolroom.CodeTimeout || result.Effects != toolroom.EffectsUnknown {
		t.Errorf("the call ended with %s, its effects are %s, want unknown: %+v", result.Status, result.Effects, result.Error)
	}
	// While Toolroom looks whether the server still answers, it sends no further call.
	if result := decode[toolroom.Result](t, a.want("504", "/call", "-d", write)); result.Effects != toolroom.EffectsNone {
		t.Errorf("the effects of the write after it are %s, want none", result.Effects)
	}
	a.want("200", "/call", "-d", `{"tool": "memo:read_graph", "timeout_ms": 10000}`)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.want("200", "/call", "-d", `{"tool": "filesystem:list_allowed_directories"}`)
}
