package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileThatIsNotSavedToItsEndIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	half := io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { cancel(); return 0, nil }), strings.NewReader("rest"))
	if err := saveTo(ctx, half, path, 0o600, false); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
