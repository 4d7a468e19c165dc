package receipt_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

func TestKeysAreReadFromPEM(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		text := der
		if kind != "" {
			text = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		file("text", "", []byte("secret")):            "no key in PEM",
		file("broken", "PRIVATE KEY", []byte("x")):    "read the key",
		file("elliptic", "PRIVATE KEY", private):      "no Ed25519 key",
		filepath.Join(file("file", "", nil), "below"): "file",
	} {
		if _, err := receipt.OpenSigningKey(path); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, says := range map[string]string{
		file("text", "", []byte("secret")):        "no key in PEM",
		file("broken", "PUBLIC KEY", []byte("x")): "read the key",
		file("elliptic", "PUBLIC KEY", public):    "no public Ed25519 key",
		filepath.Join(dir, "none"):                "none",
	} {
		if _, err := receipt.ReadPublicKey(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	key, err := receipt.OpenSigningKey(filepath.Join(dir, "audit.key"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := receipt.OpenSigningKey(filepath.Join(dir, "audit.key"))
	if err != nil || !again.Public().Equal(key.Public()) {
		t.Errorf("the key is another one: %v", err)
	}
	read, err := receipt.ReadPublicKey(file("public", "", receipt.PublicPEM(key.Public())))
	if err != nil || !read.Equal(key.Public()) || receipt.Fingerprint(read) != receipt.Fingerprint(key.Public()) || len(receipt.Fingerprint(read)) != 20 {
		t.Errorf("%v, %v", read, err)
	}
}

var errBroken = errors.New("the store is broken")

// failing is a store that fails, or has other records, where a test says so.
type failing struct {
	*sqlite.Store
	ends, ranges error
	records      func(after int64, limit int) ([]receipt.Record, error)
	first        *receipt.Checkpoint
	head         *receipt.Chain
}

func (s *failing) ReceiptEnds(ctx context.Context) (receipt.Checkpoint, receipt.Chain, error) {
	first, head, err := s.Store.ReceiptEnds(ctx)
	if s.first != nil {
		first = *s.first
	}
	if s.head != nil {
		head = *s.head
	}
	return first, head, errors.Join(err, s.ends)
}

func (s *failing) ReceiptRange(ctx context.Context, since, until time.Time) (int64, int64, error) {
	from, to, err := s.Store.ReceiptRange(ctx, since, until)
	return from, to, errors.Join(err, s.ranges)
}

func (s *failing) ReceiptRecords(ctx context.Context, after int64, limit int) ([]receipt.Record, error) {
	if s.records != nil {
		return s.records(after, limit)
	}
	return s.Store.ReceiptRecords(ctx, after, limit)
}

type full struct{ left int }

func (w *full) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestAnExportThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	none := func(int64, int) ([]receipt.Record, error) { return nil, nil }
	fails := func(int64, int) ([]receipt.Record, error) { return nil, errBroken }
	for name, tt := range map[string]struct {
		s    *failing
		sel  receipt.Selection
		says string
	}{
		"no ends":               {&failing{ends: errBroken}, receipt.Selection{}, "the store is broken"},
		"no range":              {&failing{ranges: errBroken}, receipt.Selection{}, "the store is broken"},
		"no records":            {&failing{records: fails}, receipt.Selection{}, "the store is broken"},
		"missing records":       {&failing{records: none}, receipt.Selection{}, "receipt 1 does not fit: it is missing"},
		"none before the first": {&failing{records: none}, receipt.Selection{Since: at(3)}, "receipt 2 does not fit: it is missing"},
		"no record before":      {&failing{records: fails}, receipt.Selection{Since: at(3)}, "the store is broken"},
		"another before it": {&failing{records: func(int64, int) ([]receipt.Record, error) {
			return f.store.ReceiptRecords(t.Context(), 0, 1)
		}}, receipt.Selection{Since: at(3)}, "receipt 2 does not fit: it is missing"},
	} {
		tt.s.Store = f.store
		var out bytes.Buffer
		if _, err := receipt.Export(t.Context(), tt.s, f.key, tt.sel, &out); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(out.String(), "signature") {
			t.Errorf("%s: it was signed", name)
		}
	}
	whole := f.export(t, receipt.Selection{})
	for _, room := range []int{0, len(whole) - 10} {
		if _, err := receipt.Export(t.Context(), f.store, f.key, receipt.Selection{}, &full{left: room}); !errors.Is(err, errBroken) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	// What was added after the end was read is for the next export.
	two, err := f.store.ReceiptRecords(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := receipt.Export(t.Context(), &failing{Store: f.store, head: &receipt.Chain{Seq: 2, Hash: two[0].Hash}}, f.key, receipt.Selection{}, &out); err != nil {
		t.Fatal(err)
	}
	r, err := receipt.Verify(&out, f.key.Public())
	if err != nil || r.Last.Seq != 2 || r.Head.Seq != 2 || r.Checkpoint != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whoever can write to the store but has no key puts receipts there whose numbers were pruned.
func TestAnExportSignsNothingFromBeforeTheChain(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	for _, first := range []receipt.Checkpoint{{Seq: 3, Hash: "pruned"}, {Seq: 5, Hash: "pruned"}} {
		store := &failing{Store: f.store, first: &first}
		for _, since := range []time.Time{{}, at(1)} {
			if m, err := receipt.Export(t.Context(), store, f.key, receipt.Selection{Since: since, Until: at(2)}, &full{left: 1 << 20}); err == nil {
				t.Errorf("%d receipts from before number %d are signed", m.Count, first.Seq)
			}
		}
	}
}

func TestAnExportIsComparedWithTheStore(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	r, err := receipt.Verify(bytes.NewReader(f.export(t, receipt.Selection{Until: at(4)})), f.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	last := r.Last // receipt 3
	other := receipt.Chain{Seq: 3, Hash: strings.Repeat("0", 64)}
	for name, tt := range map[string]struct {
		s    *failing
		says string // empty if it fits
	}{
		"as it was":             {&failing{}, ""},
		"no ends":               {&failing{ends: errBroken}, "the store is broken"},
		"an older store":        {&failing{head: &receipt.Chain{Seq: 2}}, "receipt 3 does not fit: the export has receipts up to 3"},
		"its last is pruned":    {&failing{first: &receipt.Checkpoint{Seq: last.Seq, Hash: last.Hash}}, ""},
		"another was pruned":    {&failing{first: &receipt.Checkpoint{Seq: other.Seq, Hash: other.Hash}}, "receipt 3 does not fit: the store has another"},
		"more is pruned":        {&failing{first: &receipt.Checkpoint{Seq: 4}}, "cannot be compared"},
		"no records":            {&failing{records: func(int64, int) ([]receipt.Record, error) { return nil, errBroken }}, "the store is broken"},
		"none is there":         {&failing{records: func(int64, int) ([]receipt.Record, error) { return nil, nil }}, "the store has another"},
		"another one is there":  {&failing{records: func(int64, int) ([]receipt.Record, error) { return []receipt.Record{{Seq: 3, Hash: other.Hash}}, nil }}, "the store has another"},
		"it has another number": {&failing{records: func(int64, int) ([]receipt.Record, error) { return []receipt.Record{{Seq: 4, Hash: last.Hash}}, nil }}, "the store has another"},
	} {
		tt.s.Store = f.store
		err := receipt.CheckAgainst(t.Context(), tt.s, r.Manifest)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPruningThatFailsRemovesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, 5)
	other, err := receipt.OpenSigningKey(filepath.Join(t.TempDir(), "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*failing{
		"no ends":    {ends: errBroken},
		"no records": {records: func(int64, int) ([]receipt.Record, error) { return nil, errBroken }},
	} {
		s.Store = f.store
		if n, err := receipt.Prune(t.Context(), s, f.key, at(3)); n != 0 || !errors.Is(err, errBroken) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if n, err := receipt.Prune(t.Context(), f.store, f.key, at(2)); n != 1 || err != nil {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	// The beginning must be signed before more is removed.
	if n, err := receipt.Prune(t.Context(), f.store, other, at(3)); n != 0 || err == nil || !strings.Contains(err.Error(), "receipt 2") || !strings.Contains(err.Error(), "was not signed") {
		t.Errorf("with another key: %d, %v", n, err)
	}
	if n, err := f.store.VerifyReceipts(t.Context(), func(c receipt.Checkpoint) error { return receipt.VerifyCheckpoint(f.key.Public(), c) }); n != 4 || err != nil {
		t.Errorf("%d are left, %v", n, err)
	}
	if n, err := receipt.Prune(t.Context(), f.store, f.key, at(100)); n != 4 || err != nil {
		t.Errorf("all of them: %d, %v", n, err)
	}
	if err := receipt.VerifyCheckpoint(f.key.Public(), receipt.Checkpoint{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("a time that has no form was signed")
	}
	if err := f.key.SignCheckpoint(&receipt.Checkpoint{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("a time that has no form is signed")
	}
}

func TestARedactionOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	f := open(t, 1)
	if _, err := receipt.Redact(t.Context(), f.store, "call_9", "reason", toolroom.Identity{}, "cli", at(2)); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Error(err)
	}
}

func TestVerifyNamesTheFirstLineThatIsWrong(t *testing.T) {
	t.Parallel()
	f := open(t, 3)
	whole := string(f.export(t, receipt.Selection{}))
	lines := strings.SplitAfter(whole, "\n") // header, 3 receipts, manifest, ""
	sealed := func(s string) string { return strings.Join(lines[:4], "") + s }
	manifest := lines[4]
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":             {"", "the last line is no manifest"},
		"no manifest":         {strings.Join(lines[:4], ""), "the last line is no manifest"},
		"half a line":         {whole[:len(whole)-1], "line 5 has no end"},
		"no JSON":             {lines[0] + "x\n" + lines[2], "line 2 cannot be read"},
		"no header":           {strings.Join(lines[1:], ""), "line 1 is not what an export has there"},
		"two headers":         {lines[0] + whole, "line 2 is not what an export has there"},
		"a receipt is gone":   {lines[0] + lines[2], "receipt 1 is missing"},
		"a wrong manifest":    {sealed(`{"manifest":[],"signature":"AAAA"}` + "\n"), "the manifest cannot be read"},
		"more after the end":  {whole + "\n", "line 5 is the manifest, and more follows it"},
		"another version":     {sealed(strings.Replace(manifest, `"version":1`, `"version":2`, 1)), "the export has version 2"},
		"a changed manifest":  {sealed(strings.Replace(manifest, `"count":3`, `"count":4`, 1)), "has signed"},
		"a line without end":  {lines[0] + strings.Repeat("x", 17<<20), "more than"},
		"a very long receipt": {lines[0] + `{"x":"` + strings.Repeat("x", 1<<20) + "\"}\n", "does not fit"},
	} {
		for _, key := range []bool{true, false} {
			public := f.key.Public()
			if !key {
				public = nil
			}
			r, err := receipt.Verify(strings.NewReader(tt.text), public)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %+v, %v", name, r, err)
				continue
			}
			if e := toolroom.AsError(err); e.Phase != toolroom.PhaseReceipt || e.Hint == "" {
				t.Errorf("%s: phase %q, hint %q", name, e.Phase, e.Hint)
			}
		}
	}
	if _, err := receipt.Verify(strings.NewReader(whole), nil); err != nil {
		t.Errorf("with the key of the file: %v", err)
	}
	other, err := receipt.OpenSigningKey(filepath.Join(t.TempDir(), "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receipt.Verify(strings.NewReader(whole), other.Public()); err == nil || !strings.Contains(err.Error(), receipt.Fingerprint(other.Public())) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := receipt.Verify(&cut{strings.NewReader(lines[0])}, nil); !errors.Is(err, errBroken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// cut is a reader that fails at its end.
type cut struct{ *strings.Reader }

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		err = errBroken
	}
	return n, err
}

// Whoever owns the key can sign anything: what is signed must still fit together.
func TestASignedManifestMustFitItsReceipts(t *testing.T) {
	t.Parallel()
	f := open(t, 3)
	whole := f.export(t, receipt.Selection{})
	begin := bytes.LastIndex(whole[:len(whole)-1], []byte("\n")) + 1
	r, err := receipt.Verify(bytes.NewReader(whole), f.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*receipt.Manifest){
		"":                  func(*receipt.Manifest) {},
		"another beginning": func(m *receipt.Manifest) { m.Before.Hash = m.Last.Hash },
		"another end":       func(m *receipt.Manifest) { m.Last.Seq++ },
		"another number":    func(m *receipt.Manifest) { m.Count++ },
		"other lines":       func(m *receipt.Manifest) { m.Digest = strings.Repeat("0", 64) },
	} {
		m := r.Manifest
		change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(map[string]any{"manifest": json.RawMessage(text), "signature": f.key.SignManifest(text)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receipt.Verify(bytes.NewReader(append(bytes.Clone(whole[:begin]), append(line, '\n')...)), f.key.Public()); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
