package app

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/browser"
	"github.com/toolroom/toolroom/internal/builtin/document"
	"github.com/toolroom/toolroom/internal/builtin/file"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/git"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/builtin/web"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/netjail"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// packs are the built-in tools of the current config.
type packs struct {
	digest  string
	list    builtin.Packs
	sources []source.Source
	shell   *shell.Shell
}

// applyBuiltins replaces the built-in packs by those that a config turns on. If their
// settings are unchanged it does nothing, so that background processes keep running.
func (a *App) applyBuiltins(c *config.Config) error {
	digest := builtinDigest(c)
	if a.packs != nil && a.packs.digest == digest {
		return nil
	}
	next := &packs{digest: digest}
	if err := a.buildPacks(next, c); err != nil {
		return err
	}
	for _, p := range next.list {
		src := p.Source()
		next.sources = append(next.sources, src)
		if err := a.catalog.SetBuiltin(p.Name, src, p.List()); err != nil {
			return err
		}
	}
	a.mu.Lock()
	old := a.packs
	a.packs = next
	a.mu.Unlock()
	if old == nil {
		return nil
	}
	for _, p := range old.list {
		if next.list.Find(p.Name) == nil {
			a.catalog.RemoveProvider(p.Name)
		}
	}
	a.background.Go(func() { a.closePacks(old) })
	return nil
}

// gitIsASource is the reason why the built-in pack git is missing.
const gitIsASource = "the built-in git tools are off: the source git has their name"

func (a *App) closePacks(p *packs) {
	if p == nil {
		return
	}
	for _, src := range p.sources {
		if err := src.Close(); err != nil {
			a.log.Warn("failed to close a built-in pack", "error", err)
		}
	}
}

func builtinDigest(c *config.Config) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	// All are plain data, so encoding cannot fail.
	_ = enc.Encode(c.Builtin)
	_ = enc.Encode(c.Egress)
	for _, namespace := range overridableNamespaces {
		_, taken := c.Sources[namespace]
		_ = enc.Encode(taken)
	}
	return text.String()
}

// buildPacks makes the packs that a config turns on. A pack without a section is on if the
// room has a workspace.
func (a *App) buildPacks(to *packs, c *config.Config) error {
	on := func(pack string) bool { return c.Builtin.On(pack, a.o.Workspace != "") }
	var err error
	folders, missing := a.folders(c)
	if on("file") {
		to.list = append(to.list, file.Pack(file.Options{Folders: folders, Undo: a.packFolder("undo"), PDF: document.PDF}, missing))
	}
	if to.shell, err = a.newShell(c, folders); err != nil {
		return err
	}
	servers := func(caller toolroom.Identity) egress.Local { return to.shell.Servers(caller) }
	cannot := missing
	if cannot == nil && len(a.sandboxInit()) == 0 && (c.Builtin.Shell == nil || slices.Contains([]string{"", config.ShellProcess}, c.Builtin.Shell.Runtime)) {
		cannot = to.shell.Available(context.Background())
	}
	if on("shell") {
		to.list = append(to.list, to.shell.Pack(cannot))
	}
	if on("process") {
		to.list = append(to.list, to.shell.ProcessPack(cannot))
	}
	if on("web") {
		pack, err := a.webPack(c, servers)
		if err != nil {
			return err
		}
		to.list = append(to.list, pack)
	}
	// A source of the operator may have the name git, which is not reserved.
	_, taken := c.Sources["git"]
	if taken && on("git") {
		a.log.Info(gitIsASource)
	}
	if on("git") && !taken {
		to.list = append(to.list, git.Pack(to.shell, cannot))
	}
	if on("browser") {
		pack, err := a.browserPack(c, servers)
		if err != nil {
			return err
		}
		to.list = append(to.list, pack)
	}
	if on("memory") {
		to.list = append(to.list, memory.Pack(a.packFolder("memory"), a.embedder))
	}
	if on("sessions") {
		to.list = append(to.list, system.SessionPack(system.SessionOptions{Sessions: a.sessions, Receipts: a.Receipts, Taint: run.AddTaint}))
	}
	if on("cron") {
		to.list = append(to.list, a.cronPack(c))
	}
	if on("message") {
		pack, err := a.messagePack(c)
		if err != nil {
			return err
		}
		to.list = append(to.list, pack)
	}
	more, err := a.servicePacks(c, on, folders)
	to.list = append(to.list, more...)
	return err
}

func (a *App) webPack(c *config.Config, servers func(toolroom.Identity) egress.Local) (*builtin.Pack, error) {
	w := config.BuiltinWeb{}
	if c.Builtin.Web != nil {
		w = *c.Builtin.Web
	}
	guard, err := egress.New(c.Egress.Policy(w.Egress))
	if err != nil {
		return nil, err
	}
	o := web.Options{Guard: guard, Servers: servers, Robots: w.Robots, Cache: w.Cache, MaxBytes: w.MaxBytes, Version: a.o.Version}
	if s := w.Search; s != nil {
		o.Search = &web.Search{Provider: s.Provider, URL: s.URL}
		if s.Key != "" {
			o.Search.Key = a.expander(s.Key)
		}
		address, err := url.Parse(o.Search.Address())
		if err != nil {
			return nil, err
		}
		o.Search.Transport = guard.WithOwn(address).Transport()
	}
	return web.Pack(o), nil
}

// messageChannels returns the channels of the config for sending messages.
func (a *App) messageChannels(c *config.Config) (message.Channels, error) {
	channels := message.Channels{}
	if c.Builtin.Message == nil {
		return channels, nil
	}
	for name, s := range c.Builtin.Message.Channels {
		channel := &message.Channel{Provider: s.Provider, URL: s.URL, User: s.User, From: s.From, Recipients: s.Recipients}
		if s.Key != "" {
			channel.Key = a.expander(s.Key)
		}
		address, err := url.Parse(channel.Address())
		if err != nil {
			return nil, err
		}
		if s.Provider == "smtp" {
			address.Host = message.MailHost(address)
		}
		guard, err := egress.New(c.Egress.Policy(config.Egress{}))
		if err != nil {
			return nil, err
		}
		guard = guard.WithOwn(address)
		channel.Transport, channel.Dial = guard.Transport(), guard.Tunnel
		channels[name] = channel
	}
	return channels, nil
}

func (a *App) messagePack(c *config.Config) (*builtin.Pack, error) {
	channels, err := a.messageChannels(c)
	return message.Pack(channels), err
}

func (a *App) browserPack(c *config.Config, servers func(toolroom.Identity) egress.Local) (*builtin.Pack, error) {
	b := config.BuiltinBrowser{}
	if c.Builtin.Browser != nil {
		b = *c.Builtin.Browser
	}
	guard, err := egress.New(c.Egress.Policy(b.Egress))
	if err != nil {
		return nil, err
	}
	return browser.Pack(browser.Options{
		Guard: guard.WithOwn(), Servers: servers, Path: b.Path, Environ: a.o.Environ, Owner: a.owner, State: a.packFolder("browser"), Key: func() ([]byte, error) { return a.sealKey("browser checkpoints") },
		Idle: b.Idle, Max: b.Max, MaxDownload: b.MaxDownload, Artifacts: a.artifacts, Secrets: a.redactor, Log: a.log,
	}), nil
}

// expander returns a function that returns text with its secret references resolved. It
// resolves them again at each call.
func (a *App) expander(text string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return a.expandSecrets(ctx, text) }
}

// packFolder returns the folder of a pack's state.
func (a *App) packFolder(pack string) string { return filepath.Join(a.home, "builtin", pack) }

// folders opens the folders that tools may use.
func (a *App) folders(c *config.Config) (*folder.Folders, *toolroom.Error) {
	roots := []string{a.o.Workspace}
	if f := c.Builtin.File; f != nil && len(f.Roots) > 0 {
		roots = nil
		for _, root := range f.Roots {
			roots = append(roots, a.resolvePath(root))
		}
	} else if a.o.Workspace == "" || filepath.Dir(a.o.Workspace) == a.o.Workspace {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "no folder is configured for the file tools, and the working folder (%s) is not used as one", orNone(a.o.Workspace)).
			WithHint("name the folders in toolroom.yaml: builtin: {file: {roots: [/srv/project]}}, or start Toolroom in the folder")
	}
	fixed := a.policyFiles(c)
	if a.o.ConfigFile != "" {
		fixed = append(fixed, a.o.ConfigFile)
	}
	folders, err := folder.Open(roots, folder.Options{Hidden: []string{a.home, a.storeFolder}, Fixed: fixed})
	if err != nil {
		return nil, toolroom.AsError(err)
	}
	return folders, nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// sandboxInit returns the command that becomes the init of a sandbox, or nil.
func (a *App) sandboxInit() []string {
	if a.o.Guest.Path == "" {
		return nil
	}
	return slices.Concat([]string{a.o.Guest.Path}, a.o.Guest.Args, []string{lockdown.InitArg})
}

const (
	shellMemory = 2 << 30
	shellDisk   = 1 << 30
	shellPIDs   = 512
	shellHome   = 10 << 30
)

func (a *App) newShell(c *config.Config, folders *folder.Folders) (*shell.Shell, error) {
	s := config.BuiltinShell{}
	if c.Builtin.Shell != nil {
		s = *c.Builtin.Shell
	}
	o := shell.Options{
		Folders: folders, Runtime: shell.RuntimeProcess, Network: s.Network == config.NetworkHost, Init: a.sandboxInit(),
		Environ: a.o.Environ, Owner: a.owner, State: filepath.Join(a.packFolder("shell"), "sessions"), HomeSize: orDefault(s.Home, shellHome), Scratch: a.tempFolder(), Enforces: a.enforcesRules, Start: a.starterWithRules(&netjail.Jail{Launcher: a.jailLauncher(), Log: a.log, HostNetwork: true}),
		Limits: lockdown.Limits{Memory: orDefault(s.Memory, shellMemory), Disk: orDefault(s.Disk, shellDisk), PIDs: int(orDefault(int64(s.PIDs), shellPIDs))},
	}
	if s.Runtime != "" {
		o.Runtime = s.Runtime
	}
	drivers := &commands{app: a, image: s.Image, limits: sandbox.Limits{Memory: o.Limits.Memory, Disk: o.Limits.Disk, PIDs: o.Limits.PIDs}}
	for limit, set := range map[sandbox.Limit]bool{sandbox.LimitMemory: s.Memory != 0, sandbox.LimitDisk: s.Disk != 0, sandbox.LimitPIDs: s.PIDs != 0} {
		if !set {
			drivers.defaultLimits = append(drivers.defaultLimits, limit)
		}
	}
	o.Drivers = drivers
	if len(s.Env) > 0 {
		o.Env = func(ctx context.Context) (map[string]string, error) {
			return a.resolver.ExpandAll(forAllCallers(ctx), s.Env)
		}
	}
	if err := os.MkdirAll(o.Scratch, 0o700); err != nil {
		a.log.Warn("failed to create a folder for commands", "error", err)
	}
	if s.Network == config.NetworkGuarded {
		guard, err := egress.New(c.Egress.Policy(s.Egress))
		if err != nil {
			return nil, err
		}
		guard = guard.WithOwn()
		drivers.guard = guard
		o.Proxy = func(l net.Listener, done <-chan struct{}) { egress.ServeProxy(l, guard, a.log, nil, done) }
	}
	return shell.New(o), nil
}

func orDefault(n, fallback int64) int64 {
	if n == 0 {
		return fallback
	}
	return n
}

// checkPacks reports the programs and settings that the built-in packs lack.
func (a *App) checkPacks(ctx context.Context) []Check {
	a.mu.Lock()
	current := a.packs
	a.mu.Unlock()
	var checks []Check
	for _, p := range current.list {
		c := Check{Name: "tools " + p.Name, Status: CheckOK, Detail: packDetail(p)}
		missing := p.Missing
		if missing == nil && (p.Name == "shell" || p.Name == "process" || p.Name == "git") {
			missing = current.shell.Available(ctx)
		}
		if missing == nil && p.Check != nil {
			missing = p.Check(ctx)
		}
		if missing == nil {
			missing = p.PartlyMissing
		}
		if missing == nil {
			missing = p.Weakness
		}
		if missing != nil {
			c.Status, c.Detail, c.Fix = CheckInfo, missing.Message, missing.Hints()
		}
		checks = append(checks, c)
	}
	return checks
}

func packDetail(p *builtin.Pack) string {
	detail := ""
	for i, t := range p.Tools {
		if i > 0 {
			detail += ", "
		}
		detail += t.ID.Name
	}
	if p.Dir != "" {
		detail += " in " + p.Dir
	}
	return detail
}
