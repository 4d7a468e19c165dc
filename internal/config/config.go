// Package config reads toolroom.yaml: [Find] locates the file, [Load] reads it and [WatchVerified]
// follows its changes. Decoding is strict and reports all mistakes at once, each with its
// line, its key and the nearest valid key. This package defines the form of every section;
// the packages that the sections configure define their meaning.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/policy"
)

// MaxFile is the maximum size of a config, in bytes.
const MaxFile = 1 << 20

// FileName is the file name that Find looks for.
const FileName = "toolroom.yaml"

// Config is the content of toolroom.yaml. A Config from Load or Parse is valid and includes
// all defaults. Do not modify it.
type Config struct {
	Server    Server         `yaml:"server,omitempty"`
	Store     Store          `yaml:"store,omitempty"`
	Expose    Expose         `yaml:"expose,omitempty"`
	Sets      map[string]Set `yaml:"sets,omitempty"`
	Search    Search         `yaml:"search,omitempty"`
	Tools     policy.Config  `yaml:"tools,omitempty"`
	Policy    Policy         `yaml:"policy,omitempty"`
	CLI       CLI            `yaml:"cli,omitempty"`
	Code      Code           `yaml:"code,omitempty"`
	Limits    Limits         `yaml:"limits,omitempty"`
	Approvals Approvals      `yaml:"approvals,omitempty"`
	Receipts  Receipts       `yaml:"receipts,omitempty"`
	Releases  Releases       `yaml:"releases,omitempty"`
	Results   Quota          `yaml:"results,omitempty"`
	Artifacts Quota          `yaml:"artifacts,omitempty"`
	Egress    Egress         `yaml:"egress,omitempty"`
	Secrets   Secrets        `yaml:"secrets,omitempty"`
	Builtin   Builtin        `yaml:"builtin,omitempty"`
	// Sources are the tool sources by namespace.
	Sources map[string]Source `yaml:"sources,omitempty"`
}

// Server is the section "server".
type Server struct {
	// Listen is host:port (127.0.0.1:7070).
	Listen string `yaml:"listen,omitempty"`
	// URL is the address at which clients reach the server, such as
	// https://tools.example.com.
	URL string `yaml:"url,omitempty"`
	// Hosts are additional names of the server. A request without a token must name one of
	// them, this machine, or the host of URL.
	Hosts []string `yaml:"hosts,omitempty"`
	Auth  Auth     `yaml:"auth,omitempty"`
	// Origins are web origins that may call, besides the server's own.
	Origins []string `yaml:"origins,omitempty"`
	TLS     TLS      `yaml:"tls,omitempty"`
	// MaxBody is the maximum size of a request body, in bytes (8 MiB).
	MaxBody int64    `yaml:"max_body,omitempty"`
	MCP     Endpoint `yaml:"mcp,omitempty"`
	// ToolFlow serves the routes of a ToolFlow server at /compat/toolflow (off).
	ToolFlow bool `yaml:"toolflow,omitempty"`
}

// Endpoint configures the service for clients of older MCP revisions.
type Endpoint struct {
	// PollAfter closes the stream of a call that has run for this time; the client
	// reconnects for the rest. Zero, the default, never closes it.
	PollAfter time.Duration `yaml:"poll_after,omitempty"`
	// SSE serves clients of 2024-11-05 at /sse (off).
	SSE bool `yaml:"sse,omitempty"`
}

// Auth sets who must send a token: with auto (the default) clients that do not connect over
// the loopback interface, else always or never.
type Auth struct {
	Required string `yaml:"required,omitempty"`
	OAuth    *OAuth `yaml:"oauth,omitempty"`
	// Login is where people sign in to open the page from other machines, besides with a
	// token.
	Login *Login `yaml:"login,omitempty"`
}

// Login is an OpenID Connect provider. It must redirect to the server's url followed by
// /login/callback.
type Login struct {
	Issuer   string `yaml:"issuer,omitempty"`
	ClientID string `yaml:"client_id,omitempty"`
	// ClientSecret is a reference to a secret; empty means a public client.
	ClientSecret string `yaml:"client_secret,omitempty"`
	// Scopes are requested besides openid.
	Scopes []string `yaml:"scopes,omitempty"`
	// GroupsClaim is the name of the claim that contains a person's groups; empty reads
	// none.
	GroupsClaim string `yaml:"groups_claim,omitempty"`
}

// OAuth makes the server accept access tokens of authorization servers, besides its own.
type OAuth struct {
	// Issuers are the authorization servers, as named in their metadata.
	Issuers []string `yaml:"issuers,omitempty"`
	// Resource is the URL that tokens must be issued for; empty means the server's url
	// followed by /mcp.
	Resource string `yaml:"resource,omitempty"`
	// GroupsClaim is the name of the claim that contains a caller's groups; empty reads
	// none.
	GroupsClaim string `yaml:"groups_claim,omitempty"`
	// SetClaim is the name of the claim that names the tool set to which a token is bound;
	// empty reads none.
	SetClaim string `yaml:"set_claim,omitempty"`
	// Required lists scopes that every request needs.
	Required []string `yaml:"required_scopes,omitempty"`
	// Scopes lists the scopes that tools need, by pattern.
	Scopes map[string][]string `yaml:"scopes,omitempty"`
}

// TLS names a certificate and its key, both PEM files. Both or neither are set.
type TLS struct {
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
}

// Store is the section "store". URL is sqlite:FILE, relative to Toolroom's home
// (sqlite:toolroom.db), or postgres://….
type Store struct {
	URL string `yaml:"url,omitempty"`
}

// Expose sets how MCP clients see the tools. Mode direct shows them as they are, search
// shows four tools to find and call the others, and code shows one tool that runs programs.
// Mode auto (the default) is direct for callers who see few tools, and search for others. Direct and Search are patterns of tools that are shown that way in any
// mode; Hidden tools are not shown at all.
type Expose struct {
	Mode   string   `yaml:"mode,omitempty"`
	Direct []string `yaml:"direct,omitempty"`
	Search []string `yaml:"search,omitempty"`
	Hidden []string `yaml:"hidden,omitempty"`
	// PerSource adds a search tool for each source, such as search_github_tools.
	PerSource bool `yaml:"per_source,omitempty"`
	// Names is like Source.Names, but for all tools.
	Names string `yaml:"names,omitempty"`
}

// Set is a tool set: the tools that some MCP clients see and may call, at /mcp/p/NAME.
type Set struct {
	// Description says what the set is for, to people.
	Description string `yaml:"description,omitempty"`
	// Rules narrow what the section "tools" permits.
	policy.Rules `yaml:",inline"`
	// Expose is how its clients see the tools. Tools that are hidden from all clients are
	// hidden here, too; Names counts for all clients and cannot be set here.
	Expose Expose `yaml:"expose,omitempty"`
}

// Layers returns the layers of policy: the section "tools", and those of the tool sets.
func (c *Config) Layers() policy.Config {
	layers := c.Tools
	layers.Sets = nil
	for name, set := range c.Sets {
		if layers.Sets == nil {
			layers.Sets = map[string]policy.Rules{}
		}
		layers.Sets[name] = set.Rules
	}
	return layers
}

// CLI sets which programs may be tools without their own source: none (disabled), those in
// Allow (allowlist, the default), or all (ambient).
type CLI struct {
	Mode  string   `yaml:"mode,omitempty"`
	Allow []string `yaml:"allow,omitempty"`
}

// Default returns the config of an empty file.
func Default() *Config {
	c := &Config{}
	c.fill()
	return c
}

// Verify is called with the content of a config, or of a file that it names, before the content
// is used. It returns an error if the content must not be used.
type Verify func(path string, text []byte) error

// Load reads and validates the file at path. If the file does not exist, the error is
// fs.ErrNotExist; mistakes are an [*Errors].
func Load(path string) (*Config, error) { return LoadVerified(path, nil) }

// LoadVerified is like Load for a file that verify, if not nil, must accept.
func LoadVerified(path string, verify Verify) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parseVerified(path, data, verify)
}

func parseVerified(path string, data []byte, verify Verify) (*Config, error) {
	c, err := Parse(path, data)
	if err == nil && verify != nil {
		err = verify(path, data)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Parse validates the text of a config. Errors, which are an [*Errors], refer to it as
// name. An empty text is [Default].
func Parse(name string, data []byte) (*Config, error) {
	d := &decoder{problems: problems{file: name}, positions: map[string]position{}}
	c := &Config{}
	if root := d.parse(data); root != nil {
		d.decode(root, valueOf(c), "")
	}
	c.fill()
	checker{d, d.found}.checkConfig(c)
	if len(d.found) > 0 {
		return nil, d.errors()
	}
	return c, nil
}

// Find returns the path of the config: explicit if it is not empty, else toolroom.yaml in
// the folder cwd, else the user's toolroom/toolroom.yaml in userConfigDir. If there is
// none, the error is fs.ErrNotExist, and path is where one would be created.
func Find(explicit, cwd, userConfigDir string) (path string, err error) {
	places := []string{filepath.Join(cwd, FileName)}
	switch {
	case explicit != "":
		places = []string{explicit}
	case userConfigDir != "":
		places = append(places, filepath.Join(userConfigDir, "toolroom", FileName))
	}
	var missing error
	for _, path := range places {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return path, fmt.Errorf("cannot read the config: %w", err)
		}
		missing = errors.Join(missing, err)
	}
	return places[0], fmt.Errorf("no config found, create one with toolroom init: %w", missing)
}

// Source returns the source name. A nil Config has none.
func (c *Config) Source(name string) (Source, bool) {
	if c == nil {
		return Source{}, false
	}
	s, ok := c.Sources[name]
	return s, ok
}

func (c *Config) fill() {
	c.Server.Listen = cmp.Or(c.Server.Listen, "127.0.0.1:7070")
	c.Server.Auth.Required = cmp.Or(c.Server.Auth.Required, "auto")
	c.Server.MaxBody = cmp.Or(c.Server.MaxBody, 8<<20)
	c.Store.URL = cmp.Or(c.Store.URL, "sqlite:toolroom.db")
	c.Expose.Mode = cmp.Or(c.Expose.Mode, "auto")
	for name, set := range c.Sets {
		set.Expose.Mode = cmp.Or(set.Expose.Mode, "auto")
		c.Sets[name] = set
	}
	c.CLI.Mode = cmp.Or(c.CLI.Mode, "allowlist")
	c.Egress.Mode = cmp.Or(c.Egress.Mode, egressPublic)
	c.Egress.Network = cmp.Or(c.Egress.Network, NetworkHost)
	c.Limits.fill()
	c.Approvals.fill()
	c.Receipts.fill()
	c.Releases.fill()
	c.Results.fill(defaultResults)
	c.Artifacts.fill(defaultArtifacts)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Parse reports a file that is too large.
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// Files returns the files that the config names and whose content decides what may run and
// where it connects: rules, manifests of skills, and OpenAPI documents that are not URLs.
// Relative paths are relative to the config. The programs that sources run are not among
// them.
func (c *Config) Files() []string {
	files := c.PolicyFiles()
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if o := c.Sources[name].OpenAPI; o != nil && !strings.HasPrefix(o.Spec, "http://") && !strings.HasPrefix(o.Spec, "https://") {
			files = append(files, o.Spec)
		}
	}
	return files
}

// PolicyFiles returns the files of rules and the manifests of skills.
func (c *Config) PolicyFiles() []string {
	var files []string
	for _, item := range c.Policy.Rules {
		if IsRuleFile(item) {
			files = append(files, item)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Skills)) {
		if manifest := c.Tools.Skills[name].Manifest; manifest != "" {
			files = append(files, manifest)
		}
	}
	return files
}

// Search is the section "search": how searches find tools.
type Search struct {
	// Learn is whether searches learn from the calls that follow them (true).
	Learn *bool `yaml:"learn,omitempty"`
	// Embedder is the name of the embedder, or none. The default is the one that was added
	// last.
	Embedder string `yaml:"embedder,omitempty"`
	// Weight is how much meaning counts beside words, which count 1 (1).
	Weight float64 `yaml:"weight,omitempty"`
	// Wait is how long a search waits for the vector of its query (300 ms).
	Wait time.Duration `yaml:"wait,omitempty"`
}

// NoEmbedder is the value of Search.Embedder that turns embedders off.
const NoEmbedder = "none"

// Learns reports whether searches learn.
func (s Search) Learns() bool { return s.Learn == nil || *s.Learn }

func (c checker) checkSearch(s Search) {
	if s.Weight > 10 {
		c.addProblem("search.weight", "the weight of meaning must be from 0 to 10", "for example 1")
	}
	if s.Wait > time.Minute {
		c.addProblem("search.wait", "a search waits for at most a minute", "for example 300ms")
	}
}
