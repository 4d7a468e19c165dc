package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/pattern"
)

// store keeps the notes of all identities, in one Markdown file per namespace, which people can
// read and edit.
type store struct{ dir string }

// MaxNote is the maximum size of one namespace, in bytes.
const MaxNote = 4 << 20

const (
	maxNotes = 10_000 // namespaces of one identity
	suffix   = ".md"
)

// NamespaceForm is a regular expression for namespaces: names with slashes between them.
const NamespaceForm = `^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,63}){0,7}$`

var namespacePattern = pattern.Lazy(NamespaceForm)

func checkNamespace(name string) error {
	if namespacePattern().MatchString(name) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%.80q is not a namespace", name).
		WithHint("use names of letters, digits, dots, underscores and hyphens, with slashes between them, such as project/decisions")
}

// folder returns the folder of an identity. People can recognise the identity in its name.
func (s store) folder(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, owner)
	return filepath.Join(s.dir, readable[:min(len(readable), 32)]+"-"+hex.EncodeToString(sum[:6]))
}

func (s store) path(owner, namespace string) string {
	return filepath.Join(s.folder(owner), filepath.FromSlash(namespace)+suffix)
}

// read returns the text of a namespace.
func (s store) read(owner, namespace string) (string, error) {
	if err := checkNamespace(namespace); err != nil {
		return "", err
	}
	data, err := os.ReadFile(s.path(owner, namespace))
	if errors.Is(err, fs.ErrNotExist) {
		return "", toolroom.Errorf(toolroom.CodeNotFound, "nothing is remembered in %s", namespace).WithHint("list the namespaces: memory:list; or search all of them: memory:search")
	}
	return string(data), err
}

// change replaces the text of a namespace by the one that edit returns. It locks the namespace
// against other processes. An empty text removes the namespace.
func (s store) change(ctx context.Context, owner, namespace string, edit func(old string) (string, error)) error {
	if err := checkNamespace(namespace); err != nil {
		return err
	}
	folder := s.folder(owner)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(folder, ".lock"))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return err
	}
	defer lock.Unlock()
	old, err := s.read(owner, namespace)
	isNew := toolroom.CodeOf(err) == toolroom.CodeNotFound
	if err != nil && !isNew {
		return err
	}
	text, err := edit(old)
	switch {
	case err != nil:
		return err
	case len(text) > MaxNote:
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%s would have %d bytes; at most %d are kept in one namespace", namespace, len(text), MaxNote).
			WithHint("write to several namespaces, such as %s/part2", namespace)
	case text == "" && isNew:
		return nil
	case text == "":
		err := os.Remove(s.path(owner, namespace))
		s.forgetVectors(ctx, folder, old, "")
		return err
	}
	if isNew {
		all, err := s.list(owner)
		if err != nil {
			return err
		}
		if len(all) >= maxNotes {
			return toolroom.Errorf(toolroom.CodeResourceLimit, "%d namespaces are kept, the maximum", len(all)).WithHint("remove some: memory:forget")
		}
	}
	path := s.path(owner, namespace)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err = atomicfile.Write(path, []byte(text), 0o600)
	s.forgetVectors(ctx, folder, old, text)
	return err
}

// forgetVectors erases the vectors of the paragraphs that a change has removed. If it fails,
// the next search removes them. No search returns them, because it starts from the notes.
func (s store) forgetVectors(ctx context.Context, folder, old, text string) {
	path := filepath.Join(folder, vectorsFile)
	if _, err := os.Stat(path); err != nil {
		return
	}
	gone := map[embed.Digest]bool{}
	for _, p := range paragraphs(old) {
		gone[embed.DigestOf(p.embeddedText())] = true
	}
	for _, p := range paragraphs(text) {
		delete(gone, embed.DigestOf(p.embeddedText()))
	}
	if len(gone) > 0 {
		_ = eraseVectors(ctx, path, gone)
	}
}

// note is a namespace in a list.
type note struct {
	namespace string
	info      fs.FileInfo
}

// list returns the namespaces of an identity, sorted.
func (s store) list(owner string) ([]note, error) {
	folder := s.folder(owner)
	var all []note
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, suffix) || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		rel, err := filepath.Rel(folder, strings.TrimSuffix(path, suffix))
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && namespacePattern().MatchString(filepath.ToSlash(rel)) {
			all = append(all, note{filepath.ToSlash(rel), info})
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	slices.SortFunc(all, func(a, b note) int { return strings.Compare(a.namespace, b.namespace) })
	return all, err
}
