package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A platform is an operating system and an architecture, with the names that package formats
// use for them.
type platform struct {
	os, arch      string
	npmOS, npmCPU string
	wheel         string // platform tag
	deb, rpm      string // architectures, "" for none
}

var platforms = []platform{
	{"linux", "amd64", "linux", "x64", "manylinux_2_17_x86_64.musllinux_1_1_x86_64", "amd64", "x86_64"},
	{"linux", "arm64", "linux", "arm64", "manylinux_2_17_aarch64.musllinux_1_1_aarch64", "arm64", "aarch64"},
	{"darwin", "amd64", "darwin", "x64", "macosx_12_0_x86_64", "", ""},
	{"darwin", "arm64", "darwin", "arm64", "macosx_12_0_arm64", "", ""},
	{"windows", "amd64", "win32", "x64", "win_amd64", "", ""},
}

func (p platform) String() string { return p.os + "/" + p.arch }

// exe returns the name of a program's file.
func (p platform) exe(program string) string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

func platformNames() []string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.String())
	}
	return names
}

func parsePlatforms(text string) ([]platform, error) {
	var chosen []platform
names:
	for name := range strings.SplitSeq(text, ",") {
		for _, p := range platforms {
			if p.String() == strings.TrimSpace(name) {
				chosen = append(chosen, p)
				continue names
			}
		}
		return nil, fmt.Errorf("-platforms: %q is none of %s", name, strings.Join(platformNames(), ", "))
	}
	return chosen, nil
}

// A program is one of the binaries that stand side by side in every package.
type program struct {
	name   string
	module string // folder of its module
}

var programs = []program{
	{"toolroom", "."},
	{"toolroom-guest", "."},
	{"toolroom-runner", "drivers"},
}

// A build is the programs of one platform.
type build struct {
	platform
	dir string
}

// programs returns the paths of the programs.
func (b *build) programs() []string {
	var paths []string
	for _, p := range programs {
		paths = append(paths, filepath.Join(b.dir, b.exe(p.name)))
	}
	return paths
}

func (r *release) compile(ctx context.Context, p platform) (*build, error) {
	dir, err := os.MkdirTemp("", "toolroom-dist-")
	if err != nil {
		return nil, err
	}
	b := &build{p, dir}
	for i, prog := range programs {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(r.root, prog.module), "-trimpath",
			"-ldflags", "-s -w -X main.version="+r.version.semver, "-o", b.programs()[i], "./cmd/"+prog.name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=", "GOWORK=off")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w", prog.name, p, err)
		}
	}
	return b, nil
}

// commitDate returns the date of the current commit, which makes builds reproducible.
func commitDate(ctx context.Context, root string) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the date of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}
