package openapi_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/openapi"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
	"github.com/toolroom/toolroom/test/double"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func resolve(_ context.Context, ref string) (string, error) {
	switch ref {
	case "secret://pets/key":
		return double.PetstoreKey, nil
	case "secret://pets/admin":
		return double.PetstoreAdmin, nil
	default:
		return "", errors.New("unknown")
	}
}

var auth = map[string]string{"key": "secret://pets/key", "admin": "secret://pets/admin"}

func open(t *testing.T, config openapi.Config) *openapi.Source {
	t.Helper()
	s, err := openapi.New("pets", config, openapi.Options{Resolve: resolve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// write puts a document into a folder of its own and gives its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func call(t *testing.T, s source.Source, tool, arguments string) (*source.Output, error) {
	t.Helper()
	return s.Call(t.Context(), &source.Request{
		Tool:           toolroom.ID{Namespace: "pets", Name: tool},
		Arguments:      []byte(arguments),
		IdempotencyKey: "key-1",
		Emit:           func(toolroom.Event) {},
	})
}

func TestThePetStoreKeepsTheContractOfSources(t *testing.T) {
	store := double.NewPetstore()
	server := httptest.NewServer(store)
	defer server.Close()
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "pets",
		Open: func(t *testing.T) source.Source {
			return open(t, openapi.Config{Spec: server.URL + "/openapi.yaml", BaseURL: server.URL + "/v1", Auth: auth})
		},
		Good:    sourcetest.Call{Tool: "getPet", Arguments: `{"id": 9007199254740993}`, Want: `{"id": 9007199254740993, "name": "Tom", "species": "cat", "tags": ["grey", "old"]}`},
		Slow:    sourcetest.Call{Tool: "wait"},
		Running: store.Waiting,
		Skip:    sourcetest.Skip{Failing: "a service reports the failure of an operation by its status, which is an error"},
	})
}
