package function

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// NPM resolves the packages of functions in JavaScript and TypeScript, and installs them into
// layers. npm itself never runs install scripts; those that are allowed run in a sandbox.
type NPM struct {
	// Path is the path of npm.
	Path string
	// Environ is the environment of npm: its registry, proxy and certificates.
	Environ []string
	Store   LayerStore
	// Builder runs the install scripts that are allowed.
	Builder Builder
}

// Modules is the folder of a layer with the packages, where Node expects them.
const Modules = "node_modules"

// PackageFile and LockFile are the files of a folder that declare npm packages.
const (
	PackageFile = "package.json"
	LockFile    = "package-lock.json"
)

// requirement matches name or name@range: a package of a registry, with an alias if the
// range begins with npm:.
var requirement = pattern.Lazy(`^((?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]*)(?:@((?:npm:)?[^:\x00-\x1f]*))?$`)

// PackageRequirements returns the dependencies that a package.json declares, as name@range.
func PackageRequirements(text string) ([]string, error) {
	var p struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s cannot be read: %w", PackageFile, err).WithHint("write JSON with dependencies: {name: range}")
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Dependencies)) {
		all = append(all, name+"@"+p.Dependencies[name])
	}
	return all, nil
}

// readPackages adds the dependencies in package.json to those of the header. It moves the lock
// from c.Files to c.Lock.
func (c *Code) readPackages() error {
	if text, ok := c.Files[PackageFile]; ok {
		more, err := PackageRequirements(text)
		if err != nil {
			return err
		}
		c.Manifest.Dependencies = append(c.Manifest.Dependencies, more...)
	}
	slices.Sort(c.Manifest.Dependencies)
	c.Manifest.Dependencies = slices.Compact(c.Manifest.Dependencies)
	if text, ok := c.Files[LockFile]; ok && strings.TrimSpace(text) != "" {
		c.Lock = text
		c.Files = maps.Clone(c.Files)
		delete(c.Files, LockFile)
	}
	return nil
}

// packageJSON returns a package.json with the given requirements.
func packageJSON(requires []string) ([]byte, error) {
	dependencies := map[string]string{}
	for _, one := range requires {
		found := requirement().FindStringSubmatch(one)
		if found == nil || strings.Contains(found[2], "/") && !strings.HasPrefix(found[2], "npm:") {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the dependency %q is not a package of a registry", one).
				WithHint("write name or name@range, for example semver@^7; folders, addresses and repositories have no hashes")
		}
		dependencies[found[1]] = cmp.Or(found[2], "*")
	}
	return json.MarshalIndent(map[string]any{"name": "tool", "version": "0.0.0", "private": true, "dependencies": dependencies}, "", "  ")
}

// Resolve returns the lock of requirements. lock is the author's, which is only checked; if it is
// empty, Resolve makes one. With a folder of tarballs it uses only those, and no network.
func (n NPM) Resolve(ctx context.Context, requires []string, lock, tarballs string) (string, error) {
	var err error
	own := lock != ""
	if !own {
		if lock, err = n.makeLock(ctx, requires, tarballs); err != nil {
			return "", err
		}
	}
	all, err := parseNPMLock(lock)
	if err == nil {
		lock, err = withScripts(lock, nil) // the author must not declare results of scripts
	}
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.Link || !strings.HasPrefix(p.Integrity, "sha512-") && !strings.HasPrefix(p.Integrity, "sha384-") && !strings.HasPrefix(p.Integrity, "sha256-") {
			return "", toolroom.Errorf(toolroom.CodeDenied, "%s %s has no integrity in the lock, so its content cannot be checked", p.Name, p.Version).
				WithHint("take it from a registry that publishes hashes (SHA-256 or longer), and lock it again without %s", LockFile)
		}
		if p.HasInstallScript && !p.Optional {
			if err := n.checkMayRun(p); err != nil {
				return "", err // before anything is fetched
			}
		}
	}
	plain, err := n.Unpack(ctx, requires, lock, tarballs)
	if err != nil {
		return "", err
	}
	var scripted []npmPackage
	for _, p := range all {
		if !hasScript(n.Store.Path(plain), p) {
			continue
		}
		if err := n.checkMayRun(p); err != nil {
			return "", err
		}
		if own {
			if err := n.checkSameAsRegistry(ctx, p, tarballs); err != nil {
				return "", err
			}
		}
		scripted = append(scripted, p)
	}
	if len(scripted) > 0 {
		return n.runScripts(ctx, requires, lock, tarballs, scripted)
	}
	return lock, nil
}

// checkMayRun returns an error if the config does not allow the install script of a package.
func (n NPM) checkMayRun(p npmPackage) error {
	if n.Builder.allows(npm, p.Name) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeDenied, "%s %s has an install script, which would run its code: it was not run", p.Name, p.Version).
		WithHint("choose another package, or allow the script to run in a sandbox: %s", allowHint(npm, p.Name))
}

// hasScript reports whether npm would run a script to install a package of a layer. It looks at
// the installed package, because npm leaves out optional packages that do not fit this Node, and
// builds native code even if a package declares no script.
func hasScript(layer string, p npmPackage) bool {
	folder := filepath.Join(layer, filepath.FromSlash(p.At))
	text, err := os.ReadFile(filepath.Join(folder, PackageFile))
	if err != nil {
		return false
	}
	if p.HasInstallScript {
		return true
	}
	var m struct {
		Gyp     *bool `json:"gypfile"`
		Scripts map[string]any
	}
	_ = json.Unmarshal(text, &m) // npm does not build a package that it cannot read
	_, err = os.Stat(filepath.Join(folder, "binding.gyp"))
	return err == nil && (m.Gyp == nil || *m.Gyp) && m.Scripts["install"] == nil && m.Scripts["preinstall"] == nil
}

// checkSameAsRegistry returns an error if a package in an author's lock is not the registry's
// package of that name and version, which is the one whose script the config allows.
func (n NPM) checkSameAsRegistry(ctx context.Context, p npmPackage, tarballs string) error {
	lock, err := n.makeLock(ctx, []string{p.Name + "@" + p.Version}, tarballs)
	if err != nil {
		return err
	}
	all, err := parseNPMLock(lock)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(q npmPackage) bool {
		return q.At == Modules+"/"+p.Name && q.Name == p.Name && q.Version == p.Version && q.Integrity == p.Integrity
	}) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeDenied, "%s has an install script, and its content in %s is not that of %s %s in the registry: nothing was installed", p.At, LockFile, p.Name, p.Version).
		WithHint("lock it again without %s", LockFile)
}

// makeLock makes a lock with npm.
func (n NPM) makeLock(ctx context.Context, requires []string, tarballs string) (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-lock-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	text, err := packageJSON(requires)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, PackageFile), text, 0o600)
	}
	if err != nil {
		return "", err
	}
	said, err := n.run(ctx, folder, tarballs, "install", "--package-lock-only")
	if err != nil {
		return "", err
	}
	if said != "" {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the dependencies %s cannot be resolved: %s", strings.Join(requires, ", "), said).
			WithHint("%s", npmHint(said, "correct the names and versions; without a registry, push with --tarballs FOLDER"))
	}
	made, err := os.ReadFile(filepath.Join(folder, LockFile))
	return string(made), err
}

// run runs npm in a folder. said is npm's reason if it failed, else empty.
func (n NPM) run(ctx context.Context, folder, tarballs string, args ...string) (said string, err error) {
	// With a prefix npm does not read the .npmrc of a workspace in parent folders. Anybody can
	// write to the folder for temporary files, and such a file could name a registry that
	// receives the user's tokens.
	args = append(args, "--prefix="+folder, "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--no-update-notifier", "--prefer-offline", "--loglevel=error", "--git=/bin/false", "--cache="+filepath.Join(n.Store.Folder, npmCache), "--logs-max=0",
		// Make the same lock for all configurations of the user's npm.
		"--omit-lockfile-registry-resolved=false", "--replace-registry-host=npmjs", "--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000")
	if tarballs != "" {
		address, stop, err := serveTarballs(tarballs)
		if err != nil {
			return "", err
		}
		defer stop()
		args = append(args, "--registry="+address)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.Path, args...)
	cmd.Dir, cmd.Env = folder, n.Environ
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil {
		return "", nil
	}
	return cmp.Or(npmReason(out), err.Error()), nil
}

// npmReason returns the cause of a failure from npm's output, in one line that begins with npm's
// error code.
func npmReason(out []byte) string {
	const most = 600
	code, words := "", []string{}
	for line := range strings.Lines(string(bytes.TrimSpace(out))) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "npm error")
		if !ok {
			continue
		}
		fields := strings.Fields(line)
		for len(fields) > 0 && slices.Contains([]string{"404", "notarget", "network"}, fields[0]) {
			fields = fields[1:] // npm writes them before every line
		}
		line = strings.Join(fields, " ")
		if npmAdvice().MatchString(line) {
			break
		}
		if one, ok := strings.CutPrefix(line, "code "); ok && code == "" {
			code = one + ": "
		} else if !npmDetail().MatchString(line) {
			words = append(words, fields...)
		}
	}
	said := strings.Join(words, " ")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	return code + said
}

// npmAdvice matches the first line after the cause of a failure; npmDetail matches lines that do
// not belong to the cause.
var (
	npmAdvice = pattern.Lazy(`^(Note that|In most cases|This is a problem related|If you |Fix the upstream|For a full report|A complete log|Log files)`)
	npmDetail = pattern.Lazy(`^(at |node_modules/|While resolving:|(errno|syscall) |\w+: .*,$|\}$)`)
)

// npmHint returns the hint for a reason of npmReason, or otherwise if there is none.
func npmHint(said, otherwise string) string {
	code, _, _ := strings.Cut(said, ":")
	switch code {
	case "E401", "E403", "ENEEDAUTH":
		return "the registry wants to know who asks: write its token into ~/.npmrc, such as //HOST/:_authToken=${NPM_TOKEN}"
	case "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNRESET":
		return "npm cannot reach its registry: see npm config get registry, and the variables NPM_CONFIG_REGISTRY and HTTPS_PROXY; without a registry, push with --tarballs FOLDER"
	}
	return otherwise
}

// namedVariable matches a variable of the environment in an .npmrc.
var namedVariable = pattern.Lazy(`\$\{([^}?]+)\??\}`)

// NPMVariables returns the variables of an environment that the user's .npmrc refers to, usually
// for tokens.
func NPMVariables(environ []string) []string {
	env := environMap(environ)
	text, err := os.ReadFile(cmp.Or(env["NPM_CONFIG_USERCONFIG"], env["npm_config_userconfig"], filepath.Join(env["HOME"], ".npmrc")))
	if err != nil {
		return nil
	}
	var named []string
	for _, found := range namedVariable().FindAllStringSubmatch(string(text), -1) {
		if value, ok := env[found[1]]; ok {
			named = append(named, found[1]+"="+value)
		}
	}
	return named
}

// npmPackage is a package of a lock.
type npmPackage struct {
	// At is its folder, such as node_modules/a/node_modules/b.
	At               string `json:"-"`
	Name             string `json:"name"`
	Version          string `json:"version"`
	Integrity        string `json:"integrity"`
	Link             bool   `json:"link"`
	InBundle         bool   `json:"inBundle"`
	Dev              bool   `json:"dev"`
	Optional         bool   `json:"optional"`
	HasInstallScript bool   `json:"hasInstallScript"`
	OS, CPU          []string
}

// parseNPMLock returns the packages of a lock that npm installs on this platform, sorted by folder.
func parseNPMLock(lock string) ([]npmPackage, error) {
	var l struct {
		Version  int                   `json:"lockfileVersion"`
		Packages map[string]npmPackage `json:"packages"`
	}
	if err := json.Unmarshal([]byte(lock), &l); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s cannot be read: %w", LockFile, err).WithHint("remove it, or make it again with npm install --package-lock-only")
	}
	if l.Version < 2 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has the version %d; 2 and 3 are known", LockFile, l.Version).WithHint("make it again with npm 7 or newer: npm install --package-lock-only")
	}
	var all []npmPackage
	for _, at := range slices.Sorted(maps.Keys(l.Packages)) {
		p := l.Packages[at]
		last := strings.LastIndex("/"+at, "/"+Modules+"/")
		if at == "" || p.InBundle || p.Dev || p.Optional && (!matchesPlatform(p.OS, nodeOS()) || !matchesPlatform(p.CPU, nodeCPU())) {
			continue // the tool itself, or a package that is not fetched
		}
		if last < 0 || !filepath.IsLocal(filepath.FromSlash(at)) {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has the folder %q, which is not in %s", LockFile, at, Modules).WithHint("a tool has no workspaces: depend on packages of a registry")
		}
		p.At, p.Name = at, cmp.Or(p.Name, at[last+len(Modules)+1:])
		all = append(all, p)
	}
	return all, nil
}

// matchesPlatform reports whether a list of platforms, such as linux or !win32, includes one.
func matchesPlatform(list []string, one string) bool {
	only := false
	for _, entry := range list {
		if not, ok := strings.CutPrefix(entry, "!"); ok {
			if not == one {
				return false
			}
			continue
		}
		if entry == one || entry == "any" {
			return true
		}
		only = true
	}
	return !only
}

func nodeOS() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return runtime.GOOS
}

func nodeCPU() string {
	return cmp.Or(map[string]string{"amd64": "x64", "386": "ia32"}[runtime.GOARCH], runtime.GOARCH)
}

func isNPMLock(lock string) bool { return strings.HasPrefix(strings.TrimSpace(lock), "{") }

// npmLayerDigest returns the digest of a lock's layer: the hash of its packages' hashes. It
// includes optional packages that fit this platform, even if npm leaves them out because of the
// version of Node.
func npmLayerDigest(lock string) (string, error) {
	all, err := parseNPMLock(lock)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "npm %s %s\n", nodeOS(), nodeCPU())
	for _, p := range all {
		fmt.Fprintf(sum, "%s %s\n", p.At, p.Integrity)
	}
	if s := readScripts(lock); len(s.Ran) > 0 {
		fmt.Fprintf(sum, "built %s %s\n", strings.Join(s.Ran, " "), s.Result)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Unpack makes the layer of a lock, unless it exists, and returns its digest. npm checks the
// hashes.
func (n NPM) Unpack(ctx context.Context, requires []string, lock, tarballs string) (string, error) {
	digest, err := npmLayerDigest(lock)
	if err != nil {
		return "", err
	}
	text, err := packageJSON(requires)
	if err != nil {
		return "", err
	}
	return digest, n.Store.makeLayer(ctx, digest, func(folder string) error {
		for name, content := range map[string][]byte{PackageFile: text, LockFile: []byte(lock)} {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
				return err
			}
		}
		said, err := n.run(ctx, folder, tarballs, "ci", "--omit=dev")
		switch {
		case err != nil:
			return err
		case strings.Contains(said, "EINTEGRITY"):
			return toolroom.Errorf(toolroom.CodeDenied, "a package is not the one of the lock: nothing was installed: %s", said).
				WithHint("the registry gave another file than it named; push again, from a registry that you trust")
		case said != "":
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "the packages of the lock cannot be installed: %s", said).
				WithHint("%s", npmHint(said, "if "+LockFile+" does not fit the dependencies, make it again: npm install --package-lock-only"))
		}
		if err := checkInstalled(lock, folder); err != nil {
			return err
		}
		if s := readScripts(lock); len(s.Ran) > 0 {
			if err := n.applyScripts(s, folder); err != nil {
				return err
			}
		}
		return prepareFiles(folder)
	})
}

// checkInstalled returns an error if npm has installed a package that parseNPMLock left out, and
// that the digest therefore does not cover: a lock can mark any package as not to be fetched.
func checkInstalled(lock, folder string) error {
	all, err := parseNPMLock(lock)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, Modules, ".package-lock.json"))
	if err != nil {
		return err
	}
	var installed struct {
		Packages map[string]npmPackage `json:"packages"`
	}
	if err := json.Unmarshal(text, &installed); err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(installed.Packages)) {
		if !installed.Packages[at].InBundle && !slices.ContainsFunc(all, func(p npmPackage) bool { return p.At == at }) {
			return toolroom.Errorf(toolroom.CodeDenied, "%s says of %s that it is not fetched, and it was: nothing was installed", LockFile, at).
				WithHint("make the lock again: npm install --package-lock-only")
		}
	}
	return nil
}

// prepareFiles makes the files of a folder readable for all users and writable for none but the
// owner. It returns an error for links, which could lead out of the layer.
func prepareFiles(folder string) error {
	return filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(at, 0o755)
		case !d.Type().IsRegular():
			return toolroom.Errorf(toolroom.CodeDenied, "a package has %s, which is no plain file", strings.TrimPrefix(at, folder+"/"))
		case d.Name() == PackageFile:
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			if nestingDepth(text) > maxDepth {
				return toolroom.Errorf(toolroom.CodeDenied, "a package has %s, which nests deeper than %d", strings.TrimPrefix(at, folder+"/"), maxDepth)
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if info.Mode()&0o111 != 0 { // packages come with programs
			mode = 0o755
		}
		return os.Chmod(at, mode)
	})
}

// maxDepth bounds the nesting of a package.json: the bundler's parser recurses.
const maxDepth = 1000

// nestingDepth returns the nesting depth of a JSON text.
func nestingDepth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}
