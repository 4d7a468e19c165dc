package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/policy/cedar"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// Policy compiles the policy of a config: the layers of its section tools, including the
// manifests of skills, and the rules of its section policy. Paths are relative to the
// config file. Rules may name Toolroom's engines and runtimes.
func Policy(c *config.Config, configFile string) (*policy.Policy, *cedar.Rules, error) {
	return verifiedPolicy(c, configFile, nil, nil)
}

// verifiedPolicy is like Policy, but calls verify with each file. Rules may also name the
// engines in more, which an embedder adds.
func verifiedPolicy(c *config.Config, configFile string, verify config.Verify, more []string) (*policy.Policy, *cedar.Rules, error) {
	folder := filepath.Dir(configFile)
	tools, err := policy.ReadManifests(c.Layers(), folder, verify)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := policy.Compile(tools)
	if err != nil {
		return nil, nil, err
	}
	texts, err := ruleTexts(c.Policy, folder, verify)
	if err != nil {
		return nil, nil, err
	}
	rules, err := cedar.Compile(texts, cedar.Options{
		DenyByDefault: c.Policy.Default == "deny", Environment: c.Policy.Environment, Groups: tools.GroupPatterns(),
		Engines: slices.Concat(engineNames(), more),
	})
	if err != nil {
		return nil, nil, err
	}
	var written policy.TextRules
	if len(texts) > 0 || c.Policy.Default == "deny" {
		written = rules
	}
	return compiled.With(policy.Parts{TextRules: written}), rules, nil
}

// ReloadPolicy reads the policy files of the current config again. The new policy applies
// from the next call on. Sandboxes that may see a replaced file start anew.
func (a *App) ReloadPolicy() error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	if err := a.apply(a.Config()); err != nil {
		return err
	}
	a.log.Info("policy reloaded")
	return nil
}

// PolicyStamps returns two texts that change when the size or time of a rule file or skill
// manifest of the current config changes: applied is that of the current policy, and now
// that of the files.
func (a *App) PolicyStamps() (applied, now string) {
	a.mu.Lock()
	c, applied := a.config, a.policyStamp
	a.mu.Unlock()
	return applied, stampOf(a.policyFiles(c))
}

func stampOf(files []string) string {
	var b strings.Builder
	for _, file := range files {
		b.WriteString(file)
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&b, " %d %d", info.ModTime().UnixNano(), info.Size())
		}
		b.WriteByte(0)
	}
	return b.String()
}

func (a *App) policyFiles(c *config.Config) []string {
	files := c.PolicyFiles()
	for i, file := range files {
		if !filepath.IsAbs(file) {
			files[i] = filepath.Join(filepath.Dir(a.o.ConfigFile), file)
		}
	}
	return files
}

// engineNames lists all engines and runtimes, including those that this machine or config
// does not have.
func engineNames() []string {
	return []string{
		"js", "py-lite", "py-native", "py", "pyodide", "wasm", "process", "microvm", "firecracker", "gvisor", "docker", "containerd", "kata",
		"kubernetes", "remote", "proxmox_lxc", "temporal", "host",
	}
}

func ruleTexts(p config.Policy, folder string, verify config.Verify) ([]cedar.Text, error) {
	var texts []cedar.Text
	var problems []error
	for i, item := range p.Rules {
		if !config.IsRuleFile(item) {
			texts = append(texts, cedar.Text{Name: fmt.Sprintf("policy.rules[%d]", i), Body: []byte(item)})
			continue
		}
		body, err := readRules(folder, item, verify)
		if err != nil {
			problems = append(problems, fmt.Errorf("policy.rules[%d]: %w", i, err))
			continue
		}
		texts = append(texts, cedar.Text{Name: item, Body: body})
	}
	return texts, errors.Join(problems...)
}

func readRules(folder, path string, verify config.Verify) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, cedar.MaxText+1))
	if err == nil && verify != nil && len(body) <= cedar.MaxText { // a longer one is refused anyway
		err = verify(path, body)
	}
	return body, err
}

func (a *App) compilePolicy(c *config.Config) (*policy.Policy, error) {
	var engines []string
	for _, e := range a.engines {
		engines = append(engines, e.Name())
	}
	p, _, err := verifiedPolicy(c, a.o.ConfigFile, a.o.Verify, engines)
	if err != nil {
		return nil, err
	}
	return p.WithElevations(a.store), nil
}

// Explain returns the policy decision about a tool for an identity, with the verdict of
// each layer. With arguments, a JSON object, it decides about that call and predicts its
// effects. Without them it ignores rules that depend on arguments. It runs nothing.
func (a *App) Explain(ctx context.Context, spelling string, who toolroom.Identity, arguments json.RawMessage) (*policy.Explanation, error) {
	return a.ExplainFor(ctx, toolroom.Call{Tool: spelling, Identity: who, Arguments: arguments})
}

// ExplainFor is like [App.Explain], for the version of the tool that would serve a call.
func (a *App) ExplainFor(ctx context.Context, of toolroom.Call) (*policy.Explanation, error) {
	who, arguments := of.Identity, of.Arguments
	_ = a.find(ctx, of.Tool) // a source that cannot be listed now does not matter
	tool, err := a.policyToolFor(&of)
	if err != nil {
		return nil, err
	}
	call := &policy.Context{Time: time.Now(), Secrets: a.trust.Load().of(tool).Secrets}
	e, err := a.runner.Lookup(&of)
	known := err == nil
	if len(arguments) > 0 {
		call.Arguments = func() (any, error) { return jsonx.Decode(arguments, jsonx.Limits{}) }
		if _, err := call.Arguments(); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid arguments: %w", err)
		}
		if known {
			call.Effects = a.runner.PredictEffects(e, who, arguments)
		}
	}
	if known {
		call.Enforced = run.Enforced(e, source.Request{Tool: e.Tool.ID, Arguments: arguments, Identity: who}, call.Effects)
	}
	asked := policy.Request{Tool: tool, Who: who, Call: call}
	var decision policy.Decision
	if known && call.Arguments != nil {
		decision, _ = a.runner.Judge(ctx, e, asked, source.Request{Arguments: arguments, Identity: who})
	} else {
		decision = a.policy.Decide(ctx, asked)
	}
	step, spends, err := a.spending().Judge(ctx, tool.ID.Unversioned().String(), who.Key(), call.Effects, call.Time)
	if err != nil {
		return nil, err
	}
	if spends {
		decision = decision.WithStep(step)
	}
	explained := &policy.Explanation{
		Decision: decision, Effects: call.Effects, Unknown: !known,
		NeedsSandbox: known && run.NeedsSandbox(e, decision),
	}
	if decision.Effect == toolroom.VerdictConfirm && (!spends || step.Effect == toolroom.VerdictAllow) {
		return explained, a.addGrant(ctx, explained, tool, &of)
	}
	return explained, nil
}

// addGrant adds to e the grant that covers the call, if there is one.
func (a *App) addGrant(ctx context.Context, e *policy.Explanation, tool *toolroom.Tool, of *toolroom.Call) error {
	who, arguments := of.Identity, of.Arguments
	question := toolroom.Approval{Tool: tool.ID.String(), Identity: who, Session: of.Session, Environment: approval.Environment(of.Environment, who)}
	if canonical, err := jsonx.Canonical(arguments); len(arguments) > 0 && err == nil {
		question.Digest = approval.CallDigest(tool, cmp.Or(of.Environment, who.Environment), canonical, nil, who)
	}
	grant, err := a.approvals.FindGrant(ctx, question)
	if err != nil || grant == nil {
		return err
	}
	e.Answered = grant.ID
	e.Steps = append(slices.Clip(e.Steps), toolroom.PolicyStep{Layer: "approvals", Effect: toolroom.VerdictAllow, Rule: grant.String()})
	return nil
}

// policyTool returns the tool that a question about policy names. The tool need not exist
// yet.
func (a *App) policyTool(ctx context.Context, spelling string) (*toolroom.Tool, error) {
	_ = a.find(ctx, spelling) // a source that cannot be listed now does not matter
	return a.listedPolicyTool(ctx, spelling)
}

// listedPolicyTool is like policyTool, but finds only tools that were listed before: it
// starts no source.
func (a *App) listedPolicyTool(_ context.Context, spelling string) (*toolroom.Tool, error) {
	return a.policyToolFor(&toolroom.Call{Tool: spelling})
}

func (a *App) policyToolFor(call *toolroom.Call) (*toolroom.Tool, error) {
	e, err := a.runner.Lookup(call)
	if err == nil {
		return &e.Tool, nil
	}
	id, idErr := firstReading(call.Tool)
	if idErr != nil {
		return nil, err
	}
	return &toolroom.Tool{ID: id}, nil
}

// TryPolicy decides the cases of a trial with the current policy.
func (a *App) TryPolicy(ctx context.Context, cases []policy.Case) ([]policy.CaseOutcome, error) {
	return policy.NewTrial(a.policy.current.Load().policy, a.policyTool).Run(ctx, cases)
}

// ReplayPolicy decides the calls recorded since a time again, with the current policy, and
// returns those whose decision differs.
func (a *App) ReplayPolicy(ctx context.Context, since time.Time) (*policy.ReplayResult, error) {
	replayed := &policy.ReplayResult{Changes: []policy.ReplayChange{}}
	tried := policy.NewTrial(a.policy.current.Load().policy, a.listedPolicyTool)
	tried.Enforced = func(tool *toolroom.Tool, predicted []toolroom.Effect) func(toolroom.Effect) bool {
		e, err := a.catalog.Resolve(tool.ID.String(), nil)
		if err != nil {
			return nil
		}
		return run.Enforced(e, source.Request{Tool: tool.ID}, predicted)
	}
	query := toolroom.ReceiptQuery{Since: since, AfterSeq: toolroom.ReceiptsFromStart, Limit: receipt.MaxLimit}
	for {
		page, err := a.Receipts(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			tried.Replay(ctx, replayed, policy.RecordedCall{
				ID: c.ID, Tool: c.Tool, Identity: c.Identity, Surface: c.Surface, Session: c.Session, Started: c.Started,
				Arguments: c.Arguments, Effects: c.Expected, Was: c.Decision, Rule: c.Rule, Layers: c.Layers,
			})
			query.AfterSeq = c.Seq
		}
		if len(page) < receipt.MaxLimit {
			return replayed, nil
		}
	}
}

// spending returns the ledger that enforces the section policy.spending of the current config.
func (a *App) spending() *policy.SpendingLedger {
	return &policy.SpendingLedger{Store: a.store, Rules: func() []policy.SpendingRule {
		return a.Config().Policy.SpendingRules(func(tool, pattern string) bool {
			return a.patternMatcher(a.toolNamed(tool))(pattern)
		})
	}}
}

// Elevate lets an identity call sensitive tools for some time; zero means the default of 15
// minutes.
func (a *App) Elevate(ctx context.Context, e policy.Elevation, lasts time.Duration) (*policy.Elevation, error) {
	granted, err := policy.NewElevation(a.Config().Tools, e, lasts, time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return nil, err
	}
	if err := a.checkElevated(ctx, e.Tools); err != nil {
		return nil, err
	}
	if err := a.store.AddElevation(ctx, granted); err != nil {
		return nil, err
	}
	a.log.Info("elevation granted", "id", granted.ID, "subject", granted.Subject, "agent", granted.Agent, "tools", granted.Tools, "by", granted.By, "expires", granted.Expires, "reason", granted.Reason)
	return granted, nil
}

// Elevations lists the current elevations.
func (a *App) Elevations(ctx context.Context) ([]*policy.Elevation, error) {
	return a.store.Elevations(ctx, "", time.Now())
}

// EndElevation ends an elevation.
func (a *App) EndElevation(ctx context.Context, id string) error {
	return a.store.EndElevation(ctx, id, time.Now())
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

// CheckSet returns an error if no tool set has this name. It accepts the empty name.
func (r *App) CheckSet(name string) error {
	sets := r.Config().Sets
	if _, ok := sets[name]; ok || name == "" {
		return nil
	}
	if near, ok := nearest.Of(name, slices.Collect(maps.Keys(sets))); ok {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no tool set %q (did you mean %s?)", name, near).WithHint("use %s", near)
	}
	e := toolroom.Errorf(toolroom.CodeNotFound, "there is no tool set %q", name)
	if len(sets) == 0 {
		return e.WithHint("the config has none: write it in the section sets")
	}
	return e.WithHint("the sets of the config are %s", strings.Join(slices.Sorted(maps.Keys(sets)), ", "))
}

// scopes holds the scopes that a tool requires of callers with a token of an authorization
// server, as patterns of tools by scope.
type scopes map[string][]policy.Pattern

func newScopes(c config.Server, tools policy.Config) (scopes, error) {
	needed := scopes{}
	if c.Auth.OAuth == nil {
		return needed, nil
	}
	for scope, patterns := range c.Auth.OAuth.Scopes {
		parsed, err := tools.ParsePatterns(patterns)
		if err != nil {
			return nil, err
		}
		needed[scope] = parsed
	}
	return needed, nil
}

// of returns the scopes that a tool requires.
func (s scopes) of(t *toolroom.Tool) []string {
	if len(s) == 0 {
		return nil
	}
	var needed []string
	for _, scope := range slices.Sorted(maps.Keys(s)) {
		if policy.MatchesTool(s[scope], t) {
			needed = append(needed, scope)
		}
	}
	return needed
}
