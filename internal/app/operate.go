package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// RecordAdmin records a receipt of a change that an operator has made to the room, or was
// not allowed to make. what is the change, for example sources.add; the receipt's tool is
// "toolroom:" and what.
func (a *App) RecordAdmin(ctx context.Context, what string, arguments any, who toolroom.Identity, refused error) error {
	text, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	rec := &receipt.Draft{RawArguments: text, Receipt: toolroom.Receipt{
		ID: "call_" + strings.ToLower(rand.Text()[:16]), Tool: "toolroom:" + what, Surface: receipt.SurfaceAdmin, Identity: who,
		Arguments: text, Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Started: time.Now().UTC(),
	}}
	if refused != nil {
		rec.Status, rec.Effects, rec.Error = toolroom.StatusError, toolroom.EffectsUnknown, toolroom.AsError(refused)
		if rec.Error.Code == toolroom.CodeDenied {
			rec.Status, rec.Effects = toolroom.StatusDenied, toolroom.EffectsNone
		}
	}
	return a.receipts.Append(ctx, rec)
}

// StoreSecrets stores the secrets of a source, by their references. Unless replace is set,
// it does not change a secret that exists and has another value, because another source may
// use it. The error then has code conflict, and nothing has been stored.
func (a *App) StoreSecrets(ctx context.Context, secrets map[string]string, replace bool) error {
	refs := map[string]secret.Ref{}
	for text, value := range secrets {
		ref, err := secret.ParseRef(text)
		if err != nil {
			return err
		}
		refs[text] = ref
		if before, err := a.secrets.Get(ctx, ref); !replace && err == nil && before != value {
			return toolroom.Errorf(toolroom.CodeConflict, "the secret %s is there already, with another value", text).
				WithHint("refer to it as %s in place of the value, or remove it first", text).
				WithCLIHint("remove it first: toolroom secret remove %s/%s", ref.Scope, ref.Name)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(secrets)) {
		if err := a.secrets.Set(ctx, refs[text], secrets[text]); err != nil {
			return err
		}
	}
	return nil
}

// StateDisabled is the state of a source that the config has turned off.
const StateDisabled = "disabled"

// DisabledSources returns the sources of the config that are turned off, sorted by name.
func (a *App) DisabledSources() []source.Status {
	var out []source.Status
	sources := a.Config().Sources
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if s := sources[name]; s.Disabled {
			out = append(out, source.Status{Name: name, Kind: s.Kind(), State: StateDisabled, Sandbox: s.SandboxText()})
		}
	}
	return out
}
