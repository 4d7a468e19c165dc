// Command packaging builds what people install: archives, deb and rpm packages, a
// container image, an npm launcher, Python wheels, SBOMs and checksums. Run it with
// make dist. The same sources and version give the same files, byte for byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// description is the description of all packages.
const description = "Toolroom is a gateway and runtime for agent tools"

// homepage is the homepage of all packages.
const homepage = "https://github.com/toolroom/toolroom"

// A release is what one run of this command builds.
type release struct {
	version version
	root    string    // of the repository
	out     string    // folder of the packages
	date    time.Time // of every file in them
}

// A step builds one kind of package for all platforms.
type step struct {
	name  string
	build func(*release, []*build) error
}

var steps = []step{
	{"archives", archives},
	{"linux", linuxPackages},
	{"image", image},
	{"npm", npmPackages},
	{"wheels", wheels},
	{"sbom", sboms},
	{"checksums", checksums}, // last: of all others
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("packaging", flag.ContinueOnError)
	text := flags.String("version", "", "version, such as 1.2.3 or 1.2.3-rc.1; anything else becomes 0.0.0-dev+TEXT")
	root := flags.String("root", "..", "folder of the repository")
	out := flags.String("out", "../dist", "folder for the packages; emptied first")
	only := flags.String("platforms", strings.Join(platformNames(), ","), "platforms to build, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := parsePlatforms(*only)
	if err != nil {
		return err
	}
	date, err := commitDate(ctx, *root)
	if err != nil {
		return err
	}
	r := &release{version: parseVersion(*text), root: *root, out: *out, date: date}
	if err := makeEmpty(*out); err != nil {
		return err
	}
	var builds []*build
	for _, p := range chosen {
		fmt.Fprintf(os.Stderr, "build %s\n", p)
		b, err := r.compile(ctx, p)
		if err != nil {
			return err
		}
		defer os.RemoveAll(b.dir)
		builds = append(builds, b)
	}
	for _, s := range steps {
		fmt.Fprintf(os.Stderr, "package %s\n", s.name)
		if err := s.build(r, builds); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// file returns the path of a package.
func (r *release) file(name string) string { return filepath.Join(r.out, name) }

// makeEmpty makes dir an empty folder. It returns an error for a folder that this command did
// not create: one with files but without checksums.
func makeEmpty(dir string) error {
	files, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0:
	case err != nil:
		return err
	case !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == checksumFile }):
		return fmt.Errorf("%s has files but no %s: choose another folder with -out, or remove it", dir, checksumFile)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}
