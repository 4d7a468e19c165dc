// Package config reads toolroom.yaml: [Find] the file, [Load] it, [Watch] it.
// Decoding is strict and reports every mistake at once, each with its line, its
// key and the nearest right key. The wire form of every section is here; what
// the sections mean is for the packages that are made from them.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom/internal/policy"
)

// MaxFile is the largest config, in bytes.
const MaxFile = 1 << 20

// fileName is what Find looks for.
const fileName = "toolroom.yaml"

// Config is toolroom.yaml. One that Load or Parse returned is valid and has its
// defaults; do not change it.
type Config struct {
	Server    Server        `yaml:"server,omitempty"`
	Store     Store         `yaml:"store,omitempty"`
	Expose    Expose        `yaml:"expose,omitempty"`
	Tools     policy.Config `yaml:"tools,omitempty"`
	Policy    Policy        `yaml:"policy,omitempty"`
	CLI       CLI           `yaml:"cli,omitempty"`
	Code      Code          `yaml:"code,omitempty"`
	Limits    Limits        `yaml:"limits,omitempty"`
	Approvals Approvals     `yaml:"approvals,omitempty"`
	Receipts  Receipts      `yaml:"receipts,omitempty"`
	Results   Quota         `yaml:"results,omitempty"`
	Artifacts Quota         `yaml:"artifacts,omitempty"`
	Egress    Egress        `yaml:"egress,omitempty"`
	Secrets   Secrets       `yaml:"secrets,omitempty"`
	// Sources are the places that tools come from; the key is the namespace.
	Sources map[string]Source `yaml:"sources,omitempty"`
}

// Server is the section "server".
type Server struct {
	// Listen is host:port (127.0.0.1:7070).
	Listen string `yaml:"listen,omitempty"`
	// URL is where clients reach the server, such as https://tools.example.com.
	URL  string `yaml:"url,omitempty"`
	Auth Auth   `yaml:"auth,omitempty"`
	// Origins are web origins that may call besides the server's own.
	Origins []string `yaml:"origins,omitempty"`
	TLS     TLS      `yaml:"tls,omitempty"`
	// MaxBody is the largest request body, in bytes (8 MiB).
	MaxBody int64    `yaml:"max_body,omitempty"`
	MCP     Endpoint `yaml:"mcp,omitempty"`
}

// Endpoint is how clients of older revisions of MCP are served.
type Endpoint struct {
	// PollAfter closes the stream of a call that has run for so long; the client
	// comes back for the rest. Zero, the default, never does.
	PollAfter time.Duration `yaml:"poll_after,omitempty"`
	// SSE serves clients of 2024-11-05 at /sse (off).
	SSE bool `yaml:"sse,omitempty"`
}

// Auth says who must show a token: with auto (the default) clients that do not
// come over the loopback interface, else always or never.
type Auth struct {
	Required string `yaml:"required,omitempty"`
	OAuth    *OAuth `yaml:"oauth,omitempty"`
}

// OAuth makes the server take access tokens of authorization servers, besides
// its own.
type OAuth struct {
	// Issuers are the authorization servers, as their metadata names them.
	Issuers []string `yaml:"issuers,omitempty"`
	// Resource is the URL that tokens must be for; empty is the server's url
	// with /mcp behind.
	Resource string `yaml:"resource,omitempty"`
	// GroupsClaim names the claim with a caller's groups; empty reads none.
	GroupsClaim string `yaml:"groups_claim,omitempty"`
	// Required are scopes that every request needs.
	Required []string `yaml:"required_scopes,omitempty"`
	// Scopes are needed for the tools that their patterns match.
	Scopes map[string][]string `yaml:"scopes,omitempty"`
}

// TLS names a certificate and its key, both PEM files, or neither.
type TLS struct {
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
}

// Store is the section "store". URL is sqlite:FILE, relative to Toolroom's home
// (sqlite:toolroom.db), or postgres://….
type Store struct {
	URL string `yaml:"url,omitempty"`
}

// Expose says how MCP clients see the tools: mode direct (the default) shows
// them as they are, search shows four tools to find and call them with, code
// shows one that runs programs. Direct and Search are patterns of tools that
// are shown in that way whatever the mode; Hidden ones are not shown at all.
type Expose struct {
	Mode   string   `yaml:"mode,omitempty"`
	Direct []string `yaml:"direct,omitempty"`
	Search []string `yaml:"search,omitempty"`
	Hidden []string `yaml:"hidden,omitempty"`
	// PerSource adds a search tool for each source, such as search_github_tools.
	PerSource bool `yaml:"per_source,omitempty"`
	// Names is as in [Source], for all tools.
	Names string `yaml:"names,omitempty"`
}

// CLI says which programs may be tools without a source of their own: none
// (disabled), those in Allow (allowlist, the default), or all (ambient).
type CLI struct {
	Mode  string   `yaml:"mode,omitempty"`
	Allow []string `yaml:"allow,omitempty"`
}

// Default is the config of an empty file.
func Default() *Config {
	c := &Config{}
	c.fill()
	return c
}

// Load reads and checks the file at path. A missing file is fs.ErrNotExist;
// mistakes are an [*Errors].
func Load(path string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse checks the text of a config; name stands for it in errors, which are an
// [*Errors]. An empty text is [Default].
func Parse(name string, data []byte) (*Config, error) {
	d := &decoder{problems: problems{file: name}, places: map[string]place{}}
	c := &Config{}
	if root := d.parse(data); root != nil {
		d.decode(root, valueOf(c), "")
	}
	c.fill()
	check{d, d.found}.config(c)
	if len(d.found) > 0 {
		return nil, d.errors()
	}
	return c, nil
}

// Find gives the path of the config: explicit when it is not empty, else
// toolroom.yaml in the folder cwd, else the user's, toolroom/toolroom.yaml in
// userConfigDir. When there is none, the error is fs.ErrNotExist and path is
// where one would be made.
func Find(explicit, cwd, userConfigDir string) (path string, err error) {
	places := []string{filepath.Join(cwd, fileName)}
	switch {
	case explicit != "":
		places = []string{explicit}
	case userConfigDir != "":
		places = append(places, filepath.Join(userConfigDir, "toolroom", fileName))
	}
	var missing error
	for _, path := range places {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return path, fmt.Errorf("the config cannot be read: %w", err)
		}
		missing = errors.Join(missing, err)
	}
	return places[0], fmt.Errorf("there is no config, make one with toolroom init: %w", missing)
}

func (c *Config) fill() {
	fill(&c.Server.Listen, "127.0.0.1:7070")
	fill(&c.Server.Auth.Required, "auto")
	fill(&c.Server.MaxBody, 8<<20)
	fill(&c.Store.URL, "sqlite:toolroom.db")
	fill(&c.Expose.Mode, "direct")
	fill(&c.CLI.Mode, "allowlist")
	fill(&c.Egress.Mode, egressPublic)
	fill(&c.Egress.Network, NetworkHost)
	c.Limits.fill()
	c.Approvals.fill()
	c.Receipts.fill()
	c.Results.fill(defaultResults)
	c.Artifacts.fill(defaultArtifacts)
}

func fill[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Parse says so when it is too much.
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}
