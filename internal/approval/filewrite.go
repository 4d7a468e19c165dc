package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// FileWrite shows the change that a call makes to the file that it replaces. Path
// and Content name the arguments that hold the path and the new content. Only
// files below Root are read, whatever links or dots a path has.
type FileWrite struct {
	Root, Path, Content string
}

// Limits on a diff, in bytes.
const (
	maxDiffInput = 1 << 20
	maxDiff      = 32 << 10
)

// Show returns the change as a sentence and as a unified diff. Both are empty if
// the arguments name no file. The error says why the diff is missing.
func (w FileWrite) Show(arguments json.RawMessage) (effect, change string, err error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", "", err
	}
	var name, content string
	if json.Unmarshal(args[w.Path], &name) != nil || json.Unmarshal(args[w.Content], &content) != nil || name == "" {
		return "", "", nil
	}
	old, err := w.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		effect = fmt.Sprintf("creates the file %s (%d bytes)", name, len(content))
	case err != nil:
		return "replaces the file " + name, "", fmt.Errorf("read the file that %s would replace: %w", name, err)
	default:
		effect = fmt.Sprintf("replaces the file %s (%d bytes become %d)", name, len(old), len(content))
	}
	if len(content) > maxDiffInput || !utf8.Valid(old) {
		return effect, "", nil
	}
	change = string(diff.Diff(name+" as it is", old, name+" after the call", []byte(content)))
	_, change, _ = strings.Cut(change, "\n") // the first line names the command
	if len(change) > maxDiff {
		head := change[:maxDiff]
		change = fmt.Sprintf("%s\n(%d more bytes are not shown)\n", strings.ToValidUTF8(head, ""), len(change)-maxDiff)
	}
	return effect, change, nil
}

func (w FileWrite) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(w.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if filepath.IsAbs(name) {
		whole, err := filepath.Abs(w.Root)
		if err != nil {
			return nil, err
		}
		if name, err = filepath.Rel(whole, name); err != nil {
			return nil, err
		}
	}
	// Only regular files are opened: a pipe or device could block the question.
	if info, err := root.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text bytes.Buffer
	if n, err := io.Copy(&text, io.LimitReader(f, maxDiffInput+1)); err != nil {
		return nil, err
	} else if n > maxDiffInput {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxDiffInput)
	}
	return text.Bytes(), nil
}
