package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/taint"
)

// Options configure a Store. The zero value is right for a server.
type Options struct {
	Limits Limits
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// Store stores sessions. Its methods are safe for concurrent use, and several
// processes may have the same folder open.
type Store struct {
	dir    string
	limits Limits
	now    func() time.Time
}

// Open opens the store in dir and deletes expired sessions. The first saved session
// creates dir.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, limits: o.Limits.withDefaults(), now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s, s.Sweep()
}

// Run is a session that one run holds exclusively until [Run.End].
type Run struct {
	// Info describes the stored session. Its Engine is empty if the session is new.
	Info  Info
	State []byte

	store     *Store
	owner, id string
	lock      *lock
}

// Begin locks a session for a run. It waits until earlier runs have ended, including
// those of other processes, or until ctx ends. If there is no such session, it is new,
// and the first [Run.Save] saves it.
func (s *Store) Begin(ctx context.Context, owner, id string) (*Run, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	l, err := s.lockSession(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	r := &Run{store: s, owner: owner, id: id, lock: l}
	r.Info, r.State, err = s.load(owner, id, true)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		r.Info, err = Info{ID: id, Created: s.now()}, nil
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return r, nil
}

// lockSession locks a session.
func (s *Store) lockSession(ctx context.Context, owner, id string) (*lock, error) {
	if err := os.MkdirAll(s.folder(owner), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of sessions: %w", err)
	}
	l, err := acquire(ctx, s.path(owner, id)+lockExtension)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeOf(err), "session %s is in use by another run: %w", id, err).
			WithHint("wait for it, or work in a fork of the session").WithCLIHint("toolroom session fork %s NAME", id)
	}
	return l, nil
}

// Save replaces the state with that after the run. If a limit is exceeded, the error has
// code resource_limit, and the state stays unchanged. Labels are the taint labels of what
// the run has read; they are added to those of the session.
func (r *Run) Save(ctx context.Context, engine, language string, state []byte, labels ...taint.Label) error {
	info := r.Info
	info.Engine, info.Language = engine, language
	var all taint.Set
	all.Add(info.Labels...)
	all.Add(labels...)
	info.Labels = all.Labels()
	info.Runs++
	if err := r.store.put(ctx, r.owner, info, state); err != nil {
		return err
	}
	r.Info, r.State = info, state
	return nil
}

// End releases the session for the next run. A session that no run has saved leaves no file.
func (r *Run) End() error {
	if _, err := os.Stat(r.store.path(r.owner, r.id)); errors.Is(err, fs.ErrNotExist) {
		return r.lock.discard()
	}
	return r.lock.release()
}

// put saves a session if the limits allow it.
func (s *Store) put(ctx context.Context, owner string, info Info, state []byte) error {
	// The usage must not change between counting and writing.
	l, err := acquire(ctx, filepath.Join(s.dir, "all"+lockExtension))
	if err != nil {
		return fmt.Errorf("wait for the lock of the session store: %w", err)
	}
	defer l.release()
	info.Bytes = int64(len(state))
	info.Used = s.now()
	info.Expires = info.Used.Add(s.limits.Idle)
	used, err := s.usage(owner, info.ID)
	if err != nil {
		return err
	}
	if err := s.limits.admit(used, info.Bytes); err != nil {
		return err
	}
	return write(s.path(owner, info.ID), info, state)
}

// List returns the sessions of an owner, sorted by name.
func (s *Store) List(owner string) ([]Info, error) {
	list := []Info{}
	err := s.each(s.folder(owner), func(path string, info Info) error {
		if info.Expires.After(s.now()) {
			list = append(list, info)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

// Create saves an empty session under a free name: the first run in it chooses the engine.
func (s *Store) Create(ctx context.Context, owner, id string) (Info, error) {
	r, err := s.Begin(ctx, owner, id)
	if err != nil {
		return Info{}, err
	}
	defer r.End()
	if !r.Info.Used.IsZero() {
		return Info{}, errExists(id)
	}
	if err := s.put(ctx, owner, r.Info, nil); err != nil {
		return Info{}, err
	}
	made, _, err := s.load(owner, id, false)
	return made, err
}

func errExists(id string) error {
	return toolroom.Errorf(toolroom.CodeConflict, "session %s already exists", id).
		WithHint("choose another name, or delete it first")
}

// Fork copies a session to another name, which must be free.
func (s *Store) Fork(ctx context.Context, owner, id, to string) (Info, error) {
	info, state, err := s.load(owner, id, true)
	if err != nil {
		return Info{}, err
	}
	return s.add(ctx, owner, to, info, state)
}

// Export writes a session for [Store.Import], which may be that of another store.
func (s *Store) Export(owner, id string, to io.Writer) error {
	info, state, err := s.load(owner, id, true)
	if err != nil {
		return err
	}
	data, err := encode(info, state)
	if err == nil {
		_, err = to.Write(data)
	}
	return err
}

// Import saves an exported session. Its name must be free; if id is empty, it is the
// name that the session had. A session contains code: the importer's next program in
// it runs that code.
func (s *Store) Import(ctx context.Context, owner, id string, from io.Reader) (Info, error) {
	info, state, err := decode(from, true)
	if err != nil {
		return Info{}, err
	}
	if id == "" {
		id = info.ID
	}
	return s.add(ctx, owner, id, info, state)
}

// add saves a session under a free name.
func (s *Store) add(ctx context.Context, owner, id string, info Info, state []byte) (Info, error) {
	r, err := s.Begin(ctx, owner, id)
	if err != nil {
		return Info{}, err
	}
	defer r.End()
	if !r.Info.Used.IsZero() {
		return Info{}, errExists(id)
	}
	r.Info.Runs = info.Runs - 1 // Save adds one
	if err := r.Save(ctx, info.Engine, info.Language, state, info.Labels...); err != nil {
		return Info{}, err
	}
	added, _, err := s.load(owner, id, false)
	return added, err
}

// Delete deletes a session. It first waits until a run that holds it has ended.
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	_, _, err := s.load(owner, id, false)
	if idErr := checkID(id); idErr != nil || toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return cmp.Or(idErr, err)
	}
	l, err := s.lockSession(ctx, owner, id) // not Begin: a damaged session can be deleted
	if err != nil {
		return err
	}
	return errors.Join(remove(s.path(owner, id)), l.discard())
}

// Sweep deletes expired sessions. [Open] calls it.
func (s *Store) Sweep() error {
	folders, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		err := s.each(filepath.Join(s.dir, folder.Name()), func(path string, info Info) error {
			if info.Expires.After(s.now()) {
				return nil
			}
			return s.expire(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expire deletes a session, unless a run holds it.
func (s *Store) expire(path string) error {
	l, free, err := tryAcquire(path + lockExtension)
	if err != nil || !free {
		return err
	}
	if info, _, err := read(path, false); err != nil || info.Expires.After(s.now()) {
		return l.release() // a run has used it meanwhile
	}
	return errors.Join(remove(path), l.discard())
}

// load reads a session if it exists and has not expired.
func (s *Store) load(owner, id string, withState bool) (Info, []byte, error) {
	if err := checkID(id); err != nil {
		return Info{}, nil, err
	}
	info, state, err := read(s.path(owner, id), withState)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Expires.After(s.now()) {
		return Info{}, nil, errNotFound(id)
	}
	info.ID = id
	return info, state, err
}

// usage returns the usage of all sessions but the session id of owner.
func (s *Store) usage(owner, id string) (usage, error) {
	var u usage
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return u, fmt.Errorf("count the sessions: %w", err)
	}
	own := filepath.Base(s.folder(owner))
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		err := s.each(filepath.Join(s.dir, folder.Name()), func(path string, info Info) error {
			if path == s.path(owner, id) || !info.Expires.After(s.now()) {
				return nil
			}
			u.total += info.Bytes
			if folder.Name() == own {
				u.sessions++
				u.bytes += info.Bytes
			}
			return nil
		})
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// each visits the sessions of a folder. It skips unreadable files, so that the other
// sessions stay usable.
func (s *Store) each(folder string, visit func(path string, info Info) error) error {
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list sessions: %w", err)
	}
	for _, file := range files {
		if filepath.Ext(file.Name()) != extension || strings.HasPrefix(file.Name(), ".") {
			continue
		}
		path := filepath.Join(folder, file.Name())
		info, _, err := read(path, false)
		if err != nil {
			continue
		}
		info.ID = strings.TrimSuffix(file.Name(), extension)
		if err := visit(path, info); err != nil {
			return err
		}
	}
	return nil
}

// folder returns the folder of an owner's sessions. Owners are hashed because their
// names are not safe as file names.
func (s *Store) folder(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

func (s *Store) path(owner, id string) string {
	return filepath.Join(s.folder(owner), id+extension)
}
