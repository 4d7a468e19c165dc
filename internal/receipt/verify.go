package receipt

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
)

// maxLine bounds a line of an export, in bytes: a receipt has at most 64 KiB of
// arguments.
const maxLine = 16 << 20

// Report describes a valid export.
type Report struct {
	Manifest
	// Redacted are places whose details are gone. Of those in Unexplained the
	// record of the redaction is not in this file; it may be in a later one.
	Redacted, Unexplained []int64
}

// Verify reads an export and checks it against a public key: that the manifest
// is signed, that every line is as it was written, that the records are linked
// without a gap, and that nothing is missing at either end. With a nil key, Verify
// checks the signature against the key in the manifest. That proves only that the file
// was not damaged, because anyone who changes it can sign it with another key.
func Verify(in io.Reader, key ed25519.PublicKey) (*Report, error) {
	v := &verifier{report: &Report{}, digest: sha256.New()}
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, broken("%w", errNoManifest)
		case errors.Is(err, io.EOF):
			return nil, broken("line %d has no end: the file was cut off", n)
		case err != nil:
			return nil, err
		}
		done, err := v.line(n, line, key)
		if err != nil {
			return nil, err
		}
		if !done {
			continue
		}
		if _, err := lines.Peek(1); !errors.Is(err, io.EOF) {
			return nil, broken("line %d is the manifest, and more follows it", n)
		}
		return v.report, nil
	}
}

type verifier struct {
	report *Report
	digest hash.Hash
	begin  Chain
	walk   Walk
	count  int64
}

// line checks one line. done reports that it was the manifest.
func (v *verifier) line(n int, line []byte, key ed25519.PublicKey) (done bool, err error) {
	var any struct {
		Header *header `json:"export"`
		Record
		signedManifest
	}
	if err := json.Unmarshal(line, &any); err != nil {
		return false, broken("line %d cannot be read: %w", n, err)
	}
	if any.Manifest != nil {
		return true, v.manifest(any.signedManifest, key)
	}
	v.digest.Write(line)
	switch {
	case (n == 1) != (any.Header != nil):
		return false, broken("line %d is not what an export has there", n)
	case any.Header != nil:
		v.begin, v.walk.At = any.Header.Before, any.Header.Before
		return false, nil
	}
	r, err := v.walk.Next(any.Record)
	if err != nil {
		return false, err
	}
	v.count++
	if r.Redacted {
		v.report.Redacted = append(v.report.Redacted, r.Seq)
	}
	return false, nil
}

func (v *verifier) manifest(s signedManifest, key ed25519.PublicKey) error {
	m := &v.report.Manifest
	if err := json.Unmarshal(s.Manifest, m); err != nil {
		return broken("the manifest cannot be read: %w", err)
	}
	if key == nil {
		key = m.Key
	}
	v.report.Unexplained = v.walk.Unexplained()
	switch {
	case m.Version != version:
		return broken("the export has version %d, and this Toolroom reads version %d", m.Version, version)
	case !bytes.Equal(key, m.Key):
		return broken("the export was signed with the key %s, not with %s", Fingerprint(m.Key), Fingerprint(key))
	case !hasSignature(key, manifestContext, s.Manifest, s.Signature):
		return broken("the manifest is not what the owner of the key %s has signed", Fingerprint(key))
	case m.Digest != hex.EncodeToString(v.digest.Sum(nil)):
		return broken("the lines are not those that were signed")
	case v.begin != m.Before || v.walk.At != m.Last || v.count != m.Count:
		return broken("the receipts are not those of the manifest: %d up to %d, not %d up to %d", v.count, v.walk.At.Seq, m.Count, m.Last.Seq)
	}
	return nil
}

// readLine reads a line including its line end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, broken("a line has more than %d bytes", maxLine)
		}
	}
}

// Walk checks a chain record by record. The zero Walk begins at the first
// receipt.
type Walk struct {
	// At is the end of the part that has been checked.
	At Chain
	// unexplained holds the ids of receipts without details whose redaction has
	// not been found yet, by number.
	unexplained map[int64]string
}

// Next checks the next record.
func (w *Walk) Next(k Record) (*toolroom.Receipt, error) {
	at, r, err := w.At.Check(k)
	if err != nil {
		return nil, err
	}
	w.At = at
	if r.Redacted {
		if w.unexplained == nil {
			w.unexplained = map[int64]string{}
		}
		w.unexplained[r.Seq] = r.ID
	}
	for _, seq := range r.Redacts {
		delete(w.unexplained, seq)
	}
	return r, nil
}

// Unexplained returns the numbers of receipts whose details were removed without
// a later receipt that records it.
func (w *Walk) Unexplained() []int64 { return slices.Sorted(maps.Keys(w.unexplained)) }

// End checks that the walk covered the whole chain up to the end that the store
// recorded, and that every redaction is recorded.
func (w *Walk) End(noted Chain) error {
	if err := w.At.CheckEnd(noted); err != nil {
		return err
	}
	for _, seq := range w.Unexplained() {
		return Broken(w.unexplained[seq], seq, "its details were removed, and no redaction is recorded")
	}
	return nil
}
