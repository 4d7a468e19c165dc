//go:build unix

package proc_test

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
)

// A process that outlives its program keeps the pipe open.
func TestASlowReaderGetsAllOutputOfAProgramThatHasEnded(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	printed := strings.Repeat("x", 60<<10)
	if _, err := io.WriteString(write, printed); err != nil {
		t.Fatal(err)
	}
	out := proc.NewOutput(read)
	defer out.Close()
	if _, err := io.ReadFull(out, make([]byte, 10<<10)); err != nil {
		t.Fatal(err)
	}
	out.EndWithin(-time.Second) // it is over before the reader comes back
	rest, err := io.ReadAll(out)
	if err != nil || len(rest) != 50<<10 {
		t.Errorf("the rest has %d bytes: %v", len(rest), err)
	}
}

func TestOutputEndsThoughAnotherProcessGoesOnWriting(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	go func() {
		for line := make([]byte, 4<<10); ; {
			if _, err := write.Write(line); err != nil {
				return
			}
		}
	}()
	out := proc.NewOutput(read)
	defer out.Close()
	out.EndWithin(time.Millisecond)
	if n, err := io.Copy(io.Discard, out); err != nil {
		t.Errorf("after %d bytes: %v", n, err)
	}
}
