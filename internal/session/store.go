package session

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
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Options tune a Store; the zero value is what a server wants.
type Options struct {
	Limits Limits
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Store keeps sessions. Its methods are safe for concurrent use, and several
// processes may have the same folder open.
type Store struct {
	dir    string
	limits Limits
	now    func() time.Time
}

// Open opens the store in dir, which is made when the first session is kept,
// and forgets what has expired.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, limits: o.Limits.withDefaults(), now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s, s.Sweep()
}

// Run is a session that a run has to itself, until [Run.End].
type Run struct {
	// Info is what is kept; its Engine is empty when the session is new.
	Info  Info
	State []byte

	store *Store
	owner string
	lock  *lock
}

// Begin takes a session for a run. It waits until earlier runs have ended, also
// those of other processes, or until ctx ends. One that is not there is new,
// and kept by the first [Run.Keep].
func (s *Store) Begin(ctx context.Context, owner, id string) (*Run, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.folder(owner), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of sessions: %w", err)
	}
	l, err := acquire(ctx, s.path(owner, id)+lockExtension)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeOf(err), "session %s is in use by another run: %w", id, err).
			WithHint("wait for it, or work in a fork: toolroom session fork %s NAME", id)
	}
	r := &Run{store: s, owner: owner, lock: l}
	r.Info, r.State, err = s.load(owner, id, true)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		r.Info, err = Info{ID: id, Created: s.now()}, nil
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return r, nil
}

// Keep replaces the state by that after the run. When there is no room the
// error has the code resource_limit, and the state stays as it was.
func (r *Run) Keep(ctx context.Context, engine, language string, state []byte) error {
	info := r.Info
	info.Engine, info.Language = engine, language
	info.Runs++
	if err := r.store.put(ctx, r.owner, info, state); err != nil {
		return err
	}
	r.Info, r.State = info, state
	return nil
}

// End lets the next run have the session.
func (r *Run) End() error { return r.lock.release() }

// put keeps a session, if there is room.
func (s *Store) put(ctx context.Context, owner string, info Info, state []byte) error {
	// What is counted must not change until it has been added to.
	l, err := acquire(ctx, filepath.Join(s.dir, "all"+lockExtension))
	if err != nil {
		return fmt.Errorf("wait for the store of sessions: %w", err)
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

// List describes the sessions of an owner by name.
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

// Fork makes a copy under another name, which must be free.
func (s *Store) Fork(ctx context.Context, owner, id, to string) (Info, error) {
	info, state, err := s.load(owner, id, true)
	if err != nil {
		return Info{}, err
	}
	return s.add(ctx, owner, to, info, state)
}

// Export writes a session for [Store.Import], also of another store.
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

// Import keeps what was exported under a name that must be free; empty is the
// name that it had. What a session holds is code: the importer's next program
// in it runs that.
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

// add keeps a session under a free name.
func (s *Store) add(ctx context.Context, owner, id string, info Info, state []byte) (Info, error) {
	r, err := s.Begin(ctx, owner, id)
	if err != nil {
		return Info{}, err
	}
	defer r.End()
	if r.Info.Engine != "" {
		return Info{}, toolroom.Errorf(toolroom.CodeConflict, "there is a session %s already", id).
			WithHint("choose another name, or delete it first")
	}
	r.Info.Runs = info.Runs - 1 // Keep counts one
	if err := r.Keep(ctx, info.Engine, info.Language, state); err != nil {
		return Info{}, err
	}
	added, _, err := s.load(owner, id, false)
	return added, err
}

// Delete forgets a session, once a run that has it has ended.
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	if _, _, err := s.load(owner, id, false); err != nil {
		return err
	}
	r, err := s.Begin(ctx, owner, id)
	if err != nil {
		return err
	}
	return errors.Join(remove(s.path(owner, id)), r.lock.discard())
}

// Sweep forgets what has expired. [Open] calls it.
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

// expire removes a session, unless a run has it.
func (s *Store) expire(path string) error {
	l, free, err := try(path + lockExtension)
	if err != nil || !free {
		return err
	}
	if info, _, err := read(path, false); err != nil || info.Expires.After(s.now()) {
		return l.release() // a run was faster
	}
	return errors.Join(remove(path), l.discard())
}

// load reads a session that is there and has not expired.
func (s *Store) load(owner, id string, withState bool) (Info, []byte, error) {
	if err := checkID(id); err != nil {
		return Info{}, nil, err
	}
	info, state, err := read(s.path(owner, id), withState)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Expires.After(s.now()) {
		return Info{}, nil, notFound(id)
	}
	info.ID = id
	return info, state, err
}

// usage counts what is kept beside the session id of owner.
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

// each visits the sessions of a folder. What cannot be read is passed over: it
// is no reason to refuse the others.
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

// folder is where the sessions of an owner are. Owners are hashed because their
// names are not safe as file names.
func (s *Store) folder(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

func (s *Store) path(owner, id string) string {
	return filepath.Join(s.folder(owner), id+extension)
}
