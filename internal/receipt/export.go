package receipt

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/toolroom/toolroom"
)

// Manifest is the last line of an export. It is signed.
type Manifest struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made"`
	// Since and Until are those of the Selection.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Before is the receipt before the first one here, Last the last one here,
	// and Head the newest that the store had. Count is how many are here.
	Before Chain `json:"before"`
	Last   Chain `json:"last"`
	Head   Chain `json:"head"`
	Count  int64 `json:"count"`
	// Checkpoint is the beginning of the stored chain if older receipts were
	// removed.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Digest is the SHA-256, in hex, of all lines before this one.
	Digest string `json:"digest"`
	// Key is the public key that verifies the signature.
	Key ed25519.PublicKey `json:"key"`
}

// version is the version of the export format.
const version = 1

// header is the first line of an export.
type header struct {
	Version int   `json:"version"`
	Before  Chain `json:"before"`
}

// signedManifest is the line of a manifest.
type signedManifest struct {
	Manifest  json.RawMessage `json:"manifest"`
	Signature []byte          `json:"signature"`
}

// Selection is what to export: receipts of calls that started at or after Since
// and before Until. Zero times do not restrict. An export has every receipt
// between the first and the last that fit, so that its chain has no gaps.
type Selection struct {
	Since, Until time.Time
}

// page is the number of records that are read at once.
const page = 500

// Export writes receipts as JSON Lines, oldest first, and a signed manifest as
// the last line. Every record is checked on the way: a chain that is broken is
// not signed.
func Export(ctx context.Context, store Store, key SigningKey, sel Selection, out io.Writer) (*Manifest, error) {
	first, head, err := store.ReceiptEnds(ctx)
	if err != nil {
		return nil, err
	}
	from, to, err := store.ReceiptRange(ctx, sel.Since, sel.Until)
	if err != nil {
		return nil, err
	}
	if from > to {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there are no receipts of that time").
			WithCLIHint("see what there is: toolroom calls")
	}
	to = min(to, head.Seq)
	m := &Manifest{Version: version, Made: time.Now().UTC(), Since: sel.Since, Until: sel.Until, Head: head, Key: key.Public()}
	if first.Seq > 0 {
		m.Checkpoint = &first
	}
	if m.Before, err = linkAt(ctx, store, first, from-1); err != nil {
		return nil, err
	}
	switch {
	case from <= first.Seq:
		return nil, Broken("", from, "it is from before the chain begins")
	case m.Before.Seq != from-1:
		return nil, Broken("", from-1, "it is missing")
	}
	digest := sha256.New()
	lines := bufio.NewWriter(io.MultiWriter(out, digest))
	if err := writeLine(lines, map[string]header{"export": {version, m.Before}}); err != nil {
		return nil, err
	}
	walk := Walk{At: m.Before}
	for walk.At.Seq < to {
		records, err := store.ReceiptRecords(ctx, walk.At.Seq, int(min(page, to-walk.At.Seq)))
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			return nil, Broken("", walk.At.Seq+1, "it is missing")
		}
		for _, k := range records {
			if _, err := walk.Next(k); err != nil {
				return nil, err
			}
			if err := writeLine(lines, k); err != nil {
				return nil, err
			}
			m.Count++
		}
	}
	if err := lines.Flush(); err != nil {
		return nil, err
	}
	m.Last, m.Digest = walk.At, hex.EncodeToString(digest.Sum(nil))
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return m, writeLine(out, signedManifest{text, key.sign(manifestContext, text)})
}

// linkAt returns the link of a receipt of a store whose chain begins after first; the zero
// Chain if the store does not have it.
func linkAt(ctx context.Context, store Store, first Checkpoint, seq int64) (Chain, error) {
	if seq == first.Seq {
		return first.Chain(), nil
	}
	records, err := store.ReceiptRecords(ctx, seq-1, 1)
	if err != nil || len(records) == 0 || records[0].Seq != seq {
		return Chain{}, err
	}
	return Chain{Seq: seq, Hash: records[0].Hash}, nil
}

// CheckAgainst returns an error if a store no longer has the receipts of an export. Comparing
// the last link suffices, because it depends on all earlier ones.
func CheckAgainst(ctx context.Context, store Store, exported Manifest) error {
	first, head, err := store.ReceiptEnds(ctx)
	if err != nil {
		return err
	}
	last := exported.Last
	switch {
	case head.Seq < last.Seq:
		return Broken("", head.Seq+1, fmt.Sprintf("the export has receipts up to %d, and the store ends here", last.Seq))
	case first.Seq > last.Seq:
		return toolroom.Errorf(toolroom.CodeUnsupported, "receipts up to %d were removed since the export, which ends at %d: they cannot be compared", first.Seq, last.Seq)
	}
	stored, err := linkAt(ctx, store, first, last.Seq)
	if err == nil && stored != last {
		err = Broken("", last.Seq, "the store has another receipt there than the export")
	}
	return err
}

func writeLine(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// Redact removes the details of a call's receipts for good and records who did
// so and why.
func Redact(ctx context.Context, store Store, call, reason string, by toolroom.Identity, surface string, now time.Time) (*toolroom.Receipt, error) {
	notice := &toolroom.Receipt{
		ID: "redact_" + call, Tool: "toolroom:redact", Source: toolroom.SourceBuiltin, Surface: surface, Identity: by,
		Parent: call, Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Preview: reason, Started: now,
	}
	return notice, store.RedactReceipts(ctx, call, notice)
}

// Prune removes the receipts of calls that started before a time, from the
// oldest on, and leaves a signed checkpoint. Receipts whose chain is broken are
// not removed: they are evidence.
func Prune(ctx context.Context, store Store, key SigningKey, before time.Time) (int64, error) {
	first, _, err := store.ReceiptEnds(ctx)
	if err != nil {
		return 0, err
	}
	if first.Seq > 0 {
		if err := VerifyCheckpoint(key.Public(), first); err != nil {
			return 0, err
		}
	}
	walk := Walk{At: first.Chain()}
	for {
		records, err := store.ReceiptRecords(ctx, walk.At.Seq, page)
		if err != nil {
			return 0, err
		}
		for _, k := range records {
			r, err := walk.Next(k)
			if err != nil {
				return 0, err
			}
			if !r.Started.Before(before) {
				return store.PruneReceipts(ctx, before, key.SignCheckpoint)
			}
		}
		if len(records) == 0 {
			return store.PruneReceipts(ctx, before, key.SignCheckpoint)
		}
	}
}
