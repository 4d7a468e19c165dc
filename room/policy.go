package room

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
)

// compilePolicy makes the policy of a config, whose paths are relative to the
// config file.
func (r *Room) compilePolicy(c *config.Config) (*policy.Policy, error) {
	tools, err := policy.ReadManifests(c.Tools, filepath.Dir(r.o.ConfigFile))
	if err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(tools)
	if err != nil {
		return nil, err
	}
	return compiled.With(policy.Parts{}), nil
}

// Explain says what the policy decides about a tool for somebody, and what each
// layer says. Without arguments, what depends on them is left out.
func (r *Room) Explain(ctx context.Context, spelling string, who toolroom.Identity, arguments json.RawMessage) (policy.Decision, error) {
	// A policy can be asked about a tool whose source cannot be listed now.
	_ = r.find(ctx, spelling)
	var tool *toolroom.Tool
	if e, err := r.catalog.Resolve(spelling, nil); err == nil {
		tool = &e.Tool
	} else {
		// A policy may be asked about before the tool is there.
		id, idErr := firstReading(spelling)
		if idErr != nil {
			return policy.Decision{}, err
		}
		tool = &toolroom.Tool{ID: id}
	}
	call := &policy.Context{Time: time.Now()}
	if len(arguments) > 0 {
		call.Arguments = func() (any, error) { return jsonx.Decode(arguments, jsonx.Limits{}) }
	}
	return r.policy.Decide(ctx, policy.Request{Tool: tool, Who: who, Call: call}), nil
}

func firstReading(spelling string) (toolroom.ID, error) {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return toolroom.ID{}, err
	}
	for _, id := range readings {
		if id.Namespace != "" {
			return id, nil
		}
	}
	return toolroom.ID{}, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %q", spelling)
}
