package shell

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// A home is writable for the caller's commands from the moment it has its name, so nothing is
// written into it by name after that.
func TestAHomeIsCompleteBeforeACommandCanWriteIntoIt(t *testing.T) {
	state, bin := t.TempDir(), t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	// While Toolroom asks git for the author, another command of the caller has time to run.
	// This git does what such a command would do.
	script := "#!/bin/sh\nfor home in " + state + "/*/home; do [ -d $home ] && ln -sf " + victim + " $home/.gitconfig; done\necho somebody\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	s := &Shell{o: Options{State: state, Runtime: RuntimeProcess}}
	home, err := s.homeOf(t.Context(), &source.Request{}, RuntimeProcess)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "kept" {
		t.Errorf("a file outside of the home has %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(home, ".gitconfig")); err != nil || string(text) != "[user]\n\tname = \"somebody\"\n\temail = \"somebody\"\n" {
		t.Errorf("%q, %v", text, err)
	}
	names, err := os.ReadDir(filepath.Dir(home))
	if err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
	if again, err := s.homeOf(t.Context(), &source.Request{}, RuntimeProcess); again != home || err != nil {
		t.Errorf("%s, %v", again, err)
	}
}

func TestAFullHomeIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := New(Options{State: dir, HomeSize: 1000})
	home, err := s.homeOf(t.Context(), &source.Request{}, RuntimeProcess)
	if err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(home, "big")
	if err := os.WriteFile(big, make([]byte, 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare := func(line string) error {
		_, err := s.prepare(t.Context(), &source.Request{}, &command{argv: []string{"sh", "-c", line}}, sessionState{})
		return err
	}
	if err := prepare("make"); toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
		t.Errorf("a full home: %v", err)
	}
	for _, line := range []string{"rm ~/big", " rm -rf $HOME/.cache \"${HOME}/a b\"\n", "ls", "du -sh ~"} {
		if err := prepare(line); err != nil {
			t.Errorf("%q, which frees space: %v", line, err)
		}
	}
	for _, line := range []string{"ls ~; make", "ls ~ && make", "ls ~ | tee ~/more", "du ~ > ~/more", "ls $(make)", "ls `make`", "rm x\nmake", "ls ${x:-$(make)}", "rmdir x", "ls <(make)"} {
		if err := prepare(line); toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
			t.Errorf("%q, which does more than free space: %v", line, err)
		}
	}
	if err := os.Remove(big); err != nil {
		t.Fatal(err)
	}
	if err := prepare("make"); err != nil {
		t.Errorf("a home with space again: %v", err)
	}
}
