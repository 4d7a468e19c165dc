package install_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/install"
)

func TestAPackageWithAnotherSumIsNotInstalled(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, err := install.Pyodide().Install(t.Context(), home, func(_ context.Context, project, version, folder string) error {
		return os.WriteFile(filepath.Join(folder, project+"-"+version+".tgz"), []byte("another"), 0o600)
	})
	if toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(err.Error(), "SHA-512") {
		t.Errorf("it ended with %v", err)
	}
	if _, err := install.Pyodide().Find(home, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is found: %v", err)
	}
}

func TestAnUnreachableRegistryIsReported(t *testing.T) {
	t.Parallel()
	_, err := install.Pyodide().Install(t.Context(), t.TempDir(), func(context.Context, string, string, string) error {
		return errors.New("no network")
	})
	var e *toolroom.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "no network") || !strings.Contains(e.Hint, "npm") {
		t.Errorf("it ended with %+v", err)
	}
}

// This checks that the registry still has the pinned files.
func TestThePinnedPackagesAreInstalledFromTheRegistry(t *testing.T) {
	t.Parallel()
	_, noNPM := exec.LookPath("npm")
	switch ci := os.Getenv("CI") != ""; {
	case noNPM != nil && ci:
		t.Fatalf("npm is missing: %v", noNPM)
	case noNPM != nil || !ci && os.Getenv("TOOLROOM_TEST_NPM") == "":
		t.Skip("it fetches 50 MB with npm: set CI or TOOLROOM_TEST_NPM")
	}
	home := t.TempDir()
	for _, p := range install.Packages("pyodide") {
		path, err := p.Install(t.Context(), home, install.NPM)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := p.Find(home, ""); found != path || err != nil {
			t.Errorf("installed %s, found %s, %v", path, found, err)
		}
	}
}
