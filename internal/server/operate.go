package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/server/api"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

// operator changes a room and its config file on behalf of operators, as the command line
// does.
type operator struct {
	room *app.App
	mcp  *mcpserver.Server
	o    Options
}

func (op *operator) Record(ctx context.Context, what string, arguments any, who toolroom.Identity, refused error) error {
	return op.room.RecordAdmin(ctx, what, arguments, who, refused)
}

func (op *operator) Reload() (api.Reloaded, error) {
	out, err := reloadNow(op.room, op.mcp, op.o)
	return api.Reloaded(out), invalidConfig(err, "correct the file; the previous config stays in force")
}

// invalidConfig reports mistakes of a config as invalid arguments of the caller.
func invalidConfig(err error, hint string) error {
	if mistakes := (*config.Errors)(nil); errors.As(err, &mistakes) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%w", err).WithHint("%s", hint)
	}
	return err
}

// invalidSection is like invalidConfig, for a section that came as JSON. It leaves out lines
// and columns, which mean nothing there.
func invalidSection(err error) error {
	mistakes := (*config.Errors)(nil)
	if !errors.As(err, &mistakes) {
		return err
	}
	var texts []string
	for _, p := range mistakes.Problems {
		text := p.Key + ": " + p.Reason
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		texts = append(texts, strings.TrimPrefix(text, ": "))
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s", strings.Join(texts, "; ")).WithHint(unchanged)
}

const unchanged = "the config file was not changed"

// file returns the config file.
func (op *operator) file() (string, error) {
	if op.o.ConfigFile == "" {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "the server has no config file")
	}
	return op.o.ConfigFile, nil
}

func (op *operator) wrote() []config.EditHook {
	if op.o.Wrote == nil {
		return nil
	}
	return []config.EditHook{op.o.Wrote(op.o.ConfigFile)}
}

// section parses the section of a source, and moves values that look like secrets
// to the store. It returns their references.
func (op *operator) section(name string, section json.RawMessage) (config.Source, map[string]string, error) {
	var s config.Source
	if (toolroom.ID{Namespace: name, Name: name}).Validate() != nil {
		return s, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not the name of a source: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -", name)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, section); err != nil {
		return s, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the source is not JSON: %w", err)
	}
	if config.HasHidden(text.Bytes()) {
		return s, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the source has a value that is hidden when it is shown").
			WithHint("write the value itself, or a reference such as secret://%s/token", config.CleanRef(name))
	}
	s, err := config.ParseSource(name, text.Bytes())
	if err != nil {
		return s, nil, invalidSection(err)
	}
	s, secrets := config.LiftSecrets(name, s)
	return s, secrets, nil
}

func (op *operator) AddSource(ctx context.Context, name string, section json.RawMessage, force bool) ([]string, error) {
	file, err := op.file()
	if err != nil {
		return nil, err
	}
	if _, exists := op.room.Config().Sources[name]; exists && !force {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "source %s already exists", name).WithHint("replace it with force, or edit it")
	}
	s, secrets, err := op.section(name, section)
	if err != nil {
		return nil, err
	}
	// A source that is not added must not change the secrets of the one that exists.
	ready := func() error { return op.room.StoreSecrets(ctx, secrets, force) }
	if err := config.AddSource(file, name, s, force, ready, op.wrote()...); err != nil {
		return nil, invalidConfig(err, unchanged)
	}
	_, err = op.Reload()
	return slices.Sorted(maps.Keys(secrets)), err
}

func (op *operator) EditSource(ctx context.Context, name string, section json.RawMessage) ([]string, error) {
	file, err := op.file()
	if err != nil {
		return nil, err
	}
	var secrets map[string]string
	err = config.ChangeSource(file, name, func(config.Source) (s config.Source, err error) {
		s, secrets, err = op.section(name, section)
		return s, err
	}, func() error { return op.room.StoreSecrets(ctx, secrets, true) }, op.wrote()...)
	if err != nil {
		return nil, invalidConfig(err, unchanged)
	}
	_, err = op.Reload()
	return slices.Sorted(maps.Keys(secrets)), err
}

func (op *operator) SwitchSource(_ context.Context, name string, enabled bool) error {
	file, err := op.file()
	if err != nil {
		return err
	}
	err = config.ChangeSource(file, name, func(s config.Source) (config.Source, error) {
		s.Disabled = !enabled
		return s, nil
	}, nil, op.wrote()...)
	if err != nil {
		return invalidConfig(err, unchanged)
	}
	_, err = op.Reload()
	return err
}

func (op *operator) RemoveSource(_ context.Context, name string) error {
	file, err := op.file()
	if err != nil {
		return err
	}
	if err := config.RemoveSource(file, name, op.wrote()...); err != nil {
		return invalidConfig(err, unchanged)
	}
	_, err = op.Reload()
	return err
}

func (op *operator) DisabledSources() []api.Source {
	var out []api.Source
	for _, s := range op.room.DisabledSources() {
		out = append(out, api.Source(s))
	}
	return out
}

func (op *operator) RestartSource(name string) error { return op.room.RestartSource(name) }

func (op *operator) TestSource(ctx context.Context, name string) (api.SourceTest, error) {
	test, err := op.room.TestSource(ctx, name)
	if err != nil {
		return api.SourceTest{}, err
	}
	out := api.SourceTest{Source: api.Source(test.Status), TookMS: test.Took.Milliseconds(), Quarantined: test.Quarantined, Problems: test.Problems, LeftOut: test.LeftOut}
	for _, f := range test.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	return out, nil
}

func (op *operator) SourceConfig(name string) (map[string]any, bool) {
	s, ok := op.room.Config().Sources[name]
	if !ok {
		return nil, false
	}
	tree, err := config.RedactedSource(s)
	return tree, err == nil
}

func (op *operator) Secrets() ([]api.SecretName, error) {
	refs, err := op.room.Parts().Secrets.List()
	if err != nil {
		return nil, err
	}
	var out []api.SecretName
	for _, ref := range refs {
		out = append(out, api.SecretName{Scope: ref.Scope, Name: ref.Name, Owner: ref.Owner, Reference: ref.String()})
	}
	return out, nil
}

func refOf(n api.SecretName) (secret.Ref, error) {
	ref, err := secret.ParsePath(n.Scope + "/" + n.Name)
	return ref.Of(n.Owner), err
}

func (op *operator) SetSecret(ctx context.Context, n api.SecretName, value string) error {
	ref, err := refOf(n)
	if err != nil {
		return err
	}
	return op.room.Parts().Secrets.Set(ctx, ref, value)
}

func (op *operator) RemoveSecret(ctx context.Context, n api.SecretName) error {
	ref, err := refOf(n)
	if err != nil {
		return err
	}
	return op.room.Parts().Secrets.Remove(ctx, ref)
}

func (op *operator) VerifyReceipts(ctx context.Context) (int64, error) {
	return op.room.VerifyReceipts(ctx)
}

func (op *operator) Config() (string, map[string]any, error) {
	tree, err := config.Redacted(op.room.Config())
	return op.o.ConfigFile, tree, err
}

func (op *operator) CheckConfig() (api.ConfigCheck, error) {
	file, err := op.file()
	if err != nil {
		return api.ConfigCheck{}, err
	}
	out := api.ConfigCheck{File: file, Problems: []api.ConfigProblem{}, Warnings: []api.ConfigProblem{}, Changed: []string{}, Restart: []string{}}
	c, err := config.LoadVerified(file, op.o.Verify)
	if err == nil {
		_, _, policyErr := app.Policy(c, file)
		err = errors.Join(app.CheckConfig(c), CheckConfig(c), policyErr)
	}
	if mistakes := (*config.Errors)(nil); errors.As(err, &mistakes) {
		for _, p := range mistakes.Problems {
			out.Problems = append(out.Problems, api.ConfigProblem{Line: p.Line, Column: p.Column, Key: p.Key, Reason: p.Reason, Hint: p.Hint})
		}
		return out, nil
	}
	if err != nil {
		e := toolroom.AsError(err)
		out.Problems = append(out.Problems, api.ConfigProblem{Reason: e.Message, Hint: e.Hint})
		return out, nil
	}
	out.OK = true
	for _, s := range c.PlainSecrets() {
		out.Warnings = append(out.Warnings, api.ConfigProblem{Key: s.Key, Reason: "it seems to hold a secret in plain text", Hint: "store it, and refer to it as secret://SCOPE/NAME"})
	}
	for _, m := range app.FindMissing(c, file) {
		out.Warnings = append(out.Warnings, api.ConfigProblem{Key: m.Key, Reason: m.Reason, Hint: m.Hint})
	}
	for _, u := range op.room.Unmatched() {
		out.Warnings = append(out.Warnings, api.ConfigProblem{Key: u.Key, Reason: u.String(), Hint: u.Hint()})
	}
	out.Changed, out.Restart = differences(op.room, c, op.room.Config())
	return out, nil
}

// differences returns the keys of a config that a reload changes, and those that take effect
// only after a restart.
func differences(r *app.App, c, before *config.Config) (changed, restart []string) {
	changed, restart = []string{}, append([]string{}, r.NeedsRestart(c)...)
	for _, key := range c.Changed(before) {
		if !slices.Contains(restart, key) {
			changed = append(changed, key)
		}
	}
	return changed, restart
}
