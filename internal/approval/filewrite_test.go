package approval

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAWriteIsShownAsADiff(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	for name, text := range map[string]string{
		"secret": "password\n", "root/notes.md": "one\ntwo\nthree\n", "root/binary": "\xff\xfe", "root/big": strings.Repeat("line\n", 300_000),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		arguments    any
		effect, diff string
		fails        bool
	}{
		"a changed file":            {write{"notes.md", "one\n2\nthree\n"}, "replaces the file notes.md (14 bytes become 12)", " one\n-two\n+2\n three\n", false},
		"by its absolute path":      {write{filepath.Join(root, "notes.md"), "1\n"}, "become 2", "-one\n-two\n-three\n+1\n", false},
		"a new file":                {write{"new.md", "hello\n"}, "creates the file new.md (6 bytes)", "+hello\n", false},
		"the same text":             {write{"notes.md", "one\ntwo\nthree\n"}, "replaces", "", false},
		"a binary file":             {write{"binary", "text"}, "replaces the file binary", "", false},
		"a file that is too large":  {write{"big", "text"}, "replaces the file big", "", true},
		"a long change is cut":      {write{"new.md", strings.Repeat("word\n", 20_000)}, "creates", "more bytes are not shown", false},
		"a file outside":            {write{"../secret", "x"}, "replaces the file ../secret", "", true},
		"a file outside, absolute":  {write{filepath.Join(outside, "secret"), "x"}, "replaces the file", "", true},
		"a link that leads outside": {write{"link", "x"}, "replaces the file link", "", true},
		"a folder":                  {write{".", "x"}, "replaces the file .", "", true},
		"no path":                   {map[string]any{"content": "x"}, "", "", false},
		"a content that is no text": {map[string]any{"path": "new.md", "content": 1}, "", "", false},
		"a path that is no text":    {map[string]any{"path": 1, "content": "x"}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments, err := json.Marshal(tt.arguments)
			if err != nil {
				t.Fatal(err)
			}
			effect, diff, err := FileWrite{Root: root, Path: "path", Content: "content"}.Show(arguments)
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(effect, tt.effect) || tt.effect == "" && effect != "" {
				t.Errorf("effect %q", effect)
			}
			if !strings.Contains(diff, tt.diff) || tt.diff == "" && diff != "" || len(diff) > maxDiff+100 {
				t.Errorf("diff %.300q", diff)
			}
			if strings.Contains(diff, "password") {
				t.Error("the diff shows a file outside of the root")
			}
		})
	}
}

type write struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}
