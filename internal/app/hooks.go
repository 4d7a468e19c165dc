package app

import (
	"context"

	"github.com/toolroom/toolroom/internal/approval"
)

// webhooks returns the webhooks of the current config with their secrets resolved.
func (a *App) webhooks(ctx context.Context) ([]approval.Hook, error) {
	var hooks []approval.Hook
	for _, h := range a.Config().Approvals.Webhooks {
		headers, err := a.resolver.ExpandAll(ctx, h.Headers)
		if err != nil {
			return nil, err
		}
		// The URL may contain a token, too, as those of chat services do.
		texts, err := a.resolver.ExpandAll(ctx, map[string]string{"secret": h.Secret, "url": h.URL})
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, approval.Hook{
			Name: h.Name, URL: texts["url"], PublicURL: h.PublicURL, Headers: headers, Secret: texts["secret"],
		})
	}
	return hooks, nil
}
