package app

import (
	"context"

	"github.com/toolroom/toolroom/internal/approval/hook"
)

// webhooks returns the webhooks of the current config with their secrets resolved.
func (r *App) webhooks(ctx context.Context) ([]hook.Hook, error) {
	var hooks []hook.Hook
	for _, h := range r.Config().Approvals.Webhooks {
		headers, err := r.resolver.ExpandAll(ctx, h.Headers)
		if err != nil {
			return nil, err
		}
		// The URL may contain a token, too, as those of chat services do.
		texts, err := r.resolver.ExpandAll(ctx, map[string]string{"secret": h.Secret, "url": h.URL})
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, hook.Hook{
			Name: h.Name, URL: texts["url"], PublicURL: h.PublicURL, Headers: headers, Secret: texts["secret"],
		})
	}
	return hooks, nil
}
