package receipt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

var auditStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(minute int) time.Time { return auditStart.Add(time.Duration(minute) * time.Minute) }

type fixture struct {
	store *sqlite.Store
	path  string
	key   receipt.SigningKey
}

// open is a store with receipts 1 to n, of calls a minute apart.
func open(t *testing.T, n int) *fixture {
	t.Helper()
	f := &fixture{path: filepath.Join(t.TempDir(), "db")}
	var err error
	if f.store, err = sqlite.Open(t.Context(), f.path, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	if f.key, err = receipt.OpenSigningKey(filepath.Join(t.TempDir(), "audit.key")); err != nil {
		t.Fatal(err)
	}
	f.add(t, 1, n)
	return f
}

func (f *fixture) add(t *testing.T, from, to int) {
	t.Helper()
	var group []*receipt.Draft
	for i := from; i <= to; i++ {
		group = append(group, &receipt.Draft{Receipt: toolroom.Receipt{
			ID: fmt.Sprintf("call_%d", i), Tool: "file:read", Status: toolroom.StatusOK, Started: at(i),
			Arguments: json.RawMessage(fmt.Sprintf(`{"path":"<private-%d>"}`, i)), Preview: fmt.Sprintf("text & %d", i),
		}})
	}
	if err := f.store.AppendReceipts(t.Context(), group); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) export(t *testing.T, sel receipt.Selection) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := receipt.Export(t.Context(), f.store, f.key, sel, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAnExportVerifiesWhereverItBegins(t *testing.T) {
	t.Parallel()
	f := open(t, 1200) // more than one page
	for name, tt := range map[string]struct {
		sel      receipt.Selection
		from, to int64
	}{
		"all":   {receipt.Selection{}, 1, 1200},
		"since": {receipt.Selection{Since: at(700)}, 700, 1200},
		"until": {receipt.Selection{Until: at(3)}, 1, 2},
		"one":   {receipt.Selection{Since: at(5), Until: at(6)}, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := receipt.Verify(bytes.NewReader(f.export(t, tt.sel)), f.key.Public())
			if err != nil {
				t.Fatal(err)
			}
			if r.Before.Seq != tt.from-1 || r.Last.Seq != tt.to || r.Count != tt.to-tt.from+1 || r.Head.Seq != 1200 {
				t.Errorf("it has %d, from after %d to %d of %d", r.Count, r.Before.Seq, r.Last.Seq, r.Head.Seq)
			}
			if err := receipt.CheckAgainst(t.Context(), f.store, r.Manifest); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := receipt.Export(t.Context(), f.store, f.key, receipt.Selection{Since: at(2000)}, &bytes.Buffer{}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("an empty export: %v", err)
	}
}

func TestAttacksOnAnExport(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	whole := f.export(t, receipt.Selection{})
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	join := func(parts ...[]string) string {
		var s string
		for _, p := range parts {
			s += strings.Join(p, "")
		}
		return s
	}
	other, err := receipt.OpenSigningKey(filepath.Join(t.TempDir(), "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	var forged bytes.Buffer
	if _, err := receipt.Export(t.Context(), f.store, other, receipt.Selection{Until: at(3)}, &forged); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a changed argument":        strings.Replace(string(whole), "private-3", "private-9", 1),
		"a changed status":          strings.Replace(string(whole), `"status":"ok"`, `"status":"no"`, 1),
		"a removed receipt":         join(lines[:3], lines[4:]),
		"the first removed":         join(lines[:1], lines[2:]),
		"the last removed":          join(lines[:5], lines[6:]),
		"two swapped":               join(lines[:2], lines[3:4], lines[2:3], lines[4:]),
		"one twice":                 join(lines[:3], lines[2:]),
		"cut off at the end":        join(lines[:6]),
		"cut off within a line":     string(whole[:len(whole)-20]),
		"without its beginning":     join(lines[1:]),
		"nothing":                   "",
		"two exports in a row":      string(whole) + string(whole),
		"a line added":              join(lines, []string{"{}\n"}),
		"details taken out":         strings.Replace(string(whole), lines[2], lines[2][:strings.Index(lines[2], `,"detail":`)]+"}\n", 1),
		"signed by somebody else":   forged.String(),
		"another count":             strings.Replace(string(whole), `"count":5`, `"count":4`, 1),
		"a signature of all zeroes": string(whole[:bytes.LastIndex(whole, []byte(`"signature"`))]) + `"signature":"AAAA"}` + "\n",
		"no JSON":                   "x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text == string(whole) {
				t.Fatal("the attack changed nothing")
			}
			if r, err := receipt.Verify(strings.NewReader(text), f.key.Public()); err == nil {
				t.Errorf("it was found whole: %+v", r.Manifest)
			}
		})
	}
	if _, err := receipt.Verify(bytes.NewReader(whole), f.key.Public()); err != nil {
		t.Errorf("the original: %v", err)
	}
}

func TestAnExportFindsAStoreThatWasWrittenAnew(t *testing.T) {
	t.Parallel()
	f, copied := open(t, 5), open(t, 5) // the same calls, another chain
	r, err := receipt.Verify(bytes.NewReader(f.export(t, receipt.Selection{Until: at(4)})), f.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copied.store.VerifyReceipts(t.Context(), nil); err != nil {
		t.Fatalf("the new chain must be whole by itself: %v", err)
	}
	if err := receipt.CheckAgainst(t.Context(), copied.store, r.Manifest); err == nil || !strings.Contains(err.Error(), "another receipt") {
		t.Errorf("written anew: %v", err)
	}
	if err := receipt.CheckAgainst(t.Context(), open(t, 2).store, r.Manifest); err == nil || !strings.Contains(err.Error(), "ends here") {
		t.Errorf("cut off: %v", err)
	}
	f.add(t, 6, 9)
	if err := receipt.CheckAgainst(t.Context(), f.store, r.Manifest); err != nil {
		t.Errorf("grown: %v", err)
	}
}

func TestWhatIsRedactedIsNowhereInTheFiles(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	before := f.export(t, receipt.Selection{})
	notice, err := receipt.Redact(t.Context(), f.store, "call_3", "asked by the person", toolroom.Identity{Subject: "ann"}, "cli", at(6))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(f.path + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"private-3", "text & 3", "text \\u0026 3"} {
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s still has %q", filepath.Base(name), text)
			}
		}
	}
	if n, err := f.store.VerifyReceipts(t.Context(), nil); n != 6 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
	r, err := receipt.Verify(bytes.NewReader(f.export(t, receipt.Selection{})), f.key.Public())
	if err != nil || len(r.Redacted) != 1 || len(r.Unexplained) != 0 {
		t.Errorf("the export afterwards: %+v, %v", r, err)
	}
	// An export that ends before the notice cannot explain it, and says so.
	r, err = receipt.Verify(bytes.NewReader(f.export(t, receipt.Selection{Until: at(5)})), f.key.Public())
	if err != nil || len(r.Unexplained) != 1 || r.Unexplained[0] != 3 {
		t.Errorf("a part: %+v, %v", r, err)
	}
	if r, err = receipt.Verify(bytes.NewReader(before), f.key.Public()); err != nil {
		t.Fatal(err)
	}
	if err := receipt.CheckAgainst(t.Context(), f.store, r.Manifest); err != nil {
		t.Errorf("an export from before the redaction no longer fits: %v", err)
	}
	if notice.Seq != 6 || notice.Parent != "call_3" {
		t.Errorf("the notice is %+v", notice)
	}
}

func TestPruningKeepsASignedBeginningAndNeverRemovesEvidence(t *testing.T) {
	t.Parallel()
	f := open(t, 10)
	old := f.export(t, receipt.Selection{Until: at(3)})
	trust := func(c receipt.Checkpoint) error { return receipt.VerifyCheckpoint(f.key.Public(), c) }
	if n, err := receipt.Prune(t.Context(), f.store, f.key, at(5)); n != 4 || err != nil {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	if n, err := f.store.VerifyReceipts(t.Context(), trust); n != 6 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
	r, err := receipt.Verify(bytes.NewReader(f.export(t, receipt.Selection{})), f.key.Public())
	if err != nil || r.Count != 6 || r.Checkpoint == nil || r.Checkpoint.Seq != 4 {
		t.Errorf("the export: %+v, %v", r, err)
	}
	was, err := receipt.Verify(bytes.NewReader(old), f.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := receipt.CheckAgainst(t.Context(), f.store, was.Manifest); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("an export of what was pruned: %v", err)
	}

	other, err := receipt.OpenSigningKey(filepath.Join(t.TempDir(), "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.VerifyReceipts(t.Context(), func(c receipt.Checkpoint) error { return receipt.VerifyCheckpoint(other.Public(), c) }); err == nil {
		t.Error("a checkpoint was trusted by another key")
	}
	// Somebody removes more by hand, and moves the checkpoint.
	moved, _, err := f.store.ReceiptEnds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records, err := f.store.ReceiptRecords(t.Context(), 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	moved.Seq, moved.Hash = records[1].Seq, records[1].Hash
	if err := trust(moved); err == nil {
		t.Error("a checkpoint that was moved is trusted")
	}
}

func TestABrokenChainIsNeitherSignedNorPruned(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	changed := &tampered{Store: f.store}
	if _, err := receipt.Export(t.Context(), changed, f.key, receipt.Selection{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "receipt 2") {
		t.Errorf("Export = %v", err)
	}
	if n, err := receipt.Prune(t.Context(), changed, f.key, at(5)); n != 0 || err == nil || !strings.Contains(err.Error(), "receipt 2") {
		t.Errorf("Prune = %d, %v", n, err)
	}
}

// tampered is a store whose second receipt was changed.
type tampered struct{ *sqlite.Store }

// ReceiptRecords gives the records as they are now.
func (s *tampered) ReceiptRecords(ctx context.Context, after int64, limit int) ([]receipt.Record, error) {
	records, err := s.Store.ReceiptRecords(ctx, after, limit)
	for i, k := range records {
		if k.Seq == 2 {
			records[i].Body = bytes.Replace(k.Body, []byte("file:read"), []byte("file:rook"), 1)
		}
	}
	return records, err
}
