package function

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
)

func TestARequirementWithoutANameIsNotBuilt(t *testing.T) {
	r := Resolver{Builder: Builder{Allowed: []string{"pypi:ours"}}}
	for _, one := range []string{"", " ", "\t", "é", "-r", "ours @ file:///x", "./ours"} {
		if r.mayBuild([]string{one, "ours"}) {
			t.Errorf("%q may be built", one)
		}
	}
	if !r.mayBuild([]string{" ours>=1; python_version > '3'"}) {
		t.Error("a package of the index may not be built")
	}
}

// A file of the store is named by its hash, and is not read again if it is there.
func TestAHashCannotNameAnotherFile(t *testing.T) {
	sum := strings.Repeat("../", 20) + "abcd"
	if _, err := parseWheels(lockOf("https://index/a-1-py3-none-any.whl", sum)); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("a wheel: %v", err)
	}
	if _, err := sdists("[[packages]]\nname = \"a\"\nversion = \"1\"\nsdist = {url = \"https://index/a-1.tar.gz\", hashes = {sha256 = \"" + sum + "\"}}\n"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("a source distribution: %v", err)
	}
}

func TestWaitingForAnotherBuildEndsWithItsCaller(t *testing.T) {
	s := LayerStore{Folder: t.TempDir()}
	folder := filepath.Join(s.Folder, buildFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	other := flock.New(filepath.Join(folder, "key.lock"))
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	defer other.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.buildOnce(ctx, "key", func() (buildRecord, error) { return buildRecord{}, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
