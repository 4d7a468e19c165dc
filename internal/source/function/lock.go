package function

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// Resolver resolves requirements with uv.
type Resolver struct {
	// UV is the path of uv, and Python that of the interpreter that runs the functions.
	UV, Python string
	// Environ is the environment of uv: its index, proxy and certificates.
	Environ []string
	// Store and Builder build the wheels of packages that have none.
	Store   LayerStore
	Builder Builder
}

// resolveTimeout limits the time of a resolution.
const resolveTimeout = 2 * time.Minute

// Resolve returns a lock (PEP 751) of requirements: every wheel with its URL and hash. With
// a folder of wheels it uses only those, and no network. uv never builds a package, because
// that would run its code; see [Resolver.resolveWithBuilds].
func (r Resolver) Resolve(ctx context.Context, requires []string, wheels string) (string, error) {
	for _, one := range requires {
		if strings.ContainsAny(one, "\n\r\x00") || strings.HasPrefix(strings.TrimSpace(one), "-") {
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the dependency %q is not a requirement", one).WithHint("write name, or name>=1.2")
		}
	}
	lock, err := r.compile(ctx, requires, wheels, "--no-build")
	if err == nil || ctx.Err() != nil || !r.mayBuild(requires) {
		return lock, err
	}
	return r.resolveWithBuilds(ctx, requires, wheels, err)
}

// inheritedFile is the path, in uv's process, of the open file that it inherits.
const inheritedFile = "/dev/fd/3"

// compile runs uv, which resolves requirements to a lock.
func (r Resolver) compile(ctx context.Context, requires []string, wheels string, more ...string) (string, error) {
	return r.compileWith(ctx, requires, wheels, nil, more...)
}

// compileWith runs uv with a configuration, which uv reads from [inheritedFile]. The configuration
// may contain passwords, so it is never written to a file with a name.
func (r Resolver) compileWith(ctx context.Context, requires []string, wheels string, config []byte, more ...string) (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-lock-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	in, out := filepath.Join(folder, "requirements.in"), filepath.Join(folder, "pylock.toml")
	if err := os.WriteFile(in, []byte(strings.Join(requires, "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	args := []string{"pip", "compile", in, "--generate-hashes", "--no-header", "--quiet", "--python", r.Python, "--format", "pylock.toml", "-o", out, "--no-python-downloads"}
	if wheels != "" {
		args = append(args, "--offline", "--no-index", "--find-links", wheels)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.UV, append(args, more...)...)
	// uv reads uv.toml in all parents of its working folder. Anybody can write to the folder for
	// temporary files, so there another user could name an index that receives passwords.
	cmd.Dir, cmd.Env = string(filepath.Separator), r.Environ
	if config != nil {
		file, err := unnamedFile(folder, config)
		if err != nil {
			return "", err
		}
		defer file.Close()
		cmd.ExtraFiles = []*os.File{file}
	}
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", resolveError(requires, string(bytes.TrimSpace(said)))
	}
	text, err := os.ReadFile(out)
	return string(text), err
}

// unnamedFile returns an open file with content that has been removed from folder.
func unnamedFile(folder string, content []byte) (*os.File, error) {
	file, err := os.CreateTemp(folder, "")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// needsBuild matches uv's error for a package without a usable wheel.
var needsBuild = pattern.Lazy("Wheels are required for `([A-Za-z0-9._-]+)`")

// userinfoPattern matches user and password in an address: uv prints lines of an invalid uv.toml.
var userinfoPattern = pattern.Lazy(`//[^/@\s]*@`)

// resolveError returns the error for requirements that uv could not resolve.
func resolveError(requires []string, said string) error {
	const most = 1500
	said = userinfoPattern().ReplaceAllString(said, "//***@")
	if len(said) > most {
		said = said[:most] + "…"
	}
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "the dependencies %s cannot be resolved: %s", strings.Join(requires, ", "), strings.Join(strings.Fields(said), " "))
	if strings.Contains(said, "build") || strings.Contains(said, "source distribution") || strings.Contains(said, "no usable wheels") || strings.Contains(said, "no wheels") {
		name := "NAME"
		if found := needsBuild().FindStringSubmatch(said); found != nil {
			name = found[1]
		}
		return e.WithHint("a package has only a source distribution, whose build runs its code: choose a version with wheels, push with --wheels FOLDER, or allow its build in a sandbox: %s", allowHint(pypi, name))
	}
	if strings.Contains(said, "authentication credentials") {
		return e.WithHint("%s", passwordHint)
	}
	return e.WithHint("correct the names and versions; without an index, push with --wheels FOLDER")
}

// wheel is one file of a lock.
type wheel struct {
	Package, Version string
	URL              string            `toml:"url"`
	Path             string            `toml:"path"`
	Size             int64             `toml:"size"`
	Hashes           map[string]string `toml:"hashes"`
}

// isSHA256 matches a hash. It comes from an index and becomes the name of a file.
var isSHA256 = pattern.Lazy(`^[0-9a-f]{64}$`)

// pylock is a lock of uv (PEP 751), with the records of wheels that were built here.
type pylock struct {
	Packages []struct {
		Name    string  `toml:"name"`
		Version string  `toml:"version"`
		Wheels  []wheel `toml:"wheels"`
		Sdist   *wheel  `toml:"sdist"`
	} `toml:"packages"`
	Tool struct {
		Toolroom struct {
			Built []builtWheel `toml:"built"`
		} `toml:"toolroom"`
	} `toml:"tool"`
}

func readLock(lock string) (l pylock, err error) {
	if _, err := toml.Decode(lock, &l); err != nil {
		return l, toolroom.Errorf(toolroom.CodeInternal, "the lock of uv cannot be read: %w", err)
	}
	return l, nil
}

// parseWheels returns the wheels of a lock, in order.
func parseWheels(lock string) ([]wheel, error) {
	l, err := readLock(lock)
	if err != nil {
		return nil, err
	}
	var all []wheel
	for _, p := range l.Packages {
		if len(p.Wheels) == 0 {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s %s has no wheel for this Python", p.Name, p.Version).
				WithHint("only wheels are installed: choose a version that has one")
		}
		w := p.Wheels[0]
		w.Package, w.Version = p.Name, p.Version
		if !isSHA256().MatchString(w.Hashes["sha256"]) {
			return nil, toolroom.Errorf(toolroom.CodeDenied, "%s %s has no SHA-256 in the lock, so its content cannot be checked", p.Name, p.Version).
				WithHint("use an index that publishes hashes")
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b wheel) int { return strings.Compare(a.Package, b.Package) })
	return all, nil
}

// layerDigest returns the digest of the layer of wheels: the hash of their hashes.
func layerDigest(wheels []wheel) string {
	sum := sha256.New()
	for _, w := range wheels {
		fmt.Fprintf(sum, "%s %s\n", w.Package, w.Hashes["sha256"])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
