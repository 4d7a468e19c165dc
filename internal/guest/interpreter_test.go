//go:build unix

package guest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/proc"
)

// TestAnInterpreterThatEndsBeforeItReadsTheProgramIsReplaced ends the interpreter that waits
// after the guest has seen it alive.
func TestAnInterpreterThatEndsBeforeItReadsTheProgramIsReplaced(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, c := range []struct {
		name string
		end  func(theirs net.Conn)
		runs bool // again
	}{
		{"before anything is sent", func(theirs net.Conn) { theirs.Close() }, true},
		{"with a part of the program unread", func(theirs net.Conn) {
			_, _ = theirs.Read(make([]byte, 10))
			theirs.Close()
		}, true},
		{"with the program read", func(theirs net.Conn) {
			_, _, _ = bridge.NewWire(theirs).Read()
			theirs.Close()
		}, false},
		{"after it has sent something", func(theirs net.Conn) {
			_ = bridge.NewWire(theirs).Write(bridge.Frame{Kind: bridge.Print, Body: bridge.Map{{Key: "text", Value: "begun"}}})
			_, _ = theirs.Read(make([]byte, 10))
			theirs.Close()
		}, false},
		{"with something that is no frame", func(theirs net.Conn) {
			_, _ = theirs.Write([]byte("\x00\x00\x00\x01?"))
			_, _ = theirs.Read(make([]byte, 10))
			theirs.Close()
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := connected(t)
			server, guest := connected(t)
			ended := exec.Command("true")
			if err := ended.Run(); err != nil {
				t.Fatal(err)
			}
			program := bridge.Program{Language: "python", Source: "6 * 7", Limits: bridge.Limits{}.WithDefaults()}
			r := &run{server: bridge.NewWire(guest), work: t.TempDir(), program: program, prepared: make(chan struct{})}
			close(r.prepared)
			r.start = bridge.Frame{Kind: bridge.Start, Token: []byte("token"), Body: bridge.Map{
				{Key: "language", Value: "python"}, {Key: "source", Value: program.Source}, {Key: "name", Value: "p.py"},
			}}
			done := make(chan error, 1)
			go func() {
				done <- r.interpret(t.Context(), &interpreterProcess{path: "python3", stream: ours, kill: func() error { return nil }, wait: func() *os.ProcessState { return ended.ProcessState }})
			}()
			go c.end(theirs)
			var last bridge.Frame
			from := bridge.NewWire(server)
			for last.Kind != bridge.Done && last.Kind != bridge.Failed {
				var err error
				if last, _, err = from.Read(); err != nil {
					t.Fatal(err)
				}
			}
			if again := last.Kind == bridge.Done; again != c.runs || again && last.Body.Get("value") != int64(42) {
				t.Errorf("it ends with %s: %v", last.Kind, last.Body)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A program may be cancelled before its interpreter has started. An interpreter ignores a cancel
// that precedes its program.
func TestAnInterpreterGetsItsProgramBeforeItsCancellation(t *testing.T) {
	t.Parallel()
	ours, theirs := connected(t)
	server, guest := connected(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	r := &run{server: bridge.NewWire(guest), work: t.TempDir(), program: bridge.Program{Language: "python"}, prepared: make(chan struct{})}
	close(r.prepared)
	r.start = bridge.Frame{Kind: bridge.Start, Token: []byte("token"), Body: bridge.Map{{Key: "source", Value: "6 * 7"}}}
	listening := make(chan error, 1)
	go func() { listening <- r.listen() }()
	to := bridge.NewWire(server)
	// The second frame has been read once the third fits into the stream.
	for _, f := range []bridge.Frame{{Kind: bridge.Cancel, Token: []byte("token")}, {Kind: bridge.Alive}, {Kind: bridge.Alive, Body: bridge.Map{{Key: "x", Value: make([]byte, 4<<20)}}}} {
		if err := to.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- r.interpret(t.Context(), &interpreterProcess{path: "python3", stream: ours, kill: func() error { return nil }, wait: func() *os.ProcessState { return ended.ProcessState }})
	}()
	_ = theirs.SetDeadline(time.Now().Add(time.Minute))
	child := bridge.NewWire(theirs)
	for _, want := range []bridge.Kind{bridge.Start, bridge.Cancel} {
		if f, _, err := child.Read(); err != nil || f.Kind != want {
			t.Fatalf("the interpreter gets %s, %v; want %s", f.Kind, err, want)
		}
	}
	if err := child.Write(bridge.Frame{Kind: bridge.Failed, Token: []byte("token")}); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	server.Close()
	if err := <-listening; err != nil {
		t.Error(err)
	}
}

// A program ends when its first process has, though another holds its input and reads nothing.
func TestAProgramEndsThoughALeftoverHoldsItsInput(t *testing.T) {
	t.Parallel()
	_, guest := connected(t)
	r := &run{server: bridge.NewWire(guest), work: t.TempDir(), program: bridge.Program{Limits: bridge.Limits{}.WithDefaults()}}
	// A job of a shell has no input of its own, so it gets another descriptor of it.
	cmd := r.newCommand(t.Context(), "sh", "-c", `exec 3<&0; setsid sleep 600 & echo $! > pid; exit 3`)
	cmd.Stdin = bytes.NewReader(make([]byte, 1<<20)) // more than a pipe holds
	wait, err := r.startCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { ended <- wait().ExitCode() }()
	select {
	case code := <-ended:
		if code != 3 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("it has not ended")
	}
	text, err := os.ReadFile(filepath.Join(r.work, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error("the leftover did not live: ", err)
	}
}

// connected returns both ends of a stream.
func connected(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	ours, file, err := proc.SocketPair(syscall.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if theirs, err = net.FileConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestTheOutputIsWholeThoughTheServerTakesItSlowly(t *testing.T) {
	t.Parallel()
	server, guest := net.Pipe()
	defer server.Close()
	r := &run{server: bridge.NewWire(guest), work: t.TempDir(), program: bridge.Program{Limits: bridge.Limits{}.WithDefaults()}}
	wait, err := r.startCommand(r.newCommand(t.Context(), "seq", "1", "9999"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait()
		guest.Close()
	}()
	time.Sleep(daemonGrace + daemonGrace/2) // the program has ended long before
	printed := 0
	for from := bridge.NewWire(server); ; {
		f, _, err := from.Read()
		if err != nil {
			break
		}
		printed += len(f.Body.Text("text"))
	}
	<-ended
	if want := 48_888; printed != want {
		t.Errorf("%d of %d bytes arrived", printed, want)
	}
}
