package cli

import (
	"context"
	"log/slog"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
)

// changeOf are the arguments in the receipt of a change of one source, secret or token, as the
// HTTP API has them.
type changeOf struct {
	Name  string `json:"name"`
	Owner string `json:"owner,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// record keeps the receipt of a change that ended with err, and returns err. A config that is
// not trusted, or no longer right, does not choose where receipts are.
func (a *cli) record(ctx context.Context, what string, arguments any, err error) error {
	failed := a.opened(func(r *app.App) error {
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
		return a.openOf(ctx, file, slog.LevelWarn, app.OpenState)
	})
	return recorded(err, failed)
}

// recordIn is record for a room that is open.
func (a *cli) recordIn(ctx context.Context, r *app.App, what string, arguments any, err error) error {
	return recorded(err, r.RecordAdmin(context.WithoutCancel(ctx), what, arguments, me(), err))
}

func recorded(err, failed error) error {
	if err == nil && failed != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the change was made, but its receipt could not be kept: %w", failed)
	}
	return err
}
