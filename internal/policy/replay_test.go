package policy_test

import (
	"context"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

func TestWhatWasSoOfTheMomentStandsInAReplay(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tried := policy.NewTrial(p.With(policy.Parts{}), func(context.Context, string) (*toolroom.Tool, error) {
		return &toolroom.Tool{ID: toolroom.MustParseID("shop:pay")}, nil
	})
	for layer, changes := range map[string]int{"policy.spending": 0, "policy.taint": 0, "tools": 1} {
		var r policy.ReplayResult
		tried.Replay(t.Context(), &r, policy.RecordedCall{
			Tool: "shop:pay", Was: toolroom.VerdictDeny, Arguments: []byte(`{}`),
			Layers: []toolroom.PolicyStep{{Layer: layer, Effect: toolroom.VerdictDeny, Rule: "r"}},
		})
		if len(r.Changes) != changes {
			t.Errorf("%s denied: %d changes, want %d", layer, len(r.Changes), changes)
		}
	}
}

func TestARuleAboutEffectsFindsRecordedCallsInAReplay(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"effect:host:*.evil.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	tried := policy.NewTrial(p.With(policy.Parts{}), func(context.Context, string) (*toolroom.Tool, error) {
		return &toolroom.Tool{ID: toolroom.MustParseID("web:fetch")}, nil
	})
	for target, changes := range map[string]int{"a.evil.example:443": 1, "good.example:443": 0} {
		effect, err := toolroom.ParseEffect("host.get:" + target)
		if err != nil {
			t.Fatal(err)
		}
		var r policy.ReplayResult
		tried.Replay(t.Context(), &r, policy.RecordedCall{Tool: "web:fetch", Was: toolroom.VerdictAllow, Arguments: []byte(`{}`), Effects: []toolroom.Effect{effect}})
		if len(r.Changes) != changes {
			t.Errorf("%s: %d changes, want %d", target, len(r.Changes), changes)
		}
	}
}
