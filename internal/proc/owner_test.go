package proc

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// On Windows a process once counted as dead while it lived.
func TestALivingProcessIsAliveAndAnEndedOneIsNot(t *testing.T) {
	own := Owner()
	if !Alive(own) {
		t.Errorf("this process, %s, is dead", own)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command(exe, "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	id, started, stamped := strings.Cut(own, "-")
	name := strconv.Itoa(ended.Process.Pid)
	if stamped {
		name += "-" + started
	}
	if Alive(name) {
		t.Errorf("%s has ended and is alive", name)
	}
	if stamped && Alive(id+"-1"+started) {
		t.Error("a process with the id of an earlier one is taken for it")
	}
}
