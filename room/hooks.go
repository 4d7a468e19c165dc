package room

import (
	"context"

	"github.com/toolroom/toolroom/internal/approval/hook"
)

// webhooks are those of the config in force, with their secrets resolved.
func (r *Room) webhooks(ctx context.Context) ([]hook.Hook, error) {
	var hooks []hook.Hook
	for _, h := range r.Config().Approvals.Webhooks {
		headers, err := r.keeper.ExpandAll(ctx, h.Headers)
		if err != nil {
			return nil, err
		}
		// The URL may hold a token too, as those of chat programs do.
		texts, err := r.keeper.ExpandAll(ctx, map[string]string{"secret": h.Secret, "url": h.URL})
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, hook.Hook{
			Name: h.Name, URL: texts["url"], PublicURL: h.PublicURL, Headers: headers, Secret: texts["secret"],
		})
	}
	return hooks, nil
}
