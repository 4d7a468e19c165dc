package jsonx

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// stricter names the documents that the suite wants accepted and that our own
// rules refuse, each with a part of the reason.
var stricter = map[string]string{
	"y_object_duplicated_key.json":           `duplicate key "a"`,
	"y_object_duplicated_key_and_value.json": `duplicate key "a"`,
}

type suiteDocument struct {
	Name   string
	Expect string
	Data   []byte `json:"b64"`
}

func suiteDocuments(t testing.TB) []suiteDocument {
	t.Helper()
	f, err := os.Open("testdata/json_parsing_nst.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var docs []suiteDocument
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var doc suiteDocument
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestTheParsingSuiteIsHeld(t *testing.T) {
	t.Parallel()
	docs := suiteDocuments(t)
	if len(docs) != 318 {
		t.Fatalf("%d documents, want all 318", len(docs))
	}
	refused := 0
	for _, doc := range docs {
		t.Run(doc.Name, func(t *testing.T) {
			_, err := Decode(doc.Data, Limits{})
			if checkErr := Check(doc.Data, Limits{}); (err == nil) != (checkErr == nil) {
				t.Errorf("Decode says %v, Check says %v", err, checkErr)
			}
			reason, own := stricter[doc.Name]
			switch {
			case own:
				refused++
				if err == nil || !strings.Contains(err.Error(), reason) {
					t.Errorf("got %v, want a refusal for %s", err, reason)
				}
			case doc.Expect == "accept" && err != nil:
				t.Errorf("refused: %v", err)
			case doc.Expect == "reject" && err == nil:
				t.Errorf("accepted %q", doc.Data)
			}
		})
	}
	if refused != len(stricter) {
		t.Errorf("%d of the %d stricter documents were met", refused, len(stricter))
	}
}

func TestDeepDocumentsOfTheSuiteAreRefusedForTheirDepth(t *testing.T) {
	t.Parallel()
	deep := 0
	for _, doc := range suiteDocuments(t) {
		if !strings.Contains(doc.Name, "nested_arrays.json") && !strings.Contains(doc.Name, "100000_opening_arrays") {
			continue
		}
		deep++
		if err := Check(doc.Data, Limits{}); err == nil || !strings.Contains(err.Error(), "levels of nesting") {
			t.Errorf("%s: got %v, want a refusal for its depth", doc.Name, err)
		}
	}
	if deep != 2 {
		t.Errorf("%d deep documents met, want 2", deep)
	}
}
