package pynative

import (
	"cmp"
	"context"
	_ "embed" // of zygote.py
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

//go:embed zygote.py
var zygoteSource string

// zygote is a process that forks the processes of one owner.
type zygote struct {
	process *lockdown.Process
	control *net.UnixConn
	version string
	layer   string      // digest of the packages, or empty
	spare   chan *child // forked and not used yet

	mu       sync.Mutex // guards the fields below
	lastID   uint64
	children map[uint64]*child
	loans    int // callers that are about to fork
	dead     bool
	lastUse  time.Time
	filling  bool
	idle     *time.Timer
	retired  bool // it ends once it is idle
}

// child is one forked process.
type child struct {
	id     uint64
	zygote *zygote
	conn   *bridge.Conn
	ended  chan death // receives one element, and is then closed
	once   sync.Once
}

// death is the zygote's report of a process's end.
type death struct {
	Signal, Code int
	Error        string
	CPU, Memory  int64
}

const (
	// pids bounds the processes and threads of one owner.
	pids = 256
	// startTimeout allows for Python's start with all imports on a busy machine.
	startTimeout = 20 * time.Second
	forkTimeout  = 10 * time.Second
)

// sandboxFolder is the path of our Python files inside the sandbox.
const sandboxFolder = "/run/toolroom"

// writeFiles returns a folder with our Python files that the user of a sandbox can read. It writes
// the files if they are not there, because the system may remove old temporary files while this
// process runs.
func (e *Engine) writeFiles() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return "", errors.New("the engine is closed")
	}
	list := guest.PythonFiles()
	list["zygote.py"] = zygoteSource
	if e.folder != "" {
		if hasFiles(e.folder, list) {
			return e.folder, nil
		}
		_ = os.RemoveAll(e.folder) // zygotes that run have loaded what they need
		e.folder = ""
	}
	folder, err := proc.MkdirTemp("", "pynative")
	if err != nil {
		return "", err
	}
	for name, text := range list {
		err = cmp.Or(err, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	if err := cmp.Or(err, proc.Readable(folder)); err != nil {
		_ = os.RemoveAll(folder) // the first error matters
		return "", err
	}
	e.folder = folder
	return folder, nil
}

// hasFiles reports whether a folder has all files.
func hasFiles(folder string, files map[string]string) bool {
	for name := range files {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// sandboxLayer is the path of a layer's packages inside the sandbox.
const sandboxLayer = "/run/layer"

// startZygote starts a zygote and returns when it is ready to fork. It has imported the
// modules of the layer that are to be preloaded.
func (e *Engine) startZygote(ctx context.Context, layer engine.Layer) (*zygote, error) {
	folder, err := e.writeFiles()
	if err != nil {
		return nil, fmt.Errorf("prepare the Python files: %w", err)
	}
	ours, theirs, err := proc.SocketPair(syscall.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	last, lastWords, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer last.Close()
	defer lastWords.Close()
	args := []string{"python3", "-s", "-E", "-B", "-X", "utf8", sandboxFolder + "/zygote.py"}
	binds := []lockdown.Bind{{Source: folder, Target: sandboxFolder}}
	if layer.Path != "" {
		args = append(append(args, sandboxLayer), layer.Preload...)
		binds = append(binds, lockdown.Bind{Source: layer.Path, Target: sandboxLayer})
	}
	process, err := e.host.Start(context.WithoutCancel(ctx), lockdown.Spec{
		Path: e.o.Python, Args: args,
		// A library that starts a thread per processor would use up the memory of a
		// small program.
		Env:   []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + lockdown.WorkDir, "LANG=C.UTF-8", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"},
		Files: []*os.File{theirs}, Stderr: lastWords,
		Root: lockdown.System(), Binds: binds,
		Seccomp: lockdown.Hardened, Limits: lockdown.Limits{PIDs: pids}, Minimum: minimum, BestEffort: true, Direct: true,
	})
	// If the zygote's ends stayed open here, its end would go unnoticed.
	lastWords.Close()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	z := &zygote{layer: layer.Digest, process: process, control: ours, spare: make(chan *child, e.o.SparePerOwner), children: map[uint64]*child{}}
	if err := z.greet(ctx, e.host.ForkRestrictions()); err != nil {
		z.end()
		said := make([]byte, 4096)
		n, _ := last.Read(said) // the other end is closed by now
		return nil, fmt.Errorf("%s did not get ready: %w %s", e.o.Python, err, tail(said[:n]))
	}
	go z.listen()
	return z, nil
}

func tail(said []byte) string {
	const most = 600
	return string(said[max(0, len(said)-most):])
}

// greet sends the zygote the privileges that its processes give up, and waits until
// it is ready.
func (z *zygote) greet(ctx context.Context, restrictions lockdown.ForkRestrictions) error {
	packet, err := json.Marshal(restrictions)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, z.process.Kill)()
	if _, err := z.control.Write(packet); err != nil {
		return err
	}
	var m struct{ Ready string }
	if err := z.read(&m); err != nil {
		return err
	}
	z.version = m.Ready
	return nil
}

func (z *zygote) read(m any) error {
	buf := make([]byte, 4096)
	n, err := z.control.Read(buf)
	if err != nil {
		return err
	}
	return json.Unmarshal(buf[:n], m)
}

// listen receives the zygote's reports of ended processes until the zygote ends.
func (z *zygote) listen() {
	for {
		var m struct {
			Ended uint64
			death
		}
		if err := z.read(&m); err != nil {
			break
		}
		z.mu.Lock()
		c := z.children[m.Ended]
		delete(z.children, m.Ended)
		z.mu.Unlock()
		if c != nil {
			c.ended <- m.death
			close(c.ended)
		}
	}
	z.end()
}

// fork forks a process and returns when it has sent hello. A process that is forked ahead of its
// program prepares itself for longer, which makes the program start faster.
func (z *zygote) fork(ctx context.Context, ahead bool) (*child, error) {
	ours, theirs, err := proc.SocketPair(syscall.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	z.mu.Lock()
	if z.dead {
		z.mu.Unlock()
		ours.Close()
		return nil, errDead
	}
	z.lastID++
	c := &child{id: z.lastID, zygote: z, ended: make(chan death, 1)}
	z.children[c.id] = c
	z.mu.Unlock()
	order, _ := json.Marshal(map[string]any{"fork": c.id, "ahead": ahead})
	if _, _, err := z.control.WriteMsgUnix(order, syscall.UnixRights(int(theirs.Fd())), nil); err != nil {
		ours.Close()
		z.mu.Lock()
		delete(z.children, c.id) // else the zygote would never be idle again
		z.mu.Unlock()
		return nil, fmt.Errorf("ask for a fork: %w", err)
	}
	theirs.Close()
	ctx, cancel := context.WithTimeout(ctx, forkTimeout)
	defer cancel()
	if c.conn, err = bridge.Accept(ctx, ours, bridge.Options{Direct: true}); err != nil {
		c.kill()
		if end, ok := c.wait(deathTimeout); ok && end.Error != "" {
			err = errors.New(end.Error)
		}
		return nil, err
	}
	return c, nil
}

var errDead = errors.New("the zygote has ended")

// kill ends the process, whatever its program does. The zygote waits for it.
func (c *child) kill() {
	c.once.Do(func() {
		order, _ := json.Marshal(map[string]uint64{"kill": c.id})
		_, _ = c.zygote.control.Write(order) // if the zygote has ended, so has the process
		if c.conn != nil {
			_ = c.conn.Close()
		}
	})
}

// wait waits for the process and returns how it ended.
func (c *child) wait(most time.Duration) (death, bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case d, ok := <-c.ended:
		return d, ok
	case <-timer.C:
		return death{}, false
	}
}

// end ends the zygote and everything that it forked. It is idempotent.
func (z *zygote) end() {
	z.mu.Lock()
	z.dead = true
	left := z.children
	z.children = nil
	if z.idle != nil {
		z.idle.Stop()
	}
	z.mu.Unlock()
	z.process.Kill()
	z.control.Close()
	for _, c := range left {
		close(c.ended)
	}
	for {
		select {
		case c := <-z.spare:
			c.kill() // the process has ended; this closes its stream
		default:
			return
		}
	}
}
