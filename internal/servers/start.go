package servers

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/secret"
)

// Start describes how to start or reach a server. In its texts {NAME} stands for the input of
// that name.
type Start struct {
	Kind    string
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string
	Inputs  []Input
	// Files are the indexes in Args of paths from the user.
	Files []int
	// Sandboxed means that the program can run in a sandbox, in which it needs Hosts.
	Sandboxed bool
	Hosts     []string
	// Notes describe what was left out.
	Notes []string
}

var (
	npmName        = pattern.Lazy(`^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-zA-Z0-9._~-]*$`)
	pypiName       = pattern.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	ociName        = pattern.Lazy(`^[a-z0-9][a-z0-9.:_/-]*(@sha256:[0-9a-f]{64})?$`)
	version        = pattern.Lazy(`^[A-Za-z0-9._+!-]*$`)
	placeholder    = pattern.Lazy(`\{([A-Za-z0-9_.-]+)\}`)
	variable       = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)
	dockerVariable = pattern.Lazy(`^(?i:DOCKER_.*|BUILDKIT_.*|LD_.*|DYLD_.*|PATH|HOME|https?_proxy|all_proxy)$`)
	matchesNothing = pattern.Lazy(`^\b$`)
)

// identifier returns the pattern of package names of a kind. Names that do not match never get
// into a command.
func identifier(kind string) *regexp.Regexp {
	switch kind {
	case KindNPM:
		return npmName()
	case KindPyPI:
		return pypiName()
	case KindOCI:
		return ociName()
	}
	return matchesNothing()
}

// Start returns how to use the server in one of its ways; "" is the best. The values of
// arguments follow in order.
func (s *Server) Start(way string, values []string) (*Start, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if refs := secret.References(string(text)); len(refs) > 0 {
		return nil, foreignSecret(refs[0])
	}
	ways := s.Kinds()
	if way == "" && len(ways) > 0 {
		way = ways[0]
	}
	if !slices.Contains(ways, way) {
		if len(ways) == 0 {
			return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s has no package or remote that Toolroom can use", s.Name).
				WithHint("packages of npm, pypi and oci on stdio can be used, and remotes of streamable-http and sse")
		}
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s cannot be used as %q", s.Name, way).WithHint("it can be used as %s", strings.Join(ways, ", "))
	}
	if way == KindRemote {
		if len(values) > 0 {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a remote server takes no arguments")
		}
		return s.remote().start(), nil
	}
	p := s.pkg(way)
	st := &Start{Kind: way, Env: map[string]string{}, Hosts: s.Meta.Ours.Hosts, Sandboxed: way != KindOCI}
	st.addEnvironment(p)
	pinned := ""
	if p.Version != "" && p.Version != "latest" {
		pinned = "@" + p.Version
	}
	switch way {
	case KindNPM:
		st.Command, st.Args = "npx", []string{"-y", p.Identifier + pinned}
	case KindPyPI:
		st.Command, st.Args = "uvx", []string{p.Identifier + pinned}
	case KindOCI:
		st.Command, st.Args = "docker", []string{"run", "-i", "--rm", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}
		for _, name := range slices.Sorted(maps.Keys(st.Env)) {
			st.Args = append(st.Args, "-e", name)
		}
		image := p.Identifier
		if p.Version != "" && !strings.ContainsAny(image[strings.LastIndexByte(image, '/')+1:], ":@") {
			image += ":" + p.Version
		}
		st.Args = append(st.Args, image)
	}
	return st, st.addArguments(p, values)
}

// foreignSecret returns the error for a reference that the user has not given, because the
// publisher of a server would receive any secret or variable that it names.
func foreignSecret(ref string) error {
	return toolroom.Errorf(toolroom.CodeDenied, "the catalogue's entry refers to %s, a secret of this machine", ref).
		WithHint("do not use this server, or write its source by hand")
}

func (r *Remote) start() *Start {
	st := &Start{Kind: KindRemote, URL: r.URL, Headers: map[string]string{}}
	for name, in := range r.Variables {
		in.Name = name
		in.Required = true // the address is not complete without it
		st.Inputs = append(st.Inputs, in)
	}
	for _, h := range r.Headers {
		st.Headers[h.Name] = st.addInput(h)
	}
	st.sortInputs()
	return st
}

func (st *Start) addEnvironment(p *Package) {
	for _, e := range p.Environment {
		if p.RegistryType == KindOCI && dockerVariable().MatchString(e.Name) {
			st.Notes = append(st.Notes, "the variable "+e.Name+" was left out: it would be that of docker itself")
			continue
		}
		if variable().MatchString(e.Name) {
			st.Env[e.Name] = st.addInput(e)
		}
	}
	st.sortInputs()
}

func (st *Start) sortInputs() {
	slices.SortStableFunc(st.Inputs, func(a, b Input) int { return strings.Compare(a.Name, b.Name) })
}

// addInput returns the text of a variable or header, and adds the inputs that it needs.
func (st *Start) addInput(in Input) string {
	if in.Value == "" {
		st.Inputs = append(st.Inputs, in)
		return "{" + in.Name + "}"
	}
	for _, match := range placeholder().FindAllStringSubmatch(in.Value, -1) {
		one, ok := in.Variables[match[1]]
		if !ok {
			continue
		}
		one.Name = match[1]
		one.Required = one.Required || in.Required
		one.Secret = one.Secret || in.Secret
		st.Inputs = append(st.Inputs, one)
	}
	return in.Value
}

// addArguments adds the arguments of a package: fixed ones, and the values from the user.
func (st *Start) addArguments(p *Package, values []string) error {
	for _, a := range p.Arguments {
		take := func() (string, bool) {
			if len(values) == 0 {
				return "", false
			}
			v := values[0]
			values = values[1:]
			return v, true
		}
		value, given := a.Value, a.Value != ""
		if !given && a.Required {
			value, given = take()
		}
		if !given && a.Required {
			name := a.Name
			if name == "" {
				name = a.ValueHint
			}
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "it needs the argument %s: %s", name, a.Description).
				WithCLIHint("give it with --arg VALUE")
		}
		if !given {
			continue
		}
		if a.Type == "named" {
			st.Args = append(st.Args, a.Name)
		}
		all := []string{value}
		if a.Repeated {
			all, values = append(all, values...), nil
		}
		for _, value := range all {
			if a.Value == "" && (a.Format == formatFile || filepath.IsAbs(value)) {
				st.Files = append(st.Files, len(st.Args))
			}
			st.Args = append(st.Args, value)
		}
	}
	if len(values) > 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "it takes no argument %q", values[0])
	}
	return nil
}

// formatFile is the format of an argument that is a path.
const formatFile = "filepath"

// Fill replaces the inputs by values. It leaves out texts with an optional input that has no
// value. The error names the required inputs without a value.
func (st *Start) Fill(values map[string]string) error {
	var missing []string
	for _, in := range st.Inputs {
		if values[in.Name] == "" && in.Required {
			missing = append(missing, in.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("values are missing: %s", strings.Join(missing, ", "))
	}
	known := map[string]bool{}
	for _, in := range st.Inputs {
		known[in.Name] = true
	}
	fill := func(text string) (string, bool) {
		whole := true
		text = placeholder().ReplaceAllStringFunc(text, func(match string) string {
			name := match[1 : len(match)-1]
			if !known[name] {
				return match
			}
			whole = whole && values[name] != ""
			return values[name]
		})
		return text, whole
	}
	var own []string // references that the user has given
	for _, value := range values {
		own = append(own, secret.References(value)...)
	}
	for _, texts := range []map[string]string{st.Env, st.Headers} {
		for name, text := range texts {
			filled, whole := fill(text)
			for _, ref := range secret.References(filled) {
				if !slices.Contains(own, ref) {
					return foreignSecret(ref)
				}
			}
			texts[name] = filled
			if !whole {
				delete(texts, name)
			}
		}
	}
	if st.Kind == KindOCI { // no variable without a value
		for i := 0; i+1 < len(st.Args); i++ {
			if st.Args[i] == "-e" && st.Env[st.Args[i+1]] == "" {
				st.Args = slices.Delete(st.Args, i, i+2)
				i--
			}
		}
	}
	st.URL, _ = fill(st.URL)
	return nil
}
