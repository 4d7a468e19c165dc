//go:build amd64 || arm64

package lockdown

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// plan is the order to init: a Spec resolved against this machine.
type plan struct {
	Path       string
	Args, Env  []string
	Dir        string
	Files      int // open files from firstFile on
	UID, GID   int
	Namespaces bool
	Trees      []tree
	Links      []link
	Etc        bool
	Network    bool
	Loopback   bool
	Listen     []uint16
	Inside     int // the socket for sockets inside; 0 if there is none
	Disk       int64
	Inodes     int
	Landlock   int // the ABI; 0 leaves it out
	Seccomp    Filter
	Rlimits    []rlimit
	Work       string // the writable folder of a run without namespaces
	Direct     bool
	Terminal   bool
	Probe      bool // build everything, start nothing

	noProc  bool // init found that /proc cannot be mounted
	threads int  // number of init's threads while it saw the host machine's /proc
}

// tree is a part of the host machine's files that is shown inside.
type tree struct {
	Source, Target string
	Writable       bool
	// FD is a clone of the mount opened by the server, because init may not be able to
	// reach Source; 0 means that init opens it.
	FD int
}

// link is a symbolic link inside.
type link struct{ Target, At string }

type rlimit struct {
	Resource int
	Value    uint64
}

// message is what init sends the server: first whether the program started, and if
// not why; then how it ended.
type message struct {
	Started bool
	NoProc  bool
	Error   string
	Exit    *Exit
	Usage   Usage
}

// order is what the server sends init after the plan.
type order struct{ Signal int }

// Files of init: 0 to 2 are the program's, followed by these.
const (
	controlFile = 3
	firstFile   = 4
)

// ownEntries are the entries of a root that a sandbox never takes from Root.Source.
var ownEntries = []string{"dev", "proc", "run", "sys", "tmp", "work"}

// etcFiles are shown in the /etc made by Root.Etc if the host machine has them.
var etcFiles = []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "ssl/certs", "ssl/openssl.cnf", "mime.types", "services", "protocols"}

// layout determines which files are shown, and where.
func (p *plan) layout(s Spec) error {
	if s.Root.Source != "" {
		if err := p.expand(s.Root); err != nil {
			return fmt.Errorf("sandbox: root %s: %w", s.Root.Source, err)
		}
	} else if !s.shows(s.Path) {
		p.Trees = append(p.Trees, tree{Source: s.Path, Target: s.Path})
	}
	if s.Root.Etc {
		p.Etc = true
		files := etcFiles
		if s.Network {
			files = append(slices.Clone(files), "resolv.conf")
		}
		for _, name := range files {
			p.showIfExists("/etc/" + name)
		}
	}
	for _, b := range s.Binds {
		p.Trees = append(p.Trees, tree{Source: b.Source, Target: path.Clean(b.Target), Writable: b.Writable})
	}
	return nil
}

// shows reports whether a bind contains the path.
func (s Spec) shows(name string) bool {
	for _, b := range s.Binds {
		if rel, err := filepath.Rel(b.Target, name); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

func (p *plan) showIfExists(name string) {
	if _, err := os.Stat(name); err == nil {
		p.Trees = append(p.Trees, tree{Source: name, Target: name})
	}
}

func (p *plan) expand(r Root) error {
	names := r.Only
	if names == nil {
		entries, err := os.ReadDir(r.Source)
		if err != nil {
			return err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		source := filepath.Join(r.Source, name)
		if slices.Contains(ownEntries, name) || !filepath.IsLocal(name) {
			continue
		}
		info, err := os.Lstat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			p.Trees = append(p.Trees, tree{Source: source, Target: "/" + name})
			continue
		}
		target, err := os.Readlink(source)
		if err != nil {
			return err
		}
		p.Links = append(p.Links, link{Target: target, At: "/" + name})
	}
	return nil
}

// checkWithoutMounts checks that the plan works without mounts: every file must be at the host
// machine's path, and Landlock alone restricts access to the others.
func (p *plan) checkWithoutMounts() error {
	for _, t := range p.Trees {
		if t.Source != t.Target {
			return fmt.Errorf("sandbox: %s cannot be shown as %s without namespaces: show it under its own path", t.Source, t.Target)
		}
	}
	return nil
}
