// Package servers knows MCP servers by name. Its catalogue is in the format of the public MCP
// registry (server.json): a list that is part of Toolroom, and one that a person has fetched,
// which adds to it.
package servers

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// Server is a server.json: what a server is, and the ways to start or reach it.
type Server struct {
	// Name is the name in the registry, such as io.github.github/github-mcp-server.
	Name        string    `json:"name"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Version     string    `json:"version,omitempty"`
	Packages    []Package `json:"packages,omitempty"`
	Remotes     []Remote  `json:"remotes,omitempty"`
	Meta        struct {
		Ours Meta `json:"io.github.toolroom/toolroom,omitzero"`
	} `json:"_meta,omitzero"`
}

// Meta holds what Toolroom's own list adds to a server.
type Meta struct {
	// Name is the short name by which people add the server.
	Name string `json:"name,omitempty"`
	// Hosts are the hosts that a package of the server must reach.
	Hosts []string `json:"hosts,omitempty"`
}

// Package is a way to start a server on this machine.
type Package struct {
	RegistryType string     `json:"registryType"`
	Identifier   string     `json:"identifier"`
	Version      string     `json:"version,omitempty"`
	Transport    transport  `json:"transport,omitzero"`
	Arguments    []Argument `json:"packageArguments,omitempty"`
	Environment  []Input    `json:"environmentVariables,omitempty"`
}

type transport struct {
	Type string `json:"type,omitempty"`
}

// Remote is the endpoint of a server.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Input          `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// Input is a value that a server takes: a variable, or a header.
type Input struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"isRequired,omitempty"`
	Secret      bool   `json:"isSecret,omitempty"`
	Format      string `json:"format,omitempty"`
	// Value is fixed; {NAME} in it stands for one of Variables.
	Value     string           `json:"value,omitempty"`
	Default   string           `json:"default,omitempty"`
	Choices   []string         `json:"choices,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// Argument is an argument of a package: positional, or named with a flag in Name.
type Argument struct {
	Input
	Type      string `json:"type"`
	ValueHint string `json:"valueHint,omitempty"`
	Repeated  bool   `json:"isRepeated,omitempty"`
}

// Short returns the name by which people add the server.
func (s *Server) Short() string {
	if s.Meta.Ours.Name != "" {
		return s.Meta.Ours.Name
	}
	name := s.Name[strings.LastIndexByte(s.Name, '/')+1:]
	for _, affix := range []string{"-mcp-server", "-mcp", "-server"} {
		name = strings.TrimSuffix(name, affix)
	}
	for _, affix := range []string{"mcp-server-", "mcp-", "server-"} {
		name = strings.TrimPrefix(name, affix)
	}
	return strings.ToLower(cmp.Or(name, "server"))
}

// Kinds returns the kinds of packages and remotes that Toolroom can use, best first.
func (s *Server) Kinds() []string {
	var ways []string
	for _, kind := range []string{KindRemote, KindNPM, KindPyPI, KindOCI} {
		if s.remote() != nil && kind == KindRemote || s.pkg(kind) != nil {
			ways = append(ways, kind)
		}
	}
	return ways
}

// The ways to use a server.
const (
	KindRemote = "remote"
	KindNPM    = "npm"
	KindPyPI   = "pypi"
	KindOCI    = "oci"
)

func (s *Server) remote() *Remote {
	for _, kind := range []string{"streamable-http", "sse"} {
		for i := range s.Remotes {
			if r := &s.Remotes[i]; r.Type == kind && (strings.HasPrefix(r.URL, "https://") || strings.HasPrefix(r.URL, "http://")) {
				return r
			}
		}
	}
	return nil
}

func (s *Server) pkg(kind string) *Package {
	for i := range s.Packages {
		p := &s.Packages[i]
		if p.RegistryType == kind && cmp.Or(p.Transport.Type, "stdio") == "stdio" && identifier(kind).MatchString(p.Identifier) && len(p.Version) <= 64 && version().MatchString(p.Version) {
			return p
		}
	}
	return nil
}

//go:embed servers.json
var bundledList []byte

// Catalogue holds servers by name.
type Catalogue struct {
	Servers []Server
	// Fetched describes the list that a person has fetched; nil if there is none.
	Fetched *Fetched
}

// Fetched is a list that was fetched.
type Fetched struct {
	From    string    `json:"from"`
	At      time.Time `json:"at"`
	Digest  string    `json:"sha256"`
	Servers []Server  `json:"servers"`
}

// fetchedFile returns the path of the fetched list in a home.
func fetchedFile(home string) string { return filepath.Join(home, "servers.json") }

// Open returns the catalogue of a home: the servers of Toolroom's own list, and those that
// were fetched. A fetched server does not replace one of the own list.
func Open(home string) (*Catalogue, error) {
	own, err := Parse(bundledList)
	if err != nil {
		return nil, fmt.Errorf("the list of servers that is part of Toolroom: %w", err)
	}
	c := &Catalogue{Servers: own}
	text, err := os.ReadFile(fetchedFile(home))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.Fetched)
	}
	if err != nil || c.Fetched == nil {
		return nil, toolroom.Errorf(toolroom.CodeInternal, "the fetched list of servers %s cannot be read: %w", fetchedFile(home), cmp.Or(err, errors.New("it is empty"))).
			WithCLIHint("fetch it again: toolroom sources catalog update")
	}
	known := map[string]bool{}
	for _, s := range own {
		known[s.Name] = true
	}
	for _, s := range c.Fetched.Servers {
		if !known[s.Name] {
			s.Meta.Ours = Meta{} // only our own list may choose short names and hosts
			c.Servers = append(c.Servers, s)
		}
	}
	return c, nil
}

// Save stores a fetched list in a home.
func Save(home string, f *Fetched) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(fetchedFile(home), text, 0o600)
}

// Parse reads a list: the response of a registry, whose entries are {"server": …}, a list of
// server.json, or a single one. It leaves out servers without a name.
func Parse(text []byte) ([]Server, error) {
	list, _, err := parsePage(text)
	return list, err
}

func parsePage(text []byte) (list []Server, next string, err error) {
	var page struct {
		Servers  []json.RawMessage `json:"servers"`
		Metadata struct {
			Next string `json:"nextCursor"`
		} `json:"metadata"`
	}
	switch trimmed := strings.TrimSpace(string(text)); {
	case strings.HasPrefix(trimmed, "["):
		err = json.Unmarshal(text, &page.Servers)
	default:
		if err = json.Unmarshal(text, &page); err == nil && page.Servers == nil {
			page.Servers = []json.RawMessage{text}
		}
	}
	if err != nil {
		return nil, "", toolroom.Errorf(toolroom.CodeInvalidOutput, "it is no list of MCP servers: %w", err).
			WithHint("it must be JSON of the MCP registry: a list of server.json")
	}
	for _, raw := range page.Servers {
		var entry struct {
			Server *Server `json:"server"`
		}
		var s Server
		if json.Unmarshal(raw, &entry) == nil && entry.Server != nil {
			s = *entry.Server
		} else if err := json.Unmarshal(raw, &s); err != nil {
			return nil, "", toolroom.Errorf(toolroom.CodeInvalidOutput, "an entry is no server.json: %w", err)
		}
		if s.Name != "" && len(s.Name) <= maxName {
			list = append(list, s)
		}
	}
	return list, page.Metadata.Next, nil
}

const maxName = 300

// Find returns the server with a short or full name. The error names similar ones.
func (c *Catalogue) Find(name string) (*Server, error) {
	var found []*Server
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Name == name || s.Meta.Ours.Name == name {
			return s, nil
		}
		if s.Short() == name {
			found = append(found, s)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		names := make([]string, len(found))
		for i, s := range found {
			names[i] = s.Name
		}
		return nil, toolroom.Errorf(toolroom.CodeAmbiguousTool, "several servers of the catalogue are called %s: %s", name, strings.Join(names[:min(len(names), 10)], ", ")).
			WithHint("give the full name of one")
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "the catalogue has no server %q", name).
		WithCLIHint("search it: toolroom sources catalog %s", name)
}

// Search returns the servers whose names or descriptions contain all words: first the
// server of that name, then those of Toolroom's own list, then the others.
func (c *Catalogue) Search(words string) []*Server {
	var out []*Server
	for i := range c.Servers {
		s := &c.Servers[i]
		text := strings.ToLower(s.Short() + " " + s.Name + " " + s.Title + " " + s.Description)
		fits := true
		for word := range strings.FieldsSeq(strings.ToLower(words)) {
			fits = fits && strings.Contains(text, word)
		}
		if fits {
			out = append(out, s)
		}
	}
	named := func(s *Server) bool { return strings.EqualFold(s.Short(), words) }
	slices.SortStableFunc(out, func(a, b *Server) int {
		switch {
		case named(a) == named(b):
			return 0
		case named(a):
			return -1
		}
		return 1
	})
	return out
}

// Changes compares two lists by name and content.
func Changes(before, after []Server) (added, changed, gone int) {
	text := func(s Server) string {
		b, _ := json.Marshal(s) // it was read from JSON
		return string(b)
	}
	old := map[string]string{}
	for _, s := range before {
		old[s.Name] = text(s)
	}
	fresh := map[string]bool{}
	for _, s := range after {
		fresh[s.Name] = true
		switch was, known := old[s.Name]; {
		case !known:
			added++
		case was != text(s):
			changed++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if !fresh[name] {
			gone++
		}
	}
	return added, changed, gone
}
