package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/secret"
)

// Secrets is the section "secrets": where secret values are stored, and who may use them.
type Secrets struct {
	// Key is the key of the encrypted file; by default it is in a file next to it.
	Key SecretsKey `yaml:"key,omitempty"`
	// TTL is how long values of other stores are cached (5m).
	TTL time.Duration `yaml:"ttl,omitempty"`
	// Variables lists the variables that env://NAME may name; empty allows all.
	Variables []string `yaml:"variables,omitempty"`
	// Stores are the stores besides the encrypted file.
	Stores map[string]SecretStore `yaml:"stores,omitempty"`
	// Scopes configures secret://SCOPE/…. A scope that is not listed is in the encrypted
	// file, shared, and available to all sources and callers.
	Scopes map[string]SecretScope `yaml:"scopes,omitempty"`
}

// SecretsKey sets the location of the key, which is 32 bytes in base64.
type SecretsKey struct {
	File string `yaml:"file,omitempty"`
	// Env is the name of a variable.
	Env string `yaml:"env,omitempty"`
	// Keyring is the user of an item of the service toolroom.
	Keyring string `yaml:"keyring,omitempty"`
}

// SecretScope configures one scope.
type SecretScope struct {
	// Store is one of Secrets.Stores; empty means the encrypted file.
	Store string `yaml:"store,omitempty"`
	// Values is shared (the default), own or own_or_shared.
	Values string `yaml:"values,omitempty"`
	// Sources lists the sources that may refer to the scope; empty means all.
	Sources []string `yaml:"sources,omitempty"`
	// Tools lists patterns of the tools that may be called if a source refers to the scope;
	// empty means all.
	Tools []string `yaml:"tools,omitempty"`
	// Callers lists the identities, or group:NAME, that may use it; empty means all.
	Callers []string `yaml:"callers,omitempty"`
}

// SecretStore is exactly one of Vault, Kubernetes, Command, Environment and Keyring.
type SecretStore struct {
	Vault       *VaultStore       `yaml:"vault,omitempty"`
	Kubernetes  *KubernetesStore  `yaml:"kubernetes,omitempty"`
	Command     *CommandStore     `yaml:"command,omitempty"`
	Environment *EnvironmentStore `yaml:"environment,omitempty"`
	Keyring     *KeyringStore     `yaml:"keyring,omitempty"`
}

// VaultStore is the KV engine, version 2, of a Vault or OpenBao. Path, OwnPath
// and Field are templates with {scope}, {name} and {identity}.
type VaultStore struct {
	Address   string `yaml:"address,omitempty"`
	Namespace string `yaml:"namespace,omitempty"`
	Mount     string `yaml:"mount,omitempty"`
	Path      string `yaml:"path,omitempty"`
	OwnPath   string `yaml:"own_path,omitempty"`
	Field     string `yaml:"field,omitempty"`
	// Token is a reference to the encrypted file or the environment.
	Token      string           `yaml:"token,omitempty"`
	AppRole    *VaultAppRole    `yaml:"approle,omitempty"`
	Kubernetes *VaultKubernetes `yaml:"kubernetes,omitempty"`
}

// VaultAppRole logs in with an AppRole. SecretID is a reference, like VaultStore.Token.
type VaultAppRole struct {
	Mount    string `yaml:"mount,omitempty"`
	RoleID   string `yaml:"role_id,omitempty"`
	SecretID string `yaml:"secret_id,omitempty"`
}

// VaultKubernetes logs in with the service account's token.
type VaultKubernetes struct {
	Mount     string `yaml:"mount,omitempty"`
	Role      string `yaml:"role,omitempty"`
	TokenFile string `yaml:"token_file,omitempty"`
}

// KubernetesStore reads the Secrets of a namespace. Secret, OwnSecret and Key are
// templates.
type KubernetesStore struct {
	Address   string `yaml:"address,omitempty"`
	Namespace string `yaml:"namespace,omitempty"`
	Secret    string `yaml:"secret,omitempty"`
	OwnSecret string `yaml:"own_secret,omitempty"`
	Key       string `yaml:"key,omitempty"`
	TokenFile string `yaml:"token_file,omitempty"`
	CAFile    string `yaml:"ca_file,omitempty"`
}

// CommandStore runs a program that prints the value. Argv and OwnArgv are lists of
// templates; they do not pass through a shell.
type CommandStore struct {
	Argv    []string          `yaml:"argv,omitempty"`
	OwnArgv []string          `yaml:"own_argv,omitempty"`
	Env     map[string]string `yaml:"env,omitempty"`
	Timeout time.Duration     `yaml:"timeout,omitempty"`
}

// EnvironmentStore reads variables of the environment. Variable is a template.
type EnvironmentStore struct {
	Variable string   `yaml:"variable,omitempty"`
	Allow    []string `yaml:"allow,omitempty"`
}

// KeyringStore reads the operating system's keyring.
type KeyringStore struct {
	Service string `yaml:"service,omitempty"`
}

func (c checker) checkSecrets(config *Config) {
	s := config.Secrets
	if n := count(s.Key.File != "", s.Key.Env != "", s.Key.Keyring != ""); n > 1 {
		c.addProblem("secrets.key", "it has more than one of file, env and keyring", "keep one")
	}
	for i, name := range s.Variables {
		if _, err := secret.ParseRef("env://" + name); err != nil {
			c.addProblem(fmt.Sprintf("secrets.variables[%d]", i), quote(name)+" is not the name of a variable", "for example GITHUB_TOKEN")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Stores)) {
		c.checkNamespace("secrets.stores."+name, name)
		c.checkSecretStore("secrets.stores."+name, s.Stores[name])
	}
	stores := slices.Sorted(maps.Keys(s.Stores))
	for _, name := range slices.Sorted(maps.Keys(s.Scopes)) {
		key, scope := "secrets.scopes."+name, s.Scopes[name]
		c.checkNamespace(key, name)
		if scope.Store != "" && !slices.Contains(stores, scope.Store) {
			c.addProblem(key+".store", "unknown store "+quote(scope.Store)+" in secrets.stores", hintNearest(scope.Store, stores))
		}
		c.requireOneOfOrEmpty(key+".values", scope.Values, secret.Shared, secret.Own, secret.OwnOrShared)
		c.checkPatterns(key+".tools", scope.Tools, config.Tools.AllGroups())
	}
	for _, name := range slices.Sorted(maps.Keys(config.Sources)) {
		c.checkScopesOf(name, config)
	}
}

// checkScopesOf refuses sources that refer to a scope that does not list them.
func (c checker) checkScopesOf(name string, config *Config) {
	source := config.Sources[name]
	for _, scope := range source.Scopes() {
		rule, ok := config.Secrets.Scopes[scope]
		if !ok {
			continue
		}
		if len(rule.Sources) > 0 && !slices.Contains(rule.Sources, name) {
			c.addProblem("sources."+name, "it refers to secret://"+scope+"/…, which does not list it", "add "+name+" to secrets.scopes."+scope+".sources")
		}
		if rule.Values == secret.Own && (source.MCP != nil || source.CLI != nil) {
			c.addProblem("sources."+name, "it serves all callers at once, and secret://"+scope+"/… has values of each caller", "use values: own_or_shared, or a source of kind http, openapi or graphql")
		}
	}
}

func (c checker) checkSecretStore(key string, s SecretStore) {
	const kinds = "vault, kubernetes, command, environment and keyring"
	switch n := count(s.Vault != nil, s.Kubernetes != nil, s.Command != nil, s.Environment != nil, s.Keyring != nil); {
	case n == 0:
		c.addProblem(key, "one of "+kinds+" is missing", `for example {vault: {address: "https://vault.example.com:8200", token: "env://VAULT_TOKEN"}}`)
	case n > 1:
		c.addProblem(key, "it has more than one of "+kinds, "make a store of each")
	}
	if s.Vault != nil {
		c.checkVault(key+".vault", s.Vault)
	}
	if k := s.Kubernetes; k != nil {
		if k.Address != "" && !strings.HasPrefix(k.Address, "https://") {
			c.addProblem(key+".kubernetes.address", "it is not an https URL", "for example https://kubernetes.default.svc")
		}
		c.requireIdentity(key+".kubernetes.own_secret", k.OwnSecret)
	}
	if k := s.Command; k != nil {
		if len(k.Argv) == 0 || k.Argv[0] == "" || strings.Contains(k.Argv[0], "{") {
			c.addProblem(key+".command.argv", "the program is missing", `for example [pass, show, "{scope}/{name}"]`)
		}
		if len(k.OwnArgv) > 0 {
			c.requireIdentity(key+".command.own_argv", strings.Join(k.OwnArgv, " "))
		}
		c.rejectReferences(key+".command.argv", k.Argv...)
		c.rejectReferences(key+".command.env", slices.Collect(maps.Values(k.Env))...)
		c.checkEnv(key+".command.env", k.Env)
	}
	if k := s.Environment; k != nil && len(k.Allow) == 0 {
		c.addProblem(key+".environment.allow", "the variables are missing", "for example [GITHUB_TOKEN]")
	}
}

func (c checker) checkVault(key string, v *VaultStore) {
	c.checkWebURL(key+".address", v.Address)
	if count(v.Token != "", v.AppRole != nil, v.Kubernetes != nil) != 1 {
		c.addProblem(key, "it needs one of token, approle and kubernetes", `for example token: "env://VAULT_TOKEN"`)
	}
	c.requireReference(key+".token", v.Token)
	if a := v.AppRole; a != nil {
		if a.RoleID == "" {
			c.addProblem(key+".approle", "role_id is missing", "")
		}
		c.requireReference(key+".approle.secret_id", a.SecretID)
	}
	if k := v.Kubernetes; k != nil && k.Role == "" {
		c.addProblem(key+".kubernetes", "role is missing", "")
	}
	c.requireIdentity(key+".own_path", v.OwnPath)
}

// rejectReferences refuses references in places where they would not be resolved or would be visible
// to others: every user of a machine can read its command lines.
func (c checker) rejectReferences(key string, words ...string) {
	for _, word := range words {
		if len(secret.References(word)) > 0 {
			c.addProblem(key, "a secret does not belong here, where others can see it", "give it to the program through env, or to a service through headers")
			return
		}
	}
}

// requireReference refuses plaintext values.
func (c checker) requireReference(key, value string) {
	if value == "" {
		return
	}
	if _, err := secret.ParseRef(value); err != nil {
		c.addProblem(key, "it is not a reference", "write env://NAME, or secret://scope/name and toolroom secret set scope/name")
	}
}

// requireIdentity refuses a template for own values that is the same for all callers.
func (c checker) requireIdentity(key, template string) {
	if template != "" && !secret.Template(template).HasIdentity() {
		c.addProblem(key, "it has no {identity}, so that all callers would share it", "for example users/{identity}/{scope}")
	}
}

func count(set ...bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}
