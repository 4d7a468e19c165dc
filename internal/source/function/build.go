package function

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // of the build
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/sandbox"
)

// Builder builds packages by running their code, in a sandbox.
type Builder struct {
	// Allowed names the packages that may be built: pypi:NAME or npm:NAME.
	Allowed []string
	// Run runs a build in a sandbox without network access, and copies its output to out.
	Run func(ctx context.Context, b Build, out io.Writer) error
}

// Build is a command that builds a package.
type Build struct {
	// Name names the package in messages.
	Name    string
	Command []string
	Env     []string
	// Input is the command's standard input.
	Input io.Reader
	// Layer is a folder that is mounted read-only at [sandbox.LayerPath]; empty means none.
	Layer string
	// MaxOutput limits the command's output, in bytes.
	MaxOutput int64
}

// The kinds of packages in [Builder.Allowed].
const (
	pypi = "pypi"
	npm  = "npm"
)

// ParseAllowed parses an entry of [Builder.Allowed]. It returns false for an invalid one.
func ParseAllowed(entry string) (kind, name string, ok bool) {
	kind, name, _ = strings.Cut(entry, ":")
	switch kind {
	case pypi:
		return kind, normalizedName(name), pypiName().MatchString(name)
	case npm:
		found := requirement().FindStringSubmatch(name)
		return kind, name, found != nil && found[1] == name
	}
	return "", "", false
}

func (b Builder) allows(kind, name string) bool {
	return slices.ContainsFunc(b.Allowed, func(entry string) bool {
		k, n, ok := ParseAllowed(entry)
		return ok && k == kind && n == name
	})
}

// allowHint returns the line of the config that allows a build.
func allowHint(kind, name string) string {
	return fmt.Sprintf("releases: {packages: {build: [%q]}}", kind+":"+name)
}

var (
	pypiName    = pattern.Lazy(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	separators  = pattern.Lazy(`[-_.]+`)
	leadingZero = pattern.Lazy(`\b0+([0-9])`)
)

// normalizedName returns the normal form of a Python package's name (PEP 503).
func normalizedName(name string) string {
	return strings.ToLower(separators().ReplaceAllString(name, "-"))
}

// sameVersion reports whether two spellings are the same version, as far as build backends
// spell versions differently.
func sameVersion(a, b string) bool {
	spell := func(v string) string {
		return leadingZero().ReplaceAllString(strings.NewReplacer("_", "-", "+", "-").Replace(strings.ToLower(strings.TrimPrefix(v, "v"))), "$1")
	}
	return spell(a) == spell(b)
}

// mayBuild reports whether packages may be built for requirements. Requirements that name
// files, folders or addresses are left to uv, which refuses to build them.
func (r Resolver) mayBuild(requires []string) bool {
	return len(r.buildableNames(nil)) > 0 && !slices.ContainsFunc(requires, func(one string) bool {
		return !isIndexRequirement(one)
	})
}

// isIndexRequirement reports whether a requirement names a package of an index, and not a file,
// folder or address.
func isIndexRequirement(requirement string) bool {
	return !strings.ContainsAny(requirement, "\n\r\x00@/\\") && pypiName().MatchString((strings.TrimSpace(requirement) + "-")[:1])
}

// buildableNames returns the names of the Python packages that may be built, except those in
// done.
func (r Resolver) buildableNames(done []builtWheel) []string {
	var names []string
	for _, entry := range r.Builder.Allowed {
		kind, name, ok := ParseAllowed(entry)
		if ok && kind == pypi && !slices.ContainsFunc(done, func(b builtWheel) bool { return b.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// builtWheel records how a wheel in a lock was built here.
type builtWheel struct {
	Name    string `toml:"name"`
	Version string `toml:"version"`
	// URL and SHA256 are those of the source distribution.
	URL    string `toml:"url"`
	SHA256 string `toml:"sha256"`
	// Wheel is the SHA-256 of the wheel.
	Wheel string `toml:"wheel"`
	// Lock is the lock of the build's own requirements; empty if it has none.
	Lock string `toml:"lock"`
}

// builtURLPrefix begins the URL of a wheel that was built here.
const builtURLPrefix = "built:"

// builtWheelURL matches the addresses of built wheels in a lock of uv.
var builtWheelURL = pattern.Lazy(`"file://[^"]*/toolroom-built/`)

// resolveWithBuilds resolves requirements with packages that must be built. uv finds their
// source distributions without reading them, their wheels are built in a sandbox, and uv
// resolves again with these wheels, until no further wheels are needed. why is uv's error
// without them, which is returned if builds do not help.
func (r Resolver) resolveWithBuilds(ctx context.Context, requires []string, wheels string, why error) (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	links := filepath.Join(folder, "toolroom-built")
	if err := os.Mkdir(links, 0o700); err != nil {
		return "", err
	}
	var done []builtWheel
	for {
		names := r.buildableNames(done)
		if len(names) == 0 {
			return "", why
		}
		config, err := r.uvConfigWithout(names)
		if err != nil {
			return "", err
		}
		args := []string{"--only-binary", ":all:", "--config-file", inheritedFile, "--find-links", links}
		for _, name := range names {
			args = append(args, "--no-binary", name)
		}
		lock, err := r.compileWith(ctx, requires, wheels, config, args...)
		if err != nil {
			return "", why
		}
		missing, err := sdists(lock)
		if err != nil {
			return "", err
		}
		if len(missing) == 0 {
			return "", why
		}
		for _, one := range missing {
			if !slices.Contains(names, one.Name) {
				return "", why
			}
			name, err := r.buildWheel(ctx, &one, wheels)
			if err == nil {
				file, _ := r.Store.file(one.Wheel, wheelSuffix)
				err = copyFile(filepath.Join(links, name), file)
			}
			if err != nil {
				return "", err
			}
			done = append(done, one)
		}
		if lock, why = r.compile(ctx, requires, wheels, "--no-build", "--find-links", links); why == nil {
			return withProvenance(builtWheelURL().ReplaceAllString(lock, `"`+builtURLPrefix), done)
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

// uvConfigWithout returns a configuration in which the named packages have no dependencies, so
// that uv does not build them to find their dependencies. These are read from the built wheels.
func (r Resolver) uvConfigWithout(names []string) ([]byte, error) {
	config, err := uvConfig(r.Environ)
	if err != nil {
		return nil, err
	}
	metadata := []map[string]any{}
	for _, name := range names {
		metadata = append(metadata, map[string]any{"name": name, "requires-dist": []string{}})
	}
	config["dependency-metadata"] = metadata
	return toml.Marshal(config)
}

// sdists returns the source distributions of a lock.
func sdists(lock string) ([]builtWheel, error) {
	l, err := readLock(lock)
	if err != nil {
		return nil, err
	}
	var all []builtWheel
	for _, p := range l.Packages {
		if p.Sdist == nil {
			continue
		}
		sum := p.Sdist.Hashes["sha256"]
		if !isSHA256().MatchString(sum) {
			return nil, toolroom.Errorf(toolroom.CodeDenied, "the source distribution of %s %s has no SHA-256, so its content cannot be checked", p.Name, p.Version).
				WithHint("use an index that publishes hashes")
		}
		all = append(all, builtWheel{Name: normalizedName(p.Name), Version: p.Version, URL: p.Sdist.URL, SHA256: sum})
	}
	return all, nil
}

// withProvenance returns a lock with the records of how its wheels were built.
func withProvenance(lock string, built []builtWheel) (string, error) {
	wheels, err := parseWheels(lock)
	if err != nil {
		return "", err
	}
	used := slices.DeleteFunc(built, func(b builtWheel) bool {
		return !slices.ContainsFunc(wheels, func(w wheel) bool { return w.Hashes["sha256"] == b.Wheel })
	})
	text, err := toml.Marshal(map[string]any{"tool": map[string]any{"toolroom": map[string]any{"built": used}}})
	return strings.TrimRight(lock, "\n") + "\n\n" + string(text), err
}

// builtWheels returns the records of the wheels in a lock that were built here.
func builtWheels(lock string) ([]builtWheel, error) {
	l, err := readLock(lock)
	return l.Tool.Toolroom.Built, err
}

// ListBuilt describes the packages of a lock that were built here, for example as
// "pypi:docopt 0.6.2 from sha256:…".
func ListBuilt(lock string) ([]string, error) {
	var said []string
	switch {
	case lock == "":
		return nil, nil
	case isNPMLock(lock):
		all, err := parseNPMLock(lock)
		if err != nil {
			return nil, err
		}
		ran := readScripts(lock).Ran
		for _, p := range all {
			if slices.Contains(ran, p.At) {
				said = append(said, fmt.Sprintf("%s:%s %s from %s", npm, p.Name, p.Version, p.Integrity))
			}
		}
		return said, nil
	}
	all, err := builtWheels(lock)
	for _, b := range all {
		said = append(said, fmt.Sprintf("%s:%s %s from sha256:%s", pypi, b.Name, b.Version, b.SHA256))
	}
	return said, err
}

//go:embed build.py
var buildScript string

// buildWheel locks the requirements of a build and builds the wheel of a source distribution. It
// sets b.Lock and b.Wheel, and returns the file name of the wheel.
func (r Resolver) buildWheel(ctx context.Context, b *builtWheel, wheels string) (string, error) {
	file, err := r.Store.fetch(ctx, b.sdistFile(), sdistSuffix)
	if err != nil {
		return "", fmt.Errorf("the source distribution of %s %s: %w", b.Name, b.Version, err)
	}
	project, err := readBuildSystem(file)
	if err != nil {
		return "", fmt.Errorf("the source distribution of %s %s: %w", b.Name, b.Version, err)
	}
	needs := project.Requires
	lock := func() error {
		if len(needs) == 0 {
			return nil
		}
		var err error
		if b.Lock, err = r.compile(ctx, needs, wheels, "--no-build"); err != nil {
			return fmt.Errorf("what the build of %s %s needs: %w", b.Name, b.Version, err)
		}
		return nil
	}
	if err := lock(); err != nil {
		return "", err
	}
	var said bytes.Buffer
	if err := r.runBuildScript(ctx, b, "requires", project, &said, maxManifest); err != nil {
		return "", err
	}
	var more []string
	if err := json.Unmarshal(said.Bytes(), &more); err != nil {
		return "", toolroom.Errorf(toolroom.CodeDenied, "the build of %s %s printed something else than what it needs: it was not used", b.Name, b.Version)
	}
	known := len(needs)
	for _, one := range more {
		if !isIndexRequirement(one) {
			return "", toolroom.Errorf(toolroom.CodeDenied, "the build of %s %s needs %q, which is no package of an index", b.Name, b.Version, one)
		}
		if !slices.Contains(needs, one) {
			needs = append(needs, one)
		}
	}
	if len(needs) > known {
		if err := lock(); err != nil {
			return "", err
		}
	}
	return r.makeWheel(ctx, b)
}

func (b *builtWheel) sdistFile() wheel {
	return wheel{Package: b.Name, Version: b.Version, URL: b.URL, Hashes: map[string]string{"sha256": b.SHA256}}
}

// runBuildScript runs build.py in a sandbox in which the packages in b.Lock can be imported. mode
// is "requires" or "wheel".
func (r Resolver) runBuildScript(ctx context.Context, b *builtWheel, mode string, p buildSystem, out io.Writer, most int64) error {
	file, err := r.Store.fetch(ctx, b.sdistFile(), sdistSuffix)
	if err != nil {
		return err
	}
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	task, err := json.Marshal(map[string]any{"mode": mode, "backend": p.Backend, "path": p.Path, "layer": sandbox.LayerPath})
	if err != nil {
		return err
	}
	one := Build{
		Name: b.Name + " " + b.Version, Command: []string{r.Python, "-I", "-S", "-c", buildScript, string(task)},
		Env: []string{"SOURCE_DATE_EPOCH=946684800"}, Input: from, MaxOutput: most,
	}
	if b.Lock != "" {
		digest, err := r.Store.Unpack(ctx, b.Lock)
		if err != nil {
			return fmt.Errorf("what the build of %s needs: %w", one.Name, err)
		}
		one.Layer = r.Store.Path(digest)
	}
	return r.Builder.Run(ctx, one, out)
}

// makeWheel builds a wheel, unless the store has one that was built from the same input. It sets
// b.Wheel, and returns the file name of the wheel.
func (r Resolver) makeWheel(ctx context.Context, b *builtWheel) (string, error) {
	if !r.Builder.allows(pypi, b.Name) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%s %s was built from its source distribution, which runs its code; that is not allowed here", b.Name, b.Version).
			WithHint("allow it: %s", allowHint(pypi, b.Name))
	}
	python, err := filepath.EvalSymlinks(r.Python)
	if err != nil {
		return "", err
	}
	made, err := r.Store.buildOnce(ctx, buildKey(pypi, b.SHA256, b.Lock, python), func() (buildRecord, error) {
		file, err := r.Store.fetch(ctx, b.sdistFile(), sdistSuffix)
		if err != nil {
			return buildRecord{}, err
		}
		p, err := readBuildSystem(file)
		if err != nil {
			return buildRecord{}, err
		}
		name := ""
		sum, err := r.Store.put(wheelSuffix, func(to io.Writer) error {
			head := &firstLine{to: to}
			err := r.runBuildScript(ctx, b, "wheel", p, head, maxWheel)
			name = string(head.line)
			return err
		}, func(_, file string) error {
			if err := checkWheel(file, name, b); err != nil {
				return fmt.Errorf("the build of %s %s: %w", b.Name, b.Version, err)
			}
			return nil
		})
		return buildRecord{File: sum + wheelSuffix, Name: name}, err
	})
	b.Wheel = strings.TrimSuffix(made.File, wheelSuffix)
	return made.Name, err
}

// firstLine is a writer that stores the first line and writes the rest to to.
type firstLine struct {
	to   io.Writer
	line []byte
	done bool
}

const maxName = 400

func (f *firstLine) Write(p []byte) (int, error) {
	if f.done {
		return f.to.Write(p)
	}
	before, after, found := bytes.Cut(p, []byte("\n"))
	if f.line = append(f.line, before...); len(f.line) > maxName {
		return 0, toolroom.Errorf(toolroom.CodeDenied, "the build printed something else than a wheel: it was not used")
	}
	if f.done = found; found && len(after) > 0 {
		if _, err := f.to.Write(after); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// checkWheel returns an error if a file is not the wheel that was to be built. The package's code
// has written it and could have written anything.
func checkWheel(file, name string, b *builtWheel) error {
	refused := func(format string, args ...any) error {
		return toolroom.Errorf(toolroom.CodeDenied, format+": it was not used", args...)
	}
	parts := strings.Split(strings.TrimSuffix(name, wheelSuffix), "-")
	if !strings.HasSuffix(name, wheelSuffix) || len(parts) < 5 || len(parts) > 6 || path.Base(name) != name || strings.ContainsAny(name, "\\\x00\"") {
		return refused("it made %q, which is no name of a wheel", name)
	}
	if normalizedName(parts[0]) != b.Name || !sameVersion(parts[1], b.Version) {
		return refused("it made the wheel %s, which is another package or version", name)
	}
	archive, err := zip.OpenReader(file)
	if err != nil {
		return refused("it made a wheel that is not a zip file (%v)", err)
	}
	defer archive.Close()
	metadata := false
	for _, member := range archive.File {
		if to, _ := memberTarget(member.Name); !strings.HasSuffix(member.Name, "/") {
			if err := errors.Join(checkMember(member, member.Name), checkMember(member, to)); err != nil {
				return err
			}
		}
		folder, inside, _ := strings.Cut(member.Name, "/")
		if inside != "METADATA" || !strings.HasSuffix(folder, ".dist-info") {
			continue
		}
		text, err := member.Open()
		if err != nil {
			return refused("it made a wheel that cannot be read (%v)", err)
		}
		m, err := mail.ReadMessage(io.LimitReader(text, maxManifest))
		text.Close()
		if err != nil {
			return refused("it made a wheel whose METADATA cannot be read (%v)", err)
		}
		if normalizedName(m.Header.Get("Name")) != b.Name || !sameVersion(m.Header.Get("Version"), b.Version) {
			return refused("it made a wheel that says that it is %s %s", m.Header.Get("Name"), m.Header.Get("Version"))
		}
		metadata = true
	}
	if !metadata {
		return refused("it made a wheel without METADATA")
	}
	return nil
}

// Restore builds missing wheels of a lock again, and makes its layer. It returns an error if a
// wheel differs from the one in the lock.
func (r Resolver) Restore(ctx context.Context, lock string) (string, error) {
	all, err := builtWheels(lock)
	if err != nil {
		return "", err
	}
	for _, b := range all {
		want := b.Wheel
		if _, there := r.Store.file(want, wheelSuffix); there {
			continue
		}
		if _, err := r.makeWheel(ctx, &b); err != nil {
			return "", err
		}
		if b.Wheel != want {
			return "", rebuiltDifferently(b.Name+" "+b.Version, "the wheel", b.Wheel, want)
		}
	}
	return r.Store.Unpack(ctx, lock)
}

func rebuiltDifferently(name, what, got, want string) error {
	return toolroom.Errorf(toolroom.CodeDenied, "%s was built again, and %s has the SHA-256 %s; the version has %s", name, what, got, want).
		WithHint("push the tool again, and release that version")
}

// buildSystem is the table build-system of pyproject.toml.
type buildSystem struct {
	Requires []string `toml:"requires"`
	Backend  string   `toml:"build-backend"`
	Path     []string `toml:"backend-path"`
}

// legacyBuildSystem is the build system of projects that declare none (PEP 517).
var legacyBuildSystem = buildSystem{Requires: []string{"setuptools>=40.8.0"}, Backend: "setuptools.build_meta:__legacy__"}

// readBuildSystem reads the build system from a source distribution, without running its code.
func readBuildSystem(file string) (buildSystem, error) {
	text, err := pyprojectText(file)
	if err != nil {
		return buildSystem{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "it is neither a .tar.gz nor a .zip file that can be read: %w", err)
	}
	var p struct {
		Build *buildSystem `toml:"build-system"`
	}
	if _, err := toml.Decode(text, &p); err != nil {
		return buildSystem{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "its pyproject.toml: %w", err)
	}
	if p.Build == nil {
		return legacyBuildSystem, nil
	}
	for _, one := range p.Build.Requires {
		if !isIndexRequirement(one) {
			return buildSystem{}, toolroom.Errorf(toolroom.CodeDenied, "its build needs %q, which is no package of an index", one)
		}
	}
	p.Build.Backend = cmp.Or(p.Build.Backend, legacyBuildSystem.Backend)
	return *p.Build, nil
}

// pyprojectText returns the text of pyproject.toml in the top folder of an archive, or "".
func pyprojectText(file string) (string, error) {
	wanted := func(name string) bool {
		_, inside, _ := strings.Cut(path.Clean(name), "/")
		return inside == "pyproject.toml"
	}
	read := func(r io.Reader) (string, error) {
		text, err := io.ReadAll(io.LimitReader(r, maxManifest))
		return string(text), err
	}
	if archive, err := zip.OpenReader(file); err == nil {
		defer archive.Close()
		for _, member := range archive.File {
			if wanted(member.Name) {
				in, err := member.Open()
				if err != nil {
					return "", err
				}
				defer in.Close()
				return read(in)
			}
		}
		return "", nil
	}
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return "", err
	}
	archive := tar.NewReader(io.LimitReader(unzipped, maxUnpacked))
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return "", nil
		case err != nil:
			return "", err
		case wanted(header.Name):
			return read(archive)
		}
	}
}

// lockPause is the interval at which a build checks whether another process has released its
// lock.
const lockPause = 50 * time.Millisecond

// buildFolder is the folder of a store with the build records, by buildKey.
const buildFolder = "built"

// buildRecord is the result of a build.
type buildRecord struct {
	// File is the name of the file in the store; Name is that of a wheel.
	File string `json:"file"`
	Name string `json:"name,omitempty"`
}

// buildRecord returns the record of a key, or an empty one.
func (s LayerStore) buildRecord(key string) (r buildRecord) {
	if text, err := os.ReadFile(filepath.Join(s.Folder, buildFolder, key)); err == nil {
		_ = json.Unmarshal(text, &r)
	}
	return r
}

// buildOnce returns the result of build for a key, and calls build only if the store does not
// have it. Most builds are not reproducible, and pushing the same code again must not make a new
// version.
func (s LayerStore) buildOnce(ctx context.Context, key string, build func() (buildRecord, error)) (buildRecord, error) {
	folder := filepath.Join(s.Folder, buildFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return buildRecord{}, err
	}
	held := flock.New(filepath.Join(folder, key+".lock"))
	if _, err := held.TryLockContext(ctx, lockPause); err != nil {
		return buildRecord{}, err
	}
	defer held.Unlock()
	if r := s.buildRecord(key); r.File != "" {
		if _, there := s.file(r.File, ""); there {
			touch(filepath.Join(folder, key))
			return r, nil
		}
	}
	r, err := build()
	if err != nil {
		return buildRecord{}, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return buildRecord{}, err
	}
	return r, os.WriteFile(filepath.Join(folder, key), text, 0o600)
}

func buildKey(parts ...string) string {
	sum := sha256.New()
	for _, one := range parts {
		fmt.Fprintf(sum, "%d %s\n", len(one), one)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
