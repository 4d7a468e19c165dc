package toolflow_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	_ "github.com/toolroom/toolroom/internal/store/sqlite" // the driver
	"github.com/toolroom/toolroom/internal/toolflow"
)

const dump = "testdata/dump.sql"

func read(t *testing.T, from string) []toolflow.Tool {
	t.Helper()
	tools, err := toolflow.Read(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func TestADumpHasToolsVersionsReleasesAndRuns(t *testing.T) {
	t.Parallel()
	tools := read(t, dump)
	if len(tools) != 3 || tools[1].ID != "empty" || tools[2].ID != "greet me" {
		t.Fatalf("tools %+v", tools)
	}
	d := tools[0]
	if d.Description != "Doubles; a 'number'" || d.Prod != 2 || d.Test != 3 || len(d.Versions) != 3 {
		t.Errorf("double is %+v", d)
	}
	v := d.Versions[1]
	if v.Code != "def main(args):\n    return {\"result\": args[\"x\"] * 2}\n" || v.Status != "active" || v.Message != "faster" || !json.Valid(v.Schema) {
		t.Errorf("version 2 is %+v", v)
	}
	if len(d.Runs) != 2 || d.Runs[0].Version != 2 || string(d.Runs[1].Output) != `{"result": 42}` {
		t.Errorf("runs %+v", d.Runs)
	}
}

// newSQLite writes a database as Django makes it, with the rows of the dump.
func newSQLite(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db.sqlite3")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE gateway_tool (id varchar(64) PRIMARY KEY, name varchar(128) UNIQUE, description text, created_by varchar(128), created_at datetime)`)
	exec(`CREATE TABLE gateway_toolversion (id char(32) PRIMARY KEY, version integer unsigned, code text, entry_point varchar(64), config text, schema text, message varchar(255), status varchar(16), metadata text, created_at datetime, tool_id varchar(64))`)
	exec(`CREATE TABLE gateway_toolrelease (id integer PRIMARY KEY, updated_at datetime, prod_version_id char(32), test_version_id char(32), tool_id varchar(64))`)
	exec(`CREATE TABLE gateway_execution (id char(32) PRIMARY KEY, status varchar(16), input text, output text, metadata text, created_at datetime, tool_id varchar(64), version_id char(32))`)
	n := 0
	for _, tool := range read(t, dump) {
		exec(`INSERT INTO gateway_tool VALUES (?, ?, ?, NULL, '2026-03-01 10:00:00')`, tool.ID, tool.Name, tool.Description)
		ids := map[int]any{}
		for _, v := range tool.Versions {
			n++
			ids[v.Number] = fmt.Sprintf("%032d", n)
			exec(`INSERT INTO gateway_toolversion VALUES (?, ?, ?, ?, ?, ?, ?, ?, '{}', '2026-03-01 10:00:00', ?)`, ids[v.Number], v.Number, v.Code, v.Entry, string(v.Config), string(v.Schema), v.Message, v.Status, tool.ID)
		}
		exec(`INSERT INTO gateway_toolrelease (prod_version_id, test_version_id, tool_id) VALUES (?, ?, ?)`, ids[tool.Prod], ids[tool.Test], tool.ID)
		for i, r := range tool.Runs {
			exec(`INSERT INTO gateway_execution VALUES (?, 'success', ?, ?, '{"trigger": "admin_test_run"}', ?, ?, ?)`, r.ID, string(r.Input), string(r.Output), fmt.Sprintf("2026-03-02 1%d:00:00", 9-i), tool.ID, ids[r.Version])
		}
	}
	return file
}

func TestAnSQLiteFileGivesTheSameAsTheDump(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(read(t, dump), read(t, newSQLite(t))); diff != "" {
		t.Errorf("(-dump +sqlite):\n%s", diff)
	}
}

func TestAServerGivesTheSameAsTheDump(t *testing.T) {
	t.Parallel()
	want := read(t, dump)
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("GET /api/admin/tools", func(w http.ResponseWriter, _ *http.Request) {
		var items []map[string]any
		for _, tool := range want {
			item := map[string]any{"id": tool.ID, "name": tool.Name, "description": tool.Description, "prod_version": nil, "test_version": nil}
			if tool.Prod != 0 {
				item["prod_version"] = tool.Prod
			}
			if tool.Test != 0 {
				item["test_version"] = tool.Test
			}
			items = append(items, item)
		}
		answer(w, map[string]any{"items": items})
	})
	mux.HandleFunc("GET /api/admin/tools/{id}/versions", func(w http.ResponseWriter, r *http.Request) {
		items := []map[string]any{}
		for _, tool := range want {
			for _, v := range tool.Versions {
				if tool.ID == r.PathValue("id") {
					items = append(items, map[string]any{"version": v.Number, "code": v.Code, "entry_point": v.Entry, "config": v.Config, "schema": v.Schema, "message": v.Message, "status": v.Status})
				}
			}
		}
		answer(w, map[string]any{"items": items})
	})
	mux.HandleFunc("GET /api/admin/executions", func(w http.ResponseWriter, r *http.Request) {
		items := []map[string]any{}
		for _, tool := range want {
			for _, run := range tool.Runs {
				if tool.ID == r.FormValue("tool_id") {
					items = append(items, map[string]any{"id": run.ID})
				}
			}
		}
		answer(w, map[string]any{"items": items})
	})
	mux.HandleFunc("GET /api/admin/executions/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, tool := range want {
			for _, run := range tool.Runs {
				if run.ID == r.PathValue("id") {
					answer(w, map[string]any{"version": run.Version, "input": run.Input, "output": run.Output})
				}
			}
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	compact := cmp.Transformer("json", func(r json.RawMessage) string {
		var v any
		_ = json.Unmarshal(r, &v)
		return fmt.Sprint(v)
	})
	if diff := cmp.Diff(want, read(t, s.URL+"/"), compact); diff != "" {
		t.Errorf("(-dump +server):\n%s", diff)
	}
}

func TestWhatIsNoToolFlowIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"", "no tools of ToolFlow"},
		"another dump":       {"CREATE TABLE `a` (`b` int);\nINSERT INTO `a` VALUES (1);\n", "no tools of ToolFlow"},
		"a cut dump":         {"CREATE TABLE `gateway_tool` (`id` int);\nINSERT INTO `gateway_tool` VALUES (1", ":2: the text ends"},
		"too many values":    {"CREATE TABLE `gateway_tool` (`id` int);\nINSERT INTO `gateway_tool` VALUES (1,2);", "more values"},
		"an endless text":    {"INSERT INTO `gateway_tool` VALUES ('", "does not end"},
		"no SQL":             {"{\"a\": [1, 2]}", ""},
		"a broken data file": {"SQLite format 3\x00 no", "cannot read"},
	} {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := toolflow.Read(t.Context(), file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := toolflow.Read(t.Context(), "nowhere.sql"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a missing file: %v", err)
	}
}

func TestNamesThatCannotBeOrAreTakenAreChanged(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{"a": true, "a_2": true}
	for id, want := range map[string]string{"b": "b", "a": "a_3", "greet me": "greet_me", "数": "tool", strings.Repeat("x", 200): strings.Repeat("x", 128)} {
		if got := toolflow.Name(id, func(n string) bool { return taken[n] }); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

func TestAWrongExportNamesTheNextStep(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sub") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "<html>")
	}))
	defer other.Close()
	const gone = "http://127.0.0.1:1" // a closed server's port may be another test's a moment later
	for from, next := range map[string]string{
		t.TempDir():                           "give ToolFlow's SQLite file",
		filepath.Join(t.TempDir(), "none.db"): "give ToolFlow's SQLite file",
		"ftp://127.0.0.1/db.sqlite3":          "give ToolFlow's SQLite file",
		gone:                                  "start ToolFlow's server",
		other.URL + "/sub":                    "without a path",
		other.URL:                             "another program answers there",
	} {
		_, err := toolflow.Read(t.Context(), from)
		if err == nil || !strings.Contains(toolroom.AsError(err).Hints(), next) {
			t.Errorf("%s: %v (%s), want the hint %q", from, err, toolroom.AsError(err).Hints(), next)
		}
	}
}
