package room

import (
	"context"
	"io"

	"github.com/toolroom/toolroom"
)

// Doctor checks everything that calls depend on: the home, the receipts, each source, which
// it starts, and the engines and sandboxes of this machine. It takes some seconds.
func (r *Room) Doctor(ctx context.Context) []toolroom.Check {
	found := r.app.Doctor(ctx, nil)
	checks := make([]toolroom.Check, len(found))
	for i, c := range found {
		checks[i] = toolroom.Check{Name: c.Name, Status: c.Status, Detail: c.Detail, Fix: c.Fix}
	}
	return checks
}

// Reload reads [Options.ConfigFile] again and applies it without dropping calls. Policy
// applies from the next call on, and new sources start at once. A removed or changed source
// finishes its calls first. If the file has a mistake, the error lists all mistakes, and
// nothing changes.
func (r *Room) Reload() error { return r.app.ReloadFile() }

// Artifact opens the bytes behind a handle, such as a result that was too long to show
// ([toolroom.Result.Artifacts]). who is the caller whose call stored them. The error has
// code not_found if there are no such bytes, or they belong to somebody else.
func (r *Room) Artifact(ctx context.Context, who toolroom.Identity, handle string) (io.ReadCloser, toolroom.Artifact, error) {
	f, about, err := r.app.OpenArtifact(ctx, who, handle)
	if err != nil {
		return nil, toolroom.Artifact{}, err
	}
	return f, about, nil
}

// Receipts lists receipts of calls, including calls that have just ended.
func (r *Room) Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error) {
	return r.app.Receipts(ctx, q)
}

// Receipt returns the receipt of one call, or an error with code not_found.
func (r *Room) Receipt(ctx context.Context, id string) (*toolroom.Receipt, error) {
	return r.app.Receipt(ctx, id)
}

// VerifyReceipts checks the hash chain of all receipts and returns their number. The error
// names the first receipt that does not fit.
func (r *Room) VerifyReceipts(ctx context.Context) (int64, error) { return r.app.VerifyReceipts(ctx) }
