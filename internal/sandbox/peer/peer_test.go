package peer_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/sandbox/peer"
)

// TestMain connects to a socket if the environment names one.
func TestMain(m *testing.M) {
	if path := os.Getenv("TOOLROOM_TEST_CONNECT"); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			panic(err)
		}
		_, _ = c.Read(make([]byte, 1)) // until the other end closes
		os.Exit(0)
	}
	os.Exit(m.Run())
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
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TOOLROOM_TEST_CONNECT="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Check(c, child.Process.Pid); err != nil {
		t.Errorf("the child is refused: %v", err)
	}
	if err := peer.Check(c, os.Getpid()); err == nil || !strings.Contains(err.Error(), "not process") {
		t.Errorf("another process is accepted: %v", err)
	}
	c.Close()
	_ = child.Wait()

	own, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := peer.Check(own, os.Getpid()); err != nil {
		t.Errorf("the end that connected: %v", err)
	}
}
