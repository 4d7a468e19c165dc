package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/taint"
)

// Options configure a Store. The zero value is right for a server.
type Options struct {
	// Results and Files are the limits of the kinds; a zero field is that of
	// DefaultLimits.
	Results, Files Limits
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Labels returns the taint labels for bytes that are stored with ctx. OnRead is called
	// before bytes are read, with the subject of the reader and the labels of the bytes; an
	// error prevents the read. Both may be nil.
	Labels func(ctx context.Context) []taint.Label
	OnRead func(ctx context.Context, subject string, labels []taint.Label) error
	// Redactor removes secrets from what Read and OpenRedacted return of files. Files are stored
	// as they are, because tools need their bytes. Nil means that nothing is redacted.
	Redactor Redactor
}

// Redactor removes known secrets. [secret.Redactor] implements it.
type Redactor interface {
	// Redact returns a text without known secrets. Valid JSON stays valid.
	Redact(text []byte) []byte
	// Reader returns a reader of the same text without known secrets.
	Reader(r io.Reader) io.Reader
}

// noRedactor leaves texts as they are.
type noRedactor struct{}

func (noRedactor) Redact(text []byte) []byte    { return text }
func (noRedactor) Reader(r io.Reader) io.Reader { return r }

// Store keeps artifacts. Its methods are safe for concurrent use, and several
// processes may have the same folder and index open.
type Store struct {
	dir    string
	index  Index
	limits map[Kind]Limits
	now    func() time.Time
	labels func(context.Context) []taint.Label
	onRead func(context.Context, string, []taint.Label) error
	redact Redactor

	mu        sync.Mutex
	lastSweep time.Time
}

// sweepEvery bounds how long an expired artifact stays on the disk of a store that is in use.
const sweepEvery = time.Minute

// orphanAge is how old a file without an entry must be before it counts as left
// over from a crash: younger ones may belong to a Put that is under way.
const orphanAge = 10 * time.Minute

// Open opens the store in dir, which it makes if need be, and sweeps out what
// has expired and what crashes have left.
func Open(ctx context.Context, dir string, index Index, opts Options) (*Store, error) {
	s := &Store{
		dir:   dir,
		index: index,
		limits: map[Kind]Limits{
			Result: opts.Results.withDefaults(Result),
			File:   opts.Files.withDefaults(File),
		},
		now: opts.Now, labels: opts.Labels, onRead: opts.OnRead, redact: opts.Redactor,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the artifacts: %w", err)
	}
	if err := s.Sweep(ctx); err != nil {
		return nil, err
	}
	if err := s.sweepOrphans(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Put durably stores the bytes of r for owner, under a new handle. It replaces unsafe
// characters in the name. If the bytes exceed the limits, the error has code resource_limit;
// Put removes no other artifact.
func (s *Store) Put(ctx context.Context, owner string, kind Kind, name, mime string, r io.Reader) (toolroom.Artifact, error) {
	limits, ok := s.limits[kind]
	if !ok {
		return toolroom.Artifact{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no kind of artifact %q", kind)
	}
	if err := s.sweepIfDue(ctx); err != nil {
		return toolroom.Artifact{}, err
	}
	// Checked before writing, so that a full store uses no further disk space.
	used, err := s.index.ArtifactUsage(ctx, owner, kind, s.now())
	if err != nil {
		return toolroom.Artifact{}, err
	}
	if err := limits.Admit(kind, used, 0); err != nil {
		return toolroom.Artifact{}, err
	}

	e := &Entry{Handle: newHandle(kind), Owner: owner, Kind: kind, Name: safeName(name), MIMEType: mime}
	if s.labels != nil {
		e.Labels = s.labels(ctx)
	}
	path := s.path(owner, e.Handle)
	room := min(limits.Each, limits.Total-used.Bytes)
	e.Size, err = writeFile(path, contextReader{ctx, r}, room)
	switch {
	case errors.Is(err, errTooLarge):
		return toolroom.Artifact{}, limits.Admit(kind, used, room+1)
	case errors.Is(err, syscall.ENOSPC):
		return toolroom.Artifact{}, diskFull(s.dir, err)
	case err != nil:
		return toolroom.Artifact{}, fmt.Errorf("keep the bytes of a %s: %w", kind, err)
	}
	e.Created = s.now()
	e.Expires = e.Created.Add(limits.TTL)
	if err := s.index.AddArtifact(ctx, e, limits); err != nil {
		return toolroom.Artifact{}, errors.Join(err, os.Remove(path))
	}
	return e.Artifact(), nil
}

// Open returns the bytes of an artifact, or not_found if owner cannot reach one with this handle.
// The caller closes the file; deleting or expiring does not cut it off.
func (s *Store) Open(ctx context.Context, owner, handle string) (*os.File, toolroom.Artifact, error) {
	f, e, err := s.open(ctx, owner, handle)
	if err != nil {
		return nil, toolroom.Artifact{}, err
	}
	return f, e.Artifact(), nil
}

func (s *Store) open(ctx context.Context, owner, handle string) (*os.File, *Entry, error) {
	e, err := s.entry(ctx, owner, handle)
	if err != nil {
		return nil, nil, err
	}
	if s.onRead != nil && len(e.Labels) > 0 {
		if err := s.onRead(ctx, identity.Subject(owner), e.Labels); err != nil {
			return nil, nil, err
		}
	}
	f, err := os.Open(s.path(e.Owner, handle))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, NotFound(handle)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open artifact %s: %w", handle, err)
	}
	return f, e, nil
}

// OpenRedacted is Open for bytes that are shown: secrets in a file are redacted. A caller that
// reads it in parts must not see the parts of a secret, which redaction of each part would not
// find. The size of the artifact is that of the stored bytes.
func (s *Store) OpenRedacted(ctx context.Context, owner, handle string) (io.ReadCloser, toolroom.Artifact, error) {
	f, e, err := s.open(ctx, owner, handle)
	if err != nil {
		return nil, toolroom.Artifact{}, err
	}
	return struct {
		io.Reader
		io.Closer
	}{contextReader{ctx, s.redactor(e.Kind).Reader(f)}, f}, e.Artifact(), nil
}

// redactor returns the redactor for artifacts of a kind. Results were redacted before they were
// stored.
func (s *Store) redactor(kind Kind) Redactor {
	if s.redact == nil || kind == Result {
		return noRedactor{}
	}
	return s.redact
}

// Stat describes an artifact, or reports not_found.
func (s *Store) Stat(ctx context.Context, owner, handle string) (toolroom.Artifact, error) {
	e, err := s.entry(ctx, owner, handle)
	if err != nil {
		return toolroom.Artifact{}, err
	}
	return e.Artifact(), nil
}

func (s *Store) entry(ctx context.Context, owner, handle string) (*Entry, error) {
	if !isHandle(handle) {
		return nil, NotFound(handle)
	}
	return s.index.Artifact(ctx, owner, handle, s.now())
}

// List describes what owner reaches, oldest first.
func (s *Store) List(ctx context.Context, owner string) ([]toolroom.Artifact, error) {
	entries, err := s.index.Artifacts(ctx, owner, s.now())
	if err != nil {
		return nil, err
	}
	list := make([]toolroom.Artifact, len(entries))
	for i, e := range entries {
		list[i] = e.Artifact()
	}
	return list, nil
}

// Delete removes an artifact, or reports not_found.
func (s *Store) Delete(ctx context.Context, owner, handle string) error {
	e, err := s.entry(ctx, owner, handle)
	if err != nil {
		return err
	}
	if err := s.index.DeleteArtifact(ctx, owner, handle, s.now()); err != nil {
		return err
	}
	return removeFile(s.path(e.Owner, handle))
}

// Sweep removes expired artifacts. Open calls it, and Put about once a minute.
func (s *Store) Sweep(ctx context.Context) error {
	now := s.now()
	s.mu.Lock()
	s.lastSweep = now
	s.mu.Unlock()
	expired, err := s.index.SweepArtifacts(ctx, now)
	if err != nil {
		return err
	}
	for _, e := range expired {
		if err := removeFile(s.path(e.Owner, e.Handle)); err != nil {
			return err
		}
	}
	return nil
}

// sweepIfDue calls Sweep if the last sweep is sweepEvery ago.
func (s *Store) sweepIfDue(ctx context.Context) error {
	s.mu.Lock()
	due := s.now().Sub(s.lastSweep) >= sweepEvery
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.Sweep(ctx)
}

// sweepOrphans removes files without an entry in the index.
func (s *Store) sweepOrphans(ctx context.Context) error {
	known, err := s.index.ArtifactHandles(ctx)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || known[d.Name()] {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process was faster
		}
		if err != nil || s.now().Sub(info.ModTime()) < orphanAge {
			return err
		}
		return removeFile(path)
	})
	if err != nil {
		return fmt.Errorf("sweep the artifacts: %w", err)
	}
	return nil
}

// path returns the path of the file with the bytes of an artifact. Owners are hashed because their
// names are not safe as file names.
func (s *Store) path(owner, handle string) string {
	sum := sha256.Sum256([]byte(owner))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]), handle)
}

func diskFull(dir string, cause error) error {
	return &toolroom.Error{
		Code:      toolroom.CodeInternal,
		Phase:     toolroom.PhaseShape,
		Message:   fmt.Sprintf("the disk that holds %s is full", dir),
		Retryable: true,
		Hint:      "free space there; nothing else is needed",
		Cause:     cause,
	}
}
