package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
)

func TestAChangedDefinitionIsNotReleasedUnderTheNameOfAnother(t *testing.T) {
	t.Parallel()
	const schema = `"inputSchema":{"type":"object"}`
	const good = `{"name":"hi","description":"Greets.",` + schema + `}`
	for name, c := range map[string]struct{ before, after string }{
		// It has no digest, because a key is in it twice.
		"listed twice":    {good, `{"name":"hi","description":"CHANGED",` + schema + `,"x":1,"x":2},` + good},
		"prompts of ours": {`{"name":"prompts.get","description":"Greets.",` + schema + `,"prompts":{"a":{}}}`, `{"name":"prompts.get","description":"CHANGED",` + schema + `,"prompts":{"a":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tools atomic.Value
			tools.Store(c.before)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					ID     json.RawMessage
					Method string
				}
				result := `{}`
				switch err := json.NewDecoder(r.Body).Decode(&in); {
				case err != nil || len(in.ID) == 0:
					w.WriteHeader(http.StatusAccepted)
					return
				case in.Method == "initialize":
					result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
				case in.Method == "tools/list":
					result = `{"tools":[` + tools.Load().(string) + `]}`
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, in.ID, result)
			}))
			t.Cleanup(s.Close)
			r := openWith(t, `sources: {s: {mcp: {url: "`+s.URL+`"}}}`, app.Options{})
			for range 2 {
				if _, err := r.TestSource(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				tools.Store(c.after)
			}
			page, err := r.Tools(toolroom.Identity{}, catalog.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if text := encoded(t, page) + encoded(t, r.Search(toolroom.Identity{}, "changed", catalog.SearchOptions{})); strings.Contains(text, "CHANGED") {
				t.Errorf("the changed definition is shown: %s", text)
			}
		})
	}
}
