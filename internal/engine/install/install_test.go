package install_test

import (
	"archive/zip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/install"
)

// forged is a client that fetches a wheel with another program in it.
func forged(t *testing.T) install.Client {
	t.Helper()
	return func(_ context.Context, project, version, platform, folder string) error {
		f, err := os.Create(filepath.Join(folder, project+"-"+version+"-"+platform+".whl"))
		if err != nil {
			return err
		}
		z := zip.NewWriter(f)
		w, err := z.Create("pydantic_monty_runtime-1.4.0.data/scripts/monty")
		if err != nil {
			return err
		}
		_, err = w.Write([]byte("#!/bin/sh\necho pwned"))
		return errors.Join(err, z.Close(), f.Close())
	}
}

func TestAWheelWithAnotherSumIsNotInstalled(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, err := install.Monty().Install(t.Context(), home, "", forged(t))
	if toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("it ended with %v", err)
	}
	if left, _ := os.ReadDir(install.Folder(home)); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestAFailedFetchReportsTheAlternatives(t *testing.T) {
	t.Parallel()
	_, err := install.Monty().Install(t.Context(), t.TempDir(), "", func(context.Context, string, string, string, string) error {
		return errors.New("no network")
	})
	var e *toolroom.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "no network") || !strings.Contains(e.Hint, "--from") {
		t.Errorf("it ended with %+v", err)
	}
}

func TestAProgramIsFoundInTheHomeFolderAndThenOnThePath(t *testing.T) {
	t.Parallel()
	home, elsewhere := t.TempDir(), t.TempDir()
	if _, err := install.Monty().Find(home, elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was found where it is not: %v", err)
	}
	write := func(folder string, mode fs.FileMode) string {
		path := filepath.Join(folder, "monty")
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := write(elsewhere, 0o755)
	if got, err := install.Monty().Find(home, elsewhere); got != want || err != nil {
		t.Errorf("found %q, %v", got, err)
	}
	write(install.Folder(home), 0o644)
	if got, err := install.Monty().Find(home, elsewhere); got != want || err != nil {
		t.Errorf("a file that is not executable was found: %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(install.Folder(home), "monty")); err != nil {
		t.Fatal(err)
	}
	want = write(install.Folder(home), 0o755)
	if got, err := install.Monty().Find(home, elsewhere); got != want || err != nil {
		t.Errorf("found %q, %v", got, err)
	}
}

// This checks that the index still has the pinned files. It needs the network, and
// runs only if TOOLROOM_TEST_PYPI is set.
func TestThePinnedReleaseIsInstalledFromTheIndex(t *testing.T) {
	t.Parallel()
	if os.Getenv("TOOLROOM_TEST_PYPI") == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TOOLROOM_TEST_PYPI is not set")
		}
		t.Skip("TOOLROOM_TEST_PYPI is not set")
	}
	home := t.TempDir()
	path, err := install.Monty().Install(t.Context(), home, "", install.Pip)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := install.Monty().Find(home, ""); found != path || err != nil {
		t.Errorf("installed %s, found %s, %v", path, found, err)
	}
}
