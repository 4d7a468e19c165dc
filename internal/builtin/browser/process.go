package browser

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/proc"
)

// programs are the names of Chromium, best first.
var programs = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "headless_shell"}

// findChromium returns the path of Chromium: configured, or in the folders of PATH.
func findChromium(configured string, environ []string) (string, *toolroom.Error) {
	if configured != "" {
		if path, err := exec.LookPath(configured); err == nil {
			return path, nil
		}
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "builtin.browser.path is %s, which is not a program", configured).
			WithHint("set builtin.browser.path in toolroom.yaml to the path of Chromium, or remove it")
	}
	for _, v := range environ {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, name := range programs {
			for _, dir := range filepath.SplitList(list) {
				if path := filepath.Join(dir, name); filepath.IsAbs(path) {
					if found, err := exec.LookPath(path); err == nil {
						return found, nil
					}
				}
			}
		}
	}
	return "", toolroom.Errorf(toolroom.CodeUnsupported, "no Chromium is installed, which the browser tools need").
		WithHint("apt-get install -y chromium, or set builtin.browser.path in toolroom.yaml")
}

// process is one Chromium with a new profile. All its connections pass a guard.
type process struct {
	*conn
	proc      *proc.Process
	dir       string // its profile, downloads and temporary files
	output    tail   // the end of its stderr
	listener  net.Listener
	ended     chan struct{}
	closeOnce sync.Once
}

// chromiumArgs returns the arguments of Chromium.
func chromiumArgs(dir, proxyAddress string, root bool) []string {
	list := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"),
		// No connection leaves but through the proxy, not even one to this machine: no name
		// server, no QUIC, no WebRTC over UDP.
		"--proxy-server=http://" + proxyAddress, "--proxy-bypass-list=<-loopback>", "--disable-quic",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
		// Nothing of Chromium's own speaks to its makers.
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
		"--disable-domain-reliability", "--disable-breakpad", "--disable-client-side-phishing-detection", "--no-pings",
		"--metrics-recording-only", "--no-first-run", "--no-default-browser-check", "--disable-extensions",
		"--disable-features=Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints,AutofillServerCommunication,InterestFeedContentSuggestions",
		"--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--password-store=basic", "--use-mock-keychain",
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--window-size=1280,800", "--force-color-profile=srgb",
	}
	if root {
		list = append(list, "--no-sandbox") // Chromium refuses to start as root with its sandbox
	}
	return append(list, "about:blank")
}

// dirPattern names the folders of browsers.
const dirPattern = "toolroom-browser-*"

// scratch returns the folder for temporary files. Chromium makes a socket there, whose path
// may have 107 bytes.
func scratch() string {
	if dir := os.TempDir(); len(dir) <= 24 || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}

// startChromium starts Chromium. It calls refused with the hosts that the guard refuses.
func (b *browsers) startChromium(ctx context.Context, guard *egress.Guard, refused func(host string, err error), event func(session, method string, params jsonv2.Value)) (*process, error) {
	dir, err := os.MkdirTemp(b.o.Scratch, dirPattern)
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, ended: make(chan struct{})}
	for _, sub := range []string{"downloads", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if p.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	log := b.o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	egress.ServeProxy(proc.OnlyThisUser(p.listener), guard, log, refused, p.ended)
	if err := p.spawn(b, event); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *process) spawn(b *browsers, event func(session, method string, params jsonv2.Value)) error {
	commands, ours, err := os.Pipe() // Chromium reads commands from its file 3
	if err != nil {
		return err
	}
	defer commands.Close()
	answers, theirs, err := os.Pipe() // and writes answers to its file 4
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	defer theirs.Close()
	p.proc, err = proc.Start(proc.Spec{
		Command: b.path, Args: chromiumArgs(p.dir, p.listener.Addr().String(), os.Geteuid() == 0), Dir: p.dir, Owner: b.o.Owner, Stderr: &p.output,
		Env:   proc.Environ(b.o.Environ, map[string]string{"HOME": p.dir, "TMPDIR": filepath.Join(p.dir, "tmp"), "XDG_CONFIG_HOME": p.dir, "XDG_CACHE_HOME": p.dir, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}),
		Files: []*os.File{commands, theirs},
	})
	if err != nil {
		return errors.Join(err, ours.Close(), answers.Close())
	}
	p.conn = newConn(answers, ours, event)
	go func() {
		<-p.proc.Done() // kills what is left of its group
		ours.Close()
		answers.Close()
	}()
	go func() { // without a connection, a browser is of no use
		<-p.done
		p.proc.Stop(0)
	}()
	return nil
}

// hasEnded reports whether Chromium has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// close kills Chromium and removes its files.
func (p *process) close() {
	p.closeOnce.Do(func() {
		if p.proc != nil {
			p.proc.Stop(0)
			<-p.done
		}
		p.listener.Close()
		close(p.ended)
		// A process of Chromium that is just ending may still write.
		for try := 0; os.RemoveAll(p.dir) != nil && try < 20; try++ {
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// failure describes why Chromium ended.
func (p *process) failure(err error) *toolroom.Error {
	if errors.Is(err, errMessageTooLarge) {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the browser was ended: %w", err).WithHint("the page is too large for the browser tools; try web:fetch")
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Chromium has ended: %s", p.output.lastLine())
	return e.WithHint("call browser:navigate to start another").WithCLIHint("toolroom doctor checks Chromium")
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last line.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return "it printed nothing"
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// removeLeftovers removes the folders of browsers whose Toolroom process was killed.
func removeLeftovers(scratch string) {
	left, err := filepath.Glob(filepath.Join(scratch, dirPattern))
	if err != nil {
		return
	}
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !proc.IsOwnFolder(info) {
			continue
		}
		// The profile of a Chromium has a link whose target ends with its process id.
		link, err := os.Readlink(filepath.Join(dir, "profile", "SingletonLock"))
		pid, parsed := strconv.Atoi(link[strings.LastIndexByte(link, '-')+1:])
		if err == nil && parsed == nil && !isRunning(pid) {
			_ = os.RemoveAll(dir) // the next start tries again
		}
	}
}

func isRunning(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
