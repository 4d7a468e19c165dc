package cli

import (
	"context"
	"log/slog"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
)

// changeArguments are the arguments in the receipt of a change of one source, secret or token.
// They are the same as for the HTTP API.
type changeArguments struct {
	Name  string `json:"name"`
	Owner string `json:"owner,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// record writes the receipt of a change that ended with err, and returns err. A config that is
// not trusted, or no longer valid, does not choose where receipts are written.
func (a *cli) record(ctx context.Context, what string, arguments any, err error) error {
	failed := a.withOpened(func(r *app.App) error {
		err = a.recordIn(ctx, r, what, arguments, err)
		return nil
	}, func() (*app.App, error) {
		if a.shared != nil {
			return a.shared, nil
		}
		file, found := a.findConfig()
		if found == nil && file != "" {
			_, found = config.LoadVerified(file, a.verifier(file))
		}
		if found != nil {
			file = ""
		}
		return a.openConfig(ctx, file, slog.LevelWarn, app.OpenState)
	})
	return receiptError(err, failed)
}

// recordIn is like record, for a room that is already open.
func (a *cli) recordIn(ctx context.Context, r *app.App, what string, arguments any, err error) error {
	return receiptError(err, r.RecordAdmin(context.WithoutCancel(ctx), what, arguments, operator(), err))
}

// receiptError returns the error of a change, or else of its receipt.
func receiptError(err, failed error) error {
	if err == nil && failed != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the change was made, but its receipt could not be kept: %w", failed)
	}
	return err
}
