package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
)

// A server runs the commands of the same user on the same home, over a Unix socket in the
// home: its sources are warm, and there is one state. The command line, folder and terminal
// of the client are those of the command; its input and output travel as frames.

// frame kinds. The first frame of a client is hello; the server answers it with accept or
// refuse. After accept, the client begins the command, unless it no longer waits: then it runs the
// command itself.
const (
	frameHello  = 'h'
	frameAccept = 'a'
	frameRefuse = 'r'
	frameBegin  = 'b'
	frameOut    = 'o'
	frameErr    = 'e'
	frameWant   = 'w' // the command wants more input
	frameIn     = 'i' // a part of the input; empty at its end
	frameAsk    = 's' // the prompt for a secret, which is typed without echo
	frameSecret = 'p' // that secret
	frameCancel = 'c'
	frameExit   = 'x' // the exit code
)

const (
	maxFrame = 8 << 20 // a command line has at most 2 MiB
	// outFrame and inFrame are the largest parts of output and input.
	outFrame = 64 << 10
	inFrame  = 32 << 10
	// helloTime limits each of the frames before the command.
	helloTime = 5 * time.Second
	// maxCommands is the maximum number of commands at once. Others run in their own process.
	maxCommands = 64
)

// hello describes the command that a client asks the server to run.
type hello struct {
	Version string
	Args    []byteString
	// Command is the path of the command, and Tool the first argument.
	Command string
	Tool    byteString
	Dir     byteString
	// File is the config that the command would use; empty for none.
	File                               byteString
	Config, UserConfig, UserHome, User byteString
	NoColor, TrustConfig, Quiet        bool
	// In, Out and Err are the widths of terminals; 0 is none.
	In, Out, Err int
	// Height is that of the terminal of Err.
	Height int
}

// byteString is a string that keeps its bytes in JSON. Arguments and paths need not be UTF-8,
// and package json would replace invalid bytes.
type byteString string

func (e byteString) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(e)) }

func (e *byteString) UnmarshalJSON(data []byte) error {
	var text []byte
	err := json.Unmarshal(data, &text)
	*e = byteString(text)
	return err
}

// refusal is the server's reason why a command must run in its own process.
type refusal struct {
	Version string
	File    string
	// Folder means that the command depends on the working folder.
	Folder, Busy bool
}

// frameConn reads and writes frames. Writing is safe for concurrent use.
type frameConn struct {
	conn net.Conn
	mu   sync.Mutex
}

func (f *frameConn) write(kind byte, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	_, err := (&net.Buffers{head, data}).WriteTo(f.conn)
	return err
}

func (f *frameConn) writeJSON(kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.write(kind, data)
}

func (f *frameConn) read() (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(f.conn, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes is too large", n)
	}
	data = make([]byte, n)
	_, err = io.ReadFull(f.conn, data)
	return head[0], data, err
}

// socketPath returns the path of the socket of a home. Nothing else is in its folder, which
// other users cannot open.
func socketPath(home string) string { return filepath.Join(home, "run", "cli.sock") }

// maxSocketPath is the longest path that all systems accept, in bytes.
const maxSocketPath = 100

// describeServer describes the server that runs the commands of a home, for example "process 7
// at http://127.0.0.1:7070"; empty if it is not known.
func describeServer(home string) string {
	text, _ := os.ReadFile(socketPath(home) + ".lock")
	return strings.TrimSpace(string(text))
}

// listenCommands runs the commands of clients until stop is called, even if ctx has ended. Only
// one server of a home does so: the one that holds the lock, which ends with its process.
func (a *cli) listenCommands(ctx context.Context, r *app.App, file string, local *localAPI) (stop func()) {
	path, none := socketPath(a.home), func() {}
	if a.home == "" || len(path) > maxSocketPath || runtime.GOOS != "linux" {
		return none
	}
	log := r.Parts().Log
	warn := func(err error) func() {
		log.Warn("commands of this home cannot use this server", "error", err)
		return none
	}
	folder := filepath.Dir(path)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700)); err != nil {
		return warn(err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if mine, err := lock.TryLock(); err != nil {
		return warn(err)
	} else if !mine {
		local.logOtherServer = func() {
			log.Info("another server runs on this home: both share its state, and commands use the first", "home", a.home, "first", describeServer(a.home))
		}
		return none
	}
	local.lock = path + ".lock"
	local.setAddress("")
	os.Remove(path) // a killed server has left it
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		lock.Close()
		return warn(err)
	}
	// Commands may outlive ctx for as long as the server waits for running calls.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &commandServer{cli: a, room: r, file: a.typedPath(file), local: local, started: time.Now(), slots: make(chan struct{}, maxCommands)}
	local.serve(ctx, listener.Addr())
	s.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(100 * time.Millisecond): // too many open files, for example
				}
				continue
			}
			s.running.Go(func() { s.serve(ctx, conn) })
		}
	})
	return func() {
		cancel(run.ErrStopped)
		listener.Close() // which removes the socket
		local.close()
		s.running.Wait()
		lock.Close()
	}
}

type commandServer struct {
	cli     *cli
	room    *app.App
	file    string
	local   *localAPI
	started time.Time
	slots   chan struct{}
	running sync.WaitGroup
}

// serve runs one command.
func (s *commandServer) serve(ctx context.Context, conn net.Conn) {
	handed := false
	defer func() {
		if !handed {
			conn.Close()
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			s.room.Parts().Log.Error("a command failed", "panic", p)
		}
	}()
	if uid, _, err := proc.Peer(conn); err != nil || uid != os.Getuid() {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return
	}
	conn = &peekedConn{Conn: conn, first: first}
	if first[0] != frameHello { // HTTP begins with a capital letter
		_ = conn.SetReadDeadline(time.Time{})
		handed = s.local.deliver(conn)
		return
	}
	f := &frameConn{conn: conn}
	kind, data, err := f.read()
	var h hello
	if err != nil || kind != frameHello || json.Unmarshal(data, &h) != nil {
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		_ = f.writeJSON(frameRefuse, refusal{Busy: true})
		return
	}
	if why := s.refusalOf(&h); why != nil {
		_ = f.writeJSON(frameRefuse, why)
		return
	}
	if f.write(frameAccept, nil) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	if kind, _, err := f.read(); err != nil || kind != frameBegin {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &remoteInput{frames: f, parts: make(chan []byte), gone: ctx.Done(), remoteTerminal: remoteTerminal{h.In, 0}}
	ended := make(chan struct{})
	go func() { // ends when conn is closed
		defer close(ended)
		defer cancel()
		for {
			kind, data, err := f.read()
			switch {
			case err != nil:
				return
			case kind == frameCancel:
				cancel()
			case kind == frameIn, kind == frameSecret:
				select {
				case in.parts <- data:
				case <-ctx.Done():
				}
			}
		}
	}()
	p := s.cli.Program
	p.In, p.Out, p.Err = in, &remoteOutput{f, frameOut, remoteTerminal{h.Out, h.Height}}, &remoteOutput{f, frameErr, remoteTerminal{h.Err, h.Height}}
	p.Home, p.Config, p.Dir = s.cli.home, string(h.Config), string(h.Dir)
	p.UserConfig, p.UserHome, p.User = string(h.UserConfig), string(h.UserHome), string(h.User)
	p.reload = s.local.reload
	p.NoColor, p.TrustConfig, p.Quiet, p.shared, p.serving = h.NoColor, h.TrustConfig, h.Quiet, s.room, servingNow(s.local.address(), s.started)
	args := make([]string, len(h.Args))
	for i, arg := range h.Args {
		args[i] = string(arg)
	}
	code := p.Run(ctx, args)
	_ = f.write(frameExit, []byte{byte(code)})
	conn.Close()
	<-ended
}

// folderPacks are the built-in packs that work in the folder of the process.
var folderPacks = []string{"file", "shell", "process", "git"}

// refusalOf returns why a command must run in its own process, or nil.
func (s *commandServer) refusalOf(h *hello) *refusal {
	switch {
	case h.Version != s.cli.Version:
		return &refusal{Version: s.cli.Version}
	case h.File != "" && string(h.File) != s.file:
		return &refusal{File: s.file}
	case string(h.Dir) == s.cli.Dir:
		return nil
	}
	namespace, _, _ := strings.Cut(strings.ReplaceAll(strings.ReplaceAll(string(h.Tool), "__", ":"), ".", ":"), ":")
	_, source := s.room.Config().Source(namespace)
	if h.Command == "toolroom chain" || h.Command == "toolroom exec" || h.Command == "toolroom call" && !source && slices.Contains(folderPacks, namespace) {
		return &refusal{Folder: true}
	}
	return nil
}

// absolute returns path relative to dir; an empty path stays empty.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// remoteTerminal is the size of a client's terminal. The width is 0 if there is none.
type remoteTerminal struct{ width, height int }

func (t remoteTerminal) terminalWidth() int  { return t.width }
func (t remoteTerminal) terminalHeight() int { return t.height }

// terminalSized is a stream that knows the width of its terminal; 0 means that it has none.
type terminalSized interface{ terminalWidth() int }

// remoteOutput is stdout or stderr of a client.
type remoteOutput struct {
	frames *frameConn
	kind   byte
	remoteTerminal
}

func (o *remoteOutput) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, outFrame) {
		if o.frames.write(o.kind, part) != nil {
			return 0, syscall.EPIPE // the client has gone
		}
	}
	return len(b), nil
}

// remoteInput is stdin of a client. It is read only when the command reads it, so that a
// command takes nothing from a script that shares its input.
type remoteInput struct {
	frames *frameConn
	parts  chan []byte
	gone   <-chan struct{}
	rest   []byte
	ended  bool
	remoteTerminal
}

func (i *remoteInput) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(i.rest) == 0 && !i.ended {
		if err := i.frames.write(frameWant, nil); err != nil {
			return 0, err
		}
		select {
		case i.rest = <-i.parts:
			i.ended = len(i.rest) == 0
		case <-i.gone:
			return 0, io.ErrUnexpectedEOF
		}
	}
	if len(i.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// typedSecret returns a line that the client reads without echo.
func (i *remoteInput) typedSecret(prompt string) (string, error) {
	if err := i.frames.write(frameAsk, []byte(prompt)); err != nil {
		return "", err
	}
	select {
	case text := <-i.parts:
		return string(text), nil
	case <-i.gone:
		return "", io.ErrUnexpectedEOF
	}
}

// runInServer runs the command in the server of this home. It returns false if there is no
// server, or if the command must run in its own process.
func (a *cli) runInServer(ctx context.Context, command string, args []string) (done bool, err error) {
	if a.standalone || a.shared != nil || a.logLevel != "" || a.home == "" || !canRunInServer(command) || slices.ContainsFunc(a.args, processFile.MatchString) {
		return false, nil
	}
	path := socketPath(a.home)
	if _, err := os.Lstat(path); err != nil {
		return false, nil
	}
	file, err := a.findConfig()
	if err == nil && file != "" {
		_, err = config.LoadVerified(file, a.verifier(file))
	}
	// The server has a config of its own, which was trusted and valid. A home in the working
	// folder could have come with the config, and these commands are about the config itself.
	broken := err
	if broken != nil && (a.relativeHome || command == "toolroom config check" || command == "toolroom reload") {
		return false, nil // the command itself reports it
	}
	conn, err := net.DialTimeout("unix", path, helloTime)
	if err != nil {
		return false, nil // a killed server has left the socket
	}
	defer conn.Close()
	if uid, _, err := proc.Peer(conn); err != nil || uid != os.Getuid() {
		return false, nil
	}
	h := hello{
		Version: a.Version, Command: command, Dir: byteString(a.Dir), File: byteString(a.typedPath(file)),
		Config: byteString(a.Config), UserConfig: byteString(a.UserConfig), UserHome: byteString(a.UserHome), User: byteString(a.User),
		NoColor: a.NoColor, TrustConfig: a.TrustConfig, Quiet: a.Quiet,
		In: widthOf(a.In), Out: widthOf(a.Out), Err: widthOf(a.Err), Height: heightOf(a.Err),
	}
	for _, arg := range a.args {
		h.Args = append(h.Args, byteString(arg))
	}
	if len(args) > 0 {
		h.Tool = byteString(args[0])
	}
	f := &frameConn{conn: conn}
	if f.writeJSON(frameHello, h) != nil {
		return false, nil
	}
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	kind, data, err := f.read()
	if err != nil || kind != frameAccept {
		var why refusal
		if kind == frameRefuse && json.Unmarshal(data, &why) == nil {
			a.sayRefusal(why, file)
		}
		return false, nil
	}
	_ = conn.SetReadDeadline(time.Time{})
	if f.write(frameBegin, nil) != nil {
		return false, nil // the server has given up the client, and has not begun
	}
	if broken != nil {
		a.sayBrokenConfig(broken)
	}
	return true, a.relay(ctx, f, command)
}

// processFile matches an argument that names a file descriptor of the command's process, such as
// a shell's <(…). In the server the same name would be a file that the server has open.
var processFile = regexp.MustCompile(`^(?:-\w|--[\w-]+=|[\w.-]+:?=@|@)?/(?:dev/(?:fd/|std(?:in|out|err)$|tty$)|proc/(?:self|thread-self)/)`)

// A server runs for others the commands that read and write only through the room, stdin and
// stdout, or files whose paths are relative to the client's folder. Those that write files
// (artifact save, session export) need only the state of the home. They run in their own
// process, so that the file gets the client's owner and umask.
var (
	// readingCommands are the commands for servers that change nothing.
	readingCommands = []string{
		"toolroom search", "toolroom describe", "toolroom tools", "toolroom stubs",
		"toolroom sources list", "toolroom sources test", "toolroom sources logs", "toolroom approve rules", "toolroom approve show",
		"toolroom status", "toolroom config check", "toolroom calls", "toolroom calls show", "toolroom calls stats", "toolroom policy explain",
		"toolroom tool list", "toolroom tool show", "toolroom tool diff", "toolroom tool log", "toolroom tool case list",
		"toolroom runs", "toolroom runs wait", "toolroom artifact list", "toolroom artifact show", "toolroom artifact read",
		"toolroom session list", "toolroom secret list", "toolroom token list",
	}
	// actingCommands are the commands for servers that call tools or change the state of the home.
	actingCommands = []string{
		"toolroom call", "toolroom chain", "toolroom exec", "toolroom runs cancel", "toolroom approve", "toolroom reload", "toolroom sources restart",
		"toolroom tool release", "toolroom tool rollback", "toolroom tool promote", "toolroom tool deprecate", "toolroom artifact delete",
		"toolroom session new", "toolroom session fork", "toolroom session import", "toolroom session delete",
		"toolroom secret set", "toolroom secret remove", "toolroom token create", "toolroom token revoke",
	}
)

// canRunInServer reports whether a server can run the command for a client.
func canRunInServer(command string) bool {
	return slices.Contains(readingCommands, command) || slices.Contains(actingCommands, command)
}

// serverEnded returns the error of a command whose server ended before it did.
func serverEnded(command string, cause error) error {
	e := &toolroom.Error{Code: toolroom.CodeInternal, Message: "the server of this home ended during the command", Cause: cause}
	if !slices.Contains(actingCommands, command) {
		return e.WithCLIHint("run it again; to start the server: toolroom serve")
	}
	e.Message += ", which may have acted"
	e.Effects = toolroom.EffectsUnknown
	return e.WithCLIHint("check what it did before you run it again\nstart the server: toolroom serve\nsee which calls have a receipt: toolroom calls")
}

// sayRefusal prints, on a terminal, why the command does not use the server.
func (a *cli) sayRefusal(why refusal, file string) {
	if !a.screen.errTerminal {
		return
	}
	switch {
	case why.Version != "":
		a.screen.say("The server of this home is Toolroom %s, this is %s: the command runs on its own. Restart the server.", why.Version, a.Version)
	case why.File != "":
		a.screen.say("The server of this home uses %s, this command %s: it runs on its own.", why.File, file)
	}
}

// sayBrokenConfig prints why the config cannot be used; the server still uses the earlier one.
func (a *cli) sayBrokenConfig(err error) {
	text := "warning: the server goes on with the previous config: " + err.Error()
	if hints := toolroom.AsError(err).Hints(); hints != "" {
		text += "\n  try: " + strings.ReplaceAll(hints, "\n", "\n       ")
	}
	a.screen.say("%s", text)
}

// relay copies the command's input and output until the command ends.
func (a *cli) relay(ctx context.Context, f *frameConn, command string) error {
	// The server ends the command, and says how.
	defer context.AfterFunc(ctx, func() { _ = f.write(frameCancel, nil) })()
	for {
		kind, data, err := f.read()
		a.stopActivity() // its line would be before the output
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return serverEnded(command, err)
		case kind == frameOut:
			_, err = a.Out.Write(data)
		case kind == frameErr:
			_, err = a.Err.Write(data)
		case kind == frameWant:
			go a.sendInput(f)
		case kind == frameAsk:
			var text string
			if text, err = a.screen.secret(ctx, string(data), secret.MaxValue); err == nil {
				err = f.write(frameSecret, []byte(text))
			}
		case kind == frameExit && len(data) == 1 && data[0] == 0:
			return nil
		case kind == frameExit && len(data) == 1:
			return exitCode(data[0])
		}
		if err != nil { // the reader of the output has gone away
			return err
		}
	}
}

// sendInput sends the next part of stdin.
func (a *cli) sendInput(f *frameConn) {
	part := make([]byte, inFrame)
	n, err := a.In.Read(part)
	for n == 0 && err == nil {
		n, err = a.In.Read(part)
	}
	_ = f.write(frameIn, part[:n]) // the server asks again, and then gets the end
}
