package toolflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestAServersAnswersAreLimitedAsAWhole(t *testing.T) {
	before := maxAnswers
	maxAnswers = 1 << 20
	defer func() { maxAnswers = before }()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/api/admin/tools" {
			items := make([]map[string]any, 1000)
			for i := range items {
				items[i] = map[string]any{"id": fmt.Sprint("t", i), "name": "t"}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{map[string]any{"version": 1, "code": strings.Repeat("x", 100<<10)}}})
	}))
	t.Cleanup(s.Close)
	_, err := Read(t.Context(), s.URL)
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit || asked > 30 {
		t.Errorf("after %d requests: %v", asked, err)
	}
}

func TestEmptyEntriesOfAServerTakeLittleMemory(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"total": {}, "items": [{}%s]}`, strings.Repeat(",{}", 8<<20))
	}))
	t.Cleanup(s.Close)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(t.Context(), s.URL)
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; toolroom.CodeOf(err) != toolroom.CodeResourceLimit || made > 256<<20 {
		t.Errorf("%d bytes were taken: %v", made, err)
	}
}

func TestADumpIsInMemoryOnce(t *testing.T) {
	const size = 64 << 20
	file := filepath.Join(t.TempDir(), "dump.sql")
	if err := os.WriteFile(file, bytes.Repeat([]byte("-- a comment\n"), size/13), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := dumpTables(file); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > size*3/2 {
		t.Errorf("a dump of %d bytes took %d", size, made)
	}
}

func TestAPasswordInTheAddressIsNotShown(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for _, address := range []string{"http://ann:hunter2@" + strings.TrimPrefix(s.URL, "http://"), "http://ann:hunter2@127.0.0.1:1", "http://ann:hunter2@%zz"} {
		if _, err := Read(t.Context(), address); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
