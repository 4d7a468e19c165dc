package room

import (
	"context"

	"github.com/toolroom/toolroom"
)

// Receipts lists receipts of calls, also of those that ended just now.
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
