package app

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
)

type lastReceipt struct {
	run.Receipts
	rec *receipt.Draft
}

func (l *lastReceipt) Append(_ context.Context, rec *receipt.Draft) error {
	l.rec = rec
	return nil
}

// The store leaves out what is no JSON, and takes the rest of the receipt.
func TestAReceiptThatIsNoJSONIsRedactedToo(t *testing.T) {
	t.Parallel()
	const value = "hunter2hunter2"
	secrets := &secret.Redactor{}
	secrets.Learn(map[secret.Ref]string{{}: value})
	for name, rec := range map[string]*receipt.Draft{
		"arguments": {Receipt: toolroom.Receipt{ID: "a", Key: value, Preview: value, Arguments: json.RawMessage(`{"broken`)}},
		"details": {Receipt: toolroom.Receipt{ID: "a", Key: value, Error: &toolroom.Error{
			Code: toolroom.CodeInternal, Message: value, Details: map[string]any{"f": math.NaN()},
		}}},
	} {
		last := &lastReceipt{}
		if err := (&receiptLog{Receipts: last, secrets: secrets}).Append(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(last.rec)
		if err != nil || last.rec.ID != "a" || strings.Contains(string(text), value) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
