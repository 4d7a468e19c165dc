package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a new pseudo-terminal: what a person has, and what a program gets.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close(); program.Close() })
	return person, program
}

func TestAPersonTypesProgramsOnATerminal(t *testing.T) {
	t.Parallel()
	person, program := terminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "toolroom") // testscript knows its commands by their names
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), link, "exec")
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+dir, "TOOLROOM_HOME="+filepath.Join(dir, "home"), "HELPER=yes", "TERM=xterm")
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	shown := bufio.NewReader(person)
	until := func(text string) {
		t.Helper()
		var seen strings.Builder
		for !strings.HasSuffix(seen.String(), text) {
			b, err := shown.ReadByte()
			if err != nil {
				t.Fatalf("%v, waiting for %q; the terminal shows %q", err, text, seen.String())
			}
			seen.WriteByte(b)
		}
	}
	for _, step := range []struct{ typed, shown string }{
		{"", "> "},
		{"const x = 20\r", "\n> "},
		{"function f(n) {\r", "… "},
		{"  return n * x }\r", "\n> "},
		{"f(3)\r", "\n60\r\n> "},
		{"print('spins'); for (;;) {}\r", "\nspins\r\n"},
		{"\x03", "was cancelled\r\n> "}, // Ctrl-C ends the program,
		{"x +\x03", "\n> "},             // and forgets a line,
		{"[1,\r", "… "},
		{"\x03", "\n> "}, // and a program that is not whole,
		{"x + 1\r", "\n21\r\n> "},
		{"\x1b[A\r", "\n21\r\n> "}, // and what was typed comes again.
		{"\x04", ""},
	} {
		if _, err := person.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
		until(step.shown)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "home", "history"))
	if err != nil || !strings.HasPrefix(string(kept), "const x = 20\nfunction f(n) {\n") {
		t.Errorf("the history is %q, %v", kept, err)
	}
}
