package layers_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reads finds code that decides by a detail of an error: a type assertion or a comparison.
var reads = regexp.MustCompile(`\.Details\["?[\w.]+"?\](\.\(| [!=]= )`)

// formatters show details to people.
var formatters = map[string]bool{"internal/cli/exec.go": true, "internal/code/format.go": true, "internal/code/failure.go": true}

// Details are for people; packages tell one another facts ([toolroom.Facts]), so that a
// misspelt name does not compile.
func TestNoPackageDecidesByTheDetailsOfAnError(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" || name != "." && strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || formatters[filepath.ToSlash(name)]:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, found := range reads.FindAll(text, -1) {
			t.Errorf("%s decides by %s: add a field to toolroom.Facts", name, found)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("read %d files: %v", files, err)
	}
	for _, bad := range []string{`e.Details["run"].(string)`, `x.Details[source.Key] != nil`} {
		if !reads.MatchString(bad) {
			t.Errorf("%s is not found", bad)
		}
	}
}
