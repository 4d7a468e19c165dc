package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestPipedProgramsAreReadToTheirEnd reads many lines, and one that is no program any more.
func TestPipedProgramsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1<<20) + "\r\n"
	a := &cli{Program: Program{In: io.MultiReader(strings.NewReader(strings.Repeat(line, maxDocument>>20+1)), strings.NewReader("last"))}}
	lines, _, err := a.lineReader()
	if err != nil {
		t.Fatal(err)
	}
	read, last := 0, ""
	for ; ; read++ {
		next, err := lines(false)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = next
	}
	if read != maxDocument>>20+2 || last != "last" {
		t.Errorf("%d lines were read, the last is %.20q", read, last)
	}
	a.In = strings.NewReader(strings.Repeat("x", 2*maxProgram))
	if lines, _, err = a.lineReader(); err != nil {
		t.Fatal(err)
	}
	if _, err := readProgram("js", lines); !errors.Is(err, errProgramTooLong) {
		t.Errorf("a line of %d bytes: %v", 2*maxProgram, err)
	}
}
