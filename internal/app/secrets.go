package app

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

// secretsKey returns the key of the encrypted file, or nil if the key is in a file next to
// it.
func (a *App) secretsKey(ctx context.Context, k config.SecretsKey) ([]byte, error) {
	var text, place string
	switch {
	case k.File != "":
		place = "secrets.key.file"
		data, err := os.ReadFile(a.resolvePath(k.File))
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %w", place, err)
		}
		text = string(data)
	case k.Env != "":
		place = "secrets.key.env"
		text, _ = a.lookupEnv(k.Env)
		if text == "" {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the variable %s is not set", place, k.Env)
		}
	case k.Keyring != "":
		place = "secrets.key.keyring"
		var err error
		if text, err = (&backend.Keyring{}).Key(ctx, k.Keyring); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	default:
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != secret.KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is not a key: it must be %d bytes in base64", place, secret.KeyBytes).
			WithHint("create one: head -c %d /dev/urandom | base64", secret.KeyBytes)
	}
	return key, nil
}

// resolverOptions returns the options of the config.
func (a *App) resolverOptions(s config.Secrets) secret.ResolverOptions {
	backends := map[string]secret.Backend{}
	for name, store := range s.Stores {
		backends[name] = a.secretBackend(store)
	}
	scopes := map[string]secret.Scope{}
	for name, scope := range s.Scopes {
		scopes[name] = secret.Scope{Backend: backends[scope.Store], Values: scope.Values}
	}
	return secret.ResolverOptions{
		Scopes: scopes, LookupEnv: a.lookupEnv, Variables: s.Variables, TTL: s.TTL, Log: a.log,
	}
}

func (a *App) secretBackend(s config.SecretStore) secret.Backend {
	switch {
	case s.Vault != nil:
		return backend.NewVault(a.vaultOptions(s.Vault))
	case s.Kubernetes != nil:
		k := s.Kubernetes
		return backend.NewKubernetes(backend.KubernetesOptions{
			Address: k.Address, Namespace: k.Namespace, TokenFile: k.TokenFile, CAFile: k.CAFile,
			Secret: secret.Template(k.Secret), Own: secret.Template(k.OwnSecret), Key: secret.Template(k.Key),
		})
	case s.Command != nil:
		return backend.NewCommand(backend.CommandOptions{
			Argv: templates(s.Command.Argv), Own: templates(s.Command.OwnArgv),
			Env: proc.Environ(a.o.Environ, s.Command.Env), Dir: a.resolvePath("."),
			Timeout: s.Command.Timeout, Owner: a.owner,
		})
	case s.Environment != nil:
		return backend.NewEnviron(backend.EnvironOptions{
			Variable: secret.Template(s.Environment.Variable), Allow: s.Environment.Allow, Lookup: a.lookupEnv,
		})
	default:
		return &backend.Keyring{Service: s.Keyring.Service}
	}
}

func (a *App) vaultOptions(v *config.VaultStore) backend.VaultOptions {
	o := backend.VaultOptions{
		Address: v.Address, Namespace: v.Namespace, Mount: v.Mount,
		Path: secret.Template(v.Path), Own: secret.Template(v.OwnPath), Field: secret.Template(v.Field),
	}
	switch {
	case v.AppRole != nil:
		o.AppRole = &backend.AppRole{Mount: v.AppRole.Mount, Role: v.AppRole.RoleID, Secret: a.credential(v.AppRole.SecretID)}
	case v.Kubernetes != nil:
		file := v.Kubernetes.TokenFile
		if file == "" {
			file = backend.TokenFile
		}
		o.Kubernetes = &backend.VaultKubernetes{Mount: v.Kubernetes.Mount, Role: v.Kubernetes.Role, TokenFile: file}
	default:
		o.Token = a.credential(v.Token)
	}
	return o
}

// credential returns a function that gets the credential of a secret store. The credential
// must be in the encrypted file or the environment: if it were in another secret store,
// opening the stores could loop.
func (a *App) credential(reference string) func(context.Context) (string, error) {
	first := secret.NewResolver(a.secrets, secret.ResolverOptions{LookupEnv: a.lookupEnv})
	return func(ctx context.Context) (string, error) {
		if reference == "" { // an AppRole may need no secret id
			return "", nil
		}
		return first.Resolve(ctx, reference)
	}
}

func templates(words []string) []secret.Template {
	out := make([]secret.Template, len(words))
	for i, word := range words {
		out[i] = secret.Template(word)
	}
	return out
}

// checkKeyrings checks whether a keyring of the config responds.
func (a *App) checkKeyrings(ctx context.Context) []Check {
	s := a.Config().Secrets
	used := s.Key.Keyring != ""
	for _, store := range s.Stores {
		used = used || store.Keyring != nil
	}
	if !used {
		return nil
	}
	c := Check{Name: "keyring", Status: CheckOK, Detail: "it responds"}
	if err := backend.ProbeKeyring(ctx); err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), toolroom.AsError(err).Hints()
	}
	return []Check{c}
}

// grants are, by namespace, restrictions of the tools and callers that may use the secrets
// of a source.
type grants map[string][]grant // by namespace

type grant struct {
	scope   string
	tools   []policy.Pattern
	callers []string
}

func newGrants(c *config.Config) (grants, error) {
	g, groups := grants{}, c.Tools.AllGroups()
	for name, s := range c.Sources {
		for _, scope := range s.Scopes() {
			rule, ok := c.Secrets.Scopes[scope]
			if !ok || len(rule.Tools)+len(rule.Callers) == 0 {
				continue
			}
			one := grant{scope: scope, callers: rule.Callers}
			for _, text := range rule.Tools {
				pattern, err := policy.ParsePattern(text, groups)
				if err != nil {
					return nil, err
				}
				one.tools = append(one.tools, pattern)
			}
			g[name] = append(g[name], one)
		}
	}
	return g, nil
}

// denyUngranted denies an allowed call that would use a secret which is not meant for the
// tool or caller.
func (g grants) denyUngranted(d policy.Decision, r policy.Request) policy.Decision {
	if d.Effect == toolroom.VerdictDeny {
		return d
	}
	for _, one := range g[r.Tool.ID.Namespace] {
		key := "secrets.scopes." + one.scope
		if len(one.tools) > 0 && !policy.MatchesTool(one.tools, r.Tool) {
			return d.WithStep(toolroom.PolicyStep{Layer: key, Effect: toolroom.VerdictDeny, Rule: key + ".tools: it does not name " + r.Tool.ID.String(), Hint: "the source uses that secret for each of its tools; add the tool there"})
		}
		if len(one.callers) > 0 && !one.covers(r.Who) {
			return d.WithStep(toolroom.PolicyStep{Layer: key, Effect: toolroom.VerdictDeny, Rule: key + ".callers: it does not name " + r.Who.Key(), Hint: "ask the operator for the grant"})
		}
	}
	return d
}

func (g grant) covers(who toolroom.Identity) bool {
	return slices.Contains(g.callers, who.Key()) || slices.ContainsFunc(who.Groups, func(group string) bool {
		return slices.Contains(g.callers, "group:"+group)
	})
}

// sealKey returns the key for sealing one kind of data that this home gives away and gets
// back. All processes of a home share it, also after a restart.
func (a *App) sealKey(use string) ([]byte, error) {
	path := filepath.Join(a.home, "seal.key")
	key, err := atomicfile.Key(path, approval.NewKey)
	if err != nil {
		return nil, err
	}
	if len(key) != approval.KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInternal, "%s does not contain a key", path).
			WithHint("remove the file: a new key is created, and earlier links and multi-round requests become invalid")
	}
	return hkdf.Key(sha256.New, key, nil, "toolroom "+use, approval.KeyBytes)
}

// StateKey returns the key that seals the state that MCP clients carry between the rounds
// of a call.
func (a *App) StateKey() ([]byte, error) { return a.sealKey("mcp state") }
