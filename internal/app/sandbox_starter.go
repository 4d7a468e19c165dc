package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/sandbox"
)

// sandboxStarter starts the program of a source in a sandbox, as a command attached to a
// guest: the bridge carries its input, output and connections.
type sandboxStarter struct {
	app    *App
	name   string
	source config.Source
	egress config.Egress
}

// sourceHome is the home folder of a program in a sandbox.
const sourceHome = "/home/source"

// start starts a program without rules of the policy.
func (st *sandboxStarter) start(ctx context.Context, s proc.Spec) (*proc.Process, error) {
	return st.startWithRules(ctx, s, nil)
}

// startWithRules starts a program under rules of the policy and returns when it is running.
// The end of the caller's context stops the start, but not a running program.
func (st *sandboxStarter) startWithRules(caller context.Context, s proc.Spec, rules []toolroom.Effect) (*proc.Process, error) {
	e, err := st.engine()
	if err != nil {
		return nil, err
	}
	job, guard, err := st.newJob(context.WithoutCancel(caller), e, s, rules)
	if err != nil {
		return nil, err
	}
	p, stdin, stdout, err := attachedProgram{who: "the source " + st.name, job: job, guard: guard, stderr: s.Stderr, log: st.app.log}.start(caller, e)
	if err != nil {
		return nil, err
	}
	return proc.Wrap(p, stdin, stdout), nil
}

// engine returns the engine of the sandbox's driver.
func (st *sandboxStarter) engine() (*hosted.Engine, error) {
	name := cmp.Or(st.source.Sandbox.Runtime, config.RuntimeProcess)
	e, known := st.app.hostedEngine(name)
	if e != nil {
		return e, nil
	}
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the source %s names the sandbox %q, which does not exist", st.name, name).
		WithHint("available: %s", strings.Join(known, ", "))
}

// newJob returns the job for the engine, and the guard of the program's connections, which
// is nil if it may make none.
func (st *sandboxStarter) newJob(ctx context.Context, e *hosted.Engine, s proc.Spec, rules []toolroom.Effect) (engine.Job, *egress.Guard, error) {
	b := st.source.Sandbox
	limits, defaulted := b.Limits()
	shows, err := st.exposure(ctx, e, s)
	if err != nil {
		return engine.Job{}, nil, err
	}
	mounts, err := st.mounts(ctx, e, shows, rules)
	if err != nil {
		return engine.Job{}, nil, err
	}
	own, err := st.protectiveMounts(shows.granted)
	if err != nil {
		return engine.Job{}, nil, err
	}
	spec := sandbox.Spec{
		Profile: sandbox.Profile(cmp.Or(b.Profile, string(sandbox.Standard))), Limits: limits, Defaulted: defaulted, Image: b.Image,
		Guest: st.app.o.Guest.Path, Args: st.app.o.Guest.Args, Egress: slices.Concat(b.Hosts, st.registries(s.Command)),
		Folders: slices.Concat(shows.folders, mounts, own),
	}
	dir := ""
	if st.workingFolder(s.Dir) == s.Dir {
		dir = s.Dir
	} else if st.cwd() != "" {
		return engine.Job{}, nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the sandbox of the source %s does not show its working folder %s", st.name, s.Dir).
			WithHint("add it to sandbox.read or sandbox.write, or remove cwd")
	}
	refused := restrict.Hosts(rules)
	if slices.Contains(refused, "*") {
		spec.Egress = nil
	}
	var guard *egress.Guard
	if len(spec.Egress) > 0 {
		policy := st.egress.Policy(st.source.Egress)
		if slices.Contains(spec.Egress, config.AnyHost) {
			guard, err = egress.New(policy)
		} else {
			policy.Allow = append(policy.Allow, spec.Egress...)
			if guard, err = egress.New(policy); err == nil {
				guard, err = guard.Within(spec.Egress)
			}
		}
		if err == nil && len(refused) > 0 {
			guard, err = guard.Denying(refused)
		}
		if err != nil {
			return engine.Job{}, nil, err
		}
	}
	return engine.Job{
		Run: "source-" + st.name, Owner: "sources", Sandbox: spec,
		Program: bridge.Program{
			Language: "command", Name: filepath.Base(shows.command), Command: append([]string{shows.command}, s.Args...), Attached: true, Dir: dir,
			Env:    slices.Concat(shows.env, st.registryVariables(s.Command), s.Env),
			Limits: bridge.Limits{Wall: forever.Milliseconds(), Output: math.MaxInt64 / 2, Bytes: math.MaxInt64 / 2, Memory: limits.Memory},
		},
	}, guard, nil
}

// exposure describes what a sandbox shows of this machine besides the installed programs.
type exposure struct {
	folders []sandbox.Folder // those of this machine, outer ones first
	granted []sandbox.Folder // those of the folders that the config names
	parents []sandbox.Folder // those of the folders that parentMounts returned
	command string           // the path of the program in the sandbox
	path    string           // a folder of programs besides the usual ones; may be empty
	env     []string         // variables with the places of files
}

// exposure returns what the sandbox of a program shows.
func (st *sandboxStarter) exposure(ctx context.Context, e *hosted.Engine, s proc.Spec) (out exposure, err error) {
	probe := e.Probe(ctx)
	if probe.State == sandbox.Available && probe.Folders {
		home := filepath.Join(st.app.home, "sources", st.name)
		if err := os.MkdirAll(home, 0o700); err != nil {
			return exposure{}, err
		}
		out.folders = append(out.folders, sandbox.Folder{Source: home, Target: sourceHome, Writable: true})
		out.env = append(out.env, "HOME="+sourceHome)
	}
	if out.granted, err = st.folders(); err != nil {
		return exposure{}, err
	}
	out.parents = st.parentMounts(out.granted)
	out.folders = slices.Concat(out.folders, out.granted, out.parents)
	out.command = s.Command
	if e.Name() == config.RuntimeProcess {
		files, variables := st.authorities(s.Command)
		out.folders, out.env = append(out.folders, files...), append(out.env, variables...)
		found, folders, path := st.locateProgram(s)
		// What the config grants, perhaps for writing, is not shown again.
		folders = slices.DeleteFunc(folders, func(f sandbox.Folder) bool {
			return f.Target == "" && slices.ContainsFunc(out.granted, func(g sandbox.Folder) bool { return within(f.Source, g.Source) })
		})
		out.command, out.path, out.folders = found, path, append(out.folders, folders...)
		if path != "" {
			out.env = append(out.env, "PATH="+path+":"+confinedPath)
		}
	}
	// A folder is mounted after the one that it is in, or that one would hide it.
	slices.SortStableFunc(out.folders, func(a, b sandbox.Folder) int { return cmp.Compare(folderDepth(a), folderDepth(b)) })
	return out, nil
}

// folderDepth returns the number of folders in the path of a folder in the sandbox.
func folderDepth(f sandbox.Folder) int {
	return strings.Count(filepath.Clean(cmp.Or(f.Target, f.Source)), "/")
}

// forever is longer than any program of a source runs.
const forever = 10 * 365 * 24 * time.Hour

// confinedPath are the folders of programs that the sandbox of this machine shows.
const confinedPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (st *sandboxStarter) cwd() string {
	if st.source.MCP != nil {
		return st.source.MCP.Cwd
	}
	return st.source.CLI.Cwd
}

// privateFolder is the working folder of a program whose sandbox does not show the
// configured one. Each program has another name for it, at this depth.
const privateFolder = "/work/run"

// workingFolder returns the working folder of a program in the sandbox.
func (st *sandboxStarter) workingFolder(dir string) string {
	for _, path := range slices.Concat(st.source.Sandbox.Read, st.source.Sandbox.Write) {
		if full, err := st.folder(path); err == nil && within(dir, full) {
			return dir
		}
	}
	return privateFolder
}

// folder returns the absolute path of a folder of the config.
func (st *sandboxStarter) folder(path string) (string, error) {
	return filepath.Abs(st.app.resolvePath(st.app.expandHome(path)))
}

// folders returns the folders that the config grants.
func (st *sandboxStarter) folders() ([]sandbox.Folder, error) {
	var out []sandbox.Folder
	add := func(paths []string, writable bool) error {
		for _, path := range paths {
			full, err := st.folder(path)
			if err == nil {
				_, err = os.Stat(full)
			}
			if err != nil {
				return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the sandbox of the source %s cannot show %s: %w", st.name, path, err).
					WithHint("make it, or remove it from sandbox.read and sandbox.write")
			}
			out = append(out, sandbox.Folder{Source: full, Writable: writable})
		}
		return nil
	}
	return out, cmp.Or(add(st.source.Sandbox.Read, false), add(st.source.Sandbox.Write, true))
}

// pathInside returns the path in the sandbox of a path in a folder that the config grants.
// It returns "" if the path is not in the folder.
func pathInside(g sandbox.Folder, path string) string {
	real, err := filepath.EvalSymlinks(g.Source)
	if err != nil {
		return ""
	}
	if path, err := filepath.EvalSymlinks(path); err == nil && path != real && within(path, real) {
		return g.Source + strings.TrimPrefix(path, real)
	}
	return ""
}

// stateFolders returns the folders of Toolroom's own state.
func (st *sandboxStarter) stateFolders() []string { return []string{st.app.home, st.app.storeFolder} }

// decidingFiles returns the files that decide what is permitted.
func (st *sandboxStarter) decidingFiles() []string {
	return append(st.app.policyFiles(st.app.Config()), st.app.o.ConfigFile)
}

// parentMounts returns the parent folders of the paths that protectiveMounts protects, to
// be mounted over themselves, because a mount cannot be renamed. Without that the program
// could move such a folder and put another one in its place, with a config of its own.
func (st *sandboxStarter) parentMounts(granted []sandbox.Folder) []sandbox.Folder {
	var out []sandbox.Folder
	for _, g := range granted {
		for _, path := range slices.Concat(st.stateFolders(), st.decidingFiles()) {
			at := pathInside(g, path)
			if at == "" || !g.Writable {
				continue
			}
			for dir := filepath.Dir(at); dir != g.Source; dir = filepath.Dir(dir) {
				f := sandbox.Folder{Source: dir, Writable: true}
				// In a folder that is granted besides, that grant counts.
				if !slices.Contains(out, f) && !slices.ContainsFunc(granted, func(h sandbox.Folder) bool {
					return within(dir, h.Source) && len(h.Source) > len(g.Source)
				}) {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// protectiveMounts returns the mounts over the granted folders that hide Toolroom's own
// state from the program and make the files that decide what is permitted read-only. A
// program that could read or write the state would have every secret and every right.
func (st *sandboxStarter) protectiveMounts(granted []sandbox.Folder) ([]sandbox.Folder, error) {
	var hidden, fixed []sandbox.Folder
	scratch := st.app.tempFolder()
	for _, g := range granted {
		real, err := filepath.EvalSymlinks(g.Source)
		if err != nil {
			return nil, err
		}
		for _, state := range st.stateFolders() {
			if state, err := filepath.EvalSymlinks(state); err == nil && within(real, state) {
				return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the sandbox of the source %s cannot show %s: it belongs to Toolroom itself", st.name, g.Source).
					WithHint("remove it from sandbox.read and sandbox.write")
			}
			if at := pathInside(g, state); at != "" {
				hidden = append(hidden, sandbox.Folder{Source: filepath.Join(scratch, "empty.d"), Target: at})
			}
		}
		for _, file := range st.decidingFiles() {
			if at := pathInside(g, file); at != "" && g.Writable {
				fixed = append(fixed, sandbox.Folder{Source: file, Target: at})
			}
		}
	}
	if len(hidden) > 0 {
		if err := os.MkdirAll(scratch, 0o700); err != nil {
			return nil, err
		}
		if err := os.Mkdir(filepath.Join(scratch, "empty.d"), 0o500); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return append(fixed, hidden...), nil
}

// protectedFilesStamp returns a text that changes if a file is replaced that is in a
// writable folder of a source's program, but which the program must not change. When such a
// file is replaced, the kernel removes the mount over it from every open sandbox, so that
// the program could write the new file.
func (a *App) protectedFilesStamp(s config.Source, c *config.Config) string {
	if s.Sandbox == nil || len(s.Sandbox.Write) == 0 {
		return ""
	}
	st := &sandboxStarter{app: a}
	var out []string
	for _, path := range s.Sandbox.Write {
		full, err := st.folder(path)
		if err != nil {
			continue
		}
		for _, file := range append(a.policyFiles(c), a.o.ConfigFile) {
			real, err := filepath.EvalSymlinks(file)
			if err != nil || pathInside(sandbox.Folder{Source: full}, real) == "" {
				continue // there is no file that it could change
			}
			if id, err := fileIdentity(real); err == nil {
				out = append(out, id)
			}
		}
	}
	return strings.Join(out, " ")
}

// expandHome replaces ~ and ~/ by the home folder of this user.
func (a *App) expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	ok = ok && (rest == "" || rest[0] == '/')
	if home, set := a.lookupEnv("HOME"); ok && set {
		return filepath.Join(home, rest)
	}
	return path
}

// locateProgram finds the program for the sandbox of this machine, which shows the
// installed programs. A program in another place, such as Node in a home folder, is shown
// as well: its folder if that contains nothing else, else its file. path is a folder to add
// to the search path.
func (st *sandboxStarter) locateProgram(s proc.Spec) (command string, folders []sandbox.Folder, path string) {
	found := s.Command
	if !strings.Contains(found, "/") {
		var err error
		if found, err = exec.LookPath(found); err != nil {
			return s.Command, nil, ""
		}
	} else if !filepath.IsAbs(found) {
		return filepath.Join(s.Dir, found), nil, "" // in a folder that the config grants, or not at all
	}
	actual, err := filepath.EvalSymlinks(found)
	if err != nil || installed(found) && installed(actual) {
		return found, nil, ""
	}
	bin := filepath.Dir(found)
	prefix := filepath.Dir(bin)
	if filepath.Base(bin) == "bin" && exists(filepath.Join(prefix, "pyvenv.cfg")) {
		return found, []sandbox.Folder{{Source: prefix}}, bin
	}
	// Not the whole prefix, which may be ~/.local or even the home folder.
	if packages := filepath.Join(prefix, "lib", "node_modules"); filepath.Base(bin) == "bin" && exists(packages) {
		return found, []sandbox.Folder{{Source: bin}, {Source: packages}}, bin
	}
	folders = []sandbox.Folder{{Source: actual, Target: found}}
	if uv := filepath.Join(filepath.Dir(actual), "uv"); filepath.Base(found) == "uvx" && exists(uv) {
		folders = append(folders, sandbox.Folder{Source: uv, Target: filepath.Join(bin, "uv")})
	}
	return found, folders, bin
}

// installed reports whether the sandbox of this machine shows a path.
func installed(path string) bool {
	for _, dir := range []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"} {
		if within(path, dir) {
			return true
		}
	}
	return false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// packageLauncher is a program that installs and starts packages.
type packageLauncher struct {
	hosts []string // of the public registry
	// variables are the environment variables of this process that name another registry.
	variables []string
}

var (
	npmLauncher = packageLauncher{[]string{"registry.npmjs.org"}, []string{"npm_config_registry", "NPM_CONFIG_REGISTRY"}}
	uvLauncher  = packageLauncher{[]string{"pypi.org", "files.pythonhosted.org"}, []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"}}
)

func launcherOf(command string) (packageLauncher, bool) {
	switch filepath.Base(command) {
	case "npx", "npm", "pnpm", "bunx":
		return npmLauncher, true
	case "uvx", "uv", "pipx":
		return uvLauncher, true
	}
	return packageLauncher{}, false
}

// registries returns the hosts from which a package launcher installs packages. A sandbox
// without any hosts cannot reach them either: its packages must be in its home folder.
func (st *sandboxStarter) registries(command string) []string {
	l, ok := launcherOf(command)
	if !ok {
		return nil
	}
	hosts := slices.Clone(l.hosts)
	for _, setting := range st.registryVariables(command) {
		_, value, _ := strings.Cut(setting, "=")
		if u, err := url.Parse(value); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// registryVariables returns the variables that tell a package launcher its registry.
func (st *sandboxStarter) registryVariables(command string) []string {
	l, _ := launcherOf(command)
	var env []string
	for _, name := range l.variables {
		if value, ok := st.app.lookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if home, ok := st.app.lookupEnv("HOME"); ok && len(env) == 0 && slices.Equal(l.variables, npmLauncher.variables) {
		text, _ := os.ReadFile(filepath.Join(home, ".npmrc")) // without one it is the public registry
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "registry" {
				env = append(env, l.variables[0]+"="+strings.TrimSpace(value))
			}
		}
	}
	return env
}

// authorities returns the files of certificate authorities that package launchers trust
// here besides the usual ones, and the variables that name them. Behind a proxy that ends
// TLS, packages cannot be installed without its authority.
func (st *sandboxStarter) authorities(command string) (files []sandbox.Folder, variables []string) {
	if _, ok := launcherOf(command); !ok {
		return nil, nil
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"} {
		path, ok := st.app.lookupEnv(name)
		if !ok || !filepath.IsAbs(path) || !exists(path) {
			continue
		}
		variables = append(variables, name+"="+path)
		if f := (sandbox.Folder{Source: path}); !within(path, "/etc/ssl/certs") && !installed(path) && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	return files, variables
}
