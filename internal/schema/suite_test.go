package schema

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// suiteGroup is one schema of the official test suite with its documents.
type suiteGroup struct {
	Draft, File string
	Optional    bool
	Desc        string
	Schema      json.RawMessage
	Tests       []struct {
		D     string
		Data  json.RawMessage
		Valid bool
	}
}

func openSuite(t testing.TB, name string) io.Reader {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return unzipped
}

func suite(t testing.TB) []suiteGroup {
	t.Helper()
	var groups []suiteGroup
	lines := bufio.NewScanner(openSuite(t, "json_schema_test_suite.jsonl.gz"))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var group suiteGroup
		if err := json.Unmarshal(lines.Bytes(), &group); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, group)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return groups
}

// suiteRemotes are the documents that parts of the suite refer to, by URL.
func suiteRemotes(t testing.TB) map[string]any {
	t.Helper()
	text, err := io.ReadAll(openSuite(t, "json_schema_test_suite_remotes.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	tree := decode(t, string(text)).(map[string]any)
	remotes := make(map[string]any, len(tree))
	for path, document := range tree {
		remotes["http://localhost:1234/"+path] = document
	}
	return remotes
}

// suiteSchema adds the $schema that the suite implies by its folders.
func suiteSchema(t testing.TB, group suiteGroup) []byte {
	t.Helper()
	tree, ok := decode(t, string(group.Schema)).(map[string]any)
	if !ok || tree["$schema"] != nil {
		return group.Schema
	}
	tree["$schema"] = map[string]string{
		"draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#",
		"draft7":       "http://json-schema.org/draft-07/schema#",
		"draft2019-09": "https://json-schema.org/draft/2019-09/schema", "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
	}[group.Draft]
	return encode(t, tree)
}

func decode(t testing.TB, text string) any {
	t.Helper()
	tree, err := jsonx.Decode([]byte(text), jsonx.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return tree
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := jsonx.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTmp(t *testing.T) {
	remotes := suiteRemotes(t)
	pass := map[string]int{}
	fail := map[string]int{}
	fast := 0
	total := 0
	for _, g := range suite(t) {
		k := g.Draft + " " + g.File
		if !g.Optional { k = g.Draft + " required" }
		s, err := compile(suiteSchema(t, g), options{limits: Limits{}.withDefaults(), remotes: remotes, annotateFormat: !strings.Contains(g.File, "format/")})
		if err != nil {
			t.Logf("%s %s %s %s", g.Draft, g.File, g.Desc, err)
			fail[k] += len(g.Tests)
			continue
		}
		if s.fast != nil { fast++ }
		total++
		for _, test := range g.Tests {
			err := s.Validate(decode(t, string(test.Data)))
			if (err == nil) != test.Valid {
				fail[k]++
				if !g.Optional || g.Draft=="draft2020-12" && !strings.Contains(g.File, "host") { t.Logf("%s %s %s / %s: want %v got %v", g.Draft, g.File, g.Desc, test.D, test.Valid, err) }
			} else { pass[k]++ }
			if s.Accepts(test.Data) && err != nil { t.Errorf("FAST %s %s %s / %s: want %v got %v", g.Draft, g.File, g.Desc, test.D, test.Valid, err) }
			var e *Error
			if errors.As(err, &e) { t.Logf("ERR %s %s %s / %s: %v", g.Draft, g.File, g.Desc, test.D, err) }
		}
	}
	for _, k := range slices.Sorted(maps.Keys(fail)) { t.Logf("%s pass %d fail %d", k, pass[k], fail[k]) }
	t.Log("fast", fast, "of", total)
	_ = cmp.Diff
}
