package proc_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/proc"
)

// connectVariable names the socket to which [TestConnect] connects.
const connectVariable = "TOOLROOM_TEST_CONNECT"

// TestConnect is the other end of a socket, in a process of its own.
func TestConnect(t *testing.T) {
	path := os.Getenv(connectVariable)
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Read(make([]byte, 1)) // until the other end closes
}

func TestBothEndsKnowTheProcessAtTheOther(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("this system does not tell")
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestConnect$")
	child.Env = append(os.Environ(), connectVariable+"="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.CheckPeer(c, child.Process.Pid); err != nil {
		t.Errorf("the child is refused: %v", err)
	}
	if err := proc.CheckPeer(c, os.Getpid()); err == nil || !strings.Contains(err.Error(), "not process") {
		t.Errorf("another process is accepted: %v", err)
	}
	c.Close()
	_ = child.Wait()

	own, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := proc.CheckPeer(own, os.Getpid()); err != nil {
		t.Errorf("the end that connected: %v", err)
	}
}
