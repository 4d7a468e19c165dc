package code

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/source"
)

var (
	// programMention matches cli.uname, cli("docker-compose") and cli["git"], with the
	// bracket or dot that follows.
	programMention = pattern.Lazy(`\bcli\s*(?:\.\s*([\pL_][\pL\pN_]*)|[(\[]\s*["']([\pL\pN_][\pL\pN_.+-]*)["']\s*[)\]])\s*([.(\[]?)`)
	// computedProgram matches cli(name) and cli[name], in which name is an expression.
	computedProgram = pattern.Lazy(`\bcli\s*[(\[]\s*[^"'\s)]`)
)

// programUse says how the text of a program uses a command-line program.
type programUse struct {
	name               string
	called, subcommand bool // cli.git(...), and cli.git.status(...)
}

func usedPrograms(text string) []programUse {
	var used []programUse
	for _, m := range programMention().FindAllStringSubmatch(text, -1) {
		name := m[1] + m[2]
		at := slices.IndexFunc(used, func(u programUse) bool { return u.name == name })
		if at < 0 {
			if len(used) == maxUnknown {
				break
			}
			at, used = len(used), append(used, programUse{name: name})
		}
		used[at].called = used[at].called || m[3] == "("
		used[at].subcommand = used[at].subcommand || m[3] == "." || m[3] == "["
	}
	return used
}

// addPrograms adds the command-line programs that a text mentions as sources, unless they
// are sources already. It records why a program cannot be added.
func (h *handler) addPrograms(ctx context.Context, text string) {
	h.programs = usedPrograms(text)
	if h.o.AddProgram == nil {
		return
	}
	h.computesPrograms = computedProgram().MatchString(text)
	for _, used := range h.programs {
		if h.hasNamespace(used.name) {
			continue
		}
		if err := h.addProgram(ctx, used.name); err != nil {
			if h.programErrors == nil {
				h.programErrors = map[string]error{}
			}
			h.programErrors[used.name] = err
		}
	}
}

func (h *handler) hasNamespace(name string) bool {
	for n := range h.o.Catalog.Namespaces(nil) {
		if identifier(n) == identifier(name) {
			return true
		}
	}
	return false
}

// ensureProgram prepares a call of a tool by its id: if the program computes names of
// command-line programs, ensureProgram adds the one of the id as a source. It returns an
// error if the command-line program cannot be called.
func (h *handler) ensureProgram(ctx context.Context, tool string) error {
	namespace, _, _ := strings.Cut(tool, ":")
	if err := h.programErrors[namespace]; err != nil {
		return err
	}
	if err := h.checkShadowedProgram(tool); err != nil {
		return err
	}
	if !h.computesPrograms || h.o.AddProgram == nil || h.hasNamespace(namespace) {
		return nil
	}
	return h.addProgram(ctx, namespace)
}

// checkShadowedProgram returns an error if a tool does not exist because the program means
// the command-line program NAME by cli.NAME, but NAME is the namespace of other tools.
func (h *handler) checkShadowedProgram(tool string) error {
	namespace, _, _ := strings.Cut(tool, ":")
	if !slices.ContainsFunc(h.programs, func(u programUse) bool { return identifier(u.name) == identifier(namespace) }) {
		return nil
	}
	if _, err := h.o.Catalog.Resolve(tool, nil); toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return nil
	}
	visible := h.catalogView().Visible
	all := h.o.Catalog.All(func(e *catalog.Entry) bool {
		return identifier(e.Tool.ID.Namespace) == identifier(namespace) && visible(e)
	})
	if len(all) == 0 || slices.ContainsFunc(all, func(e *catalog.Entry) bool { return e.Tool.Source == toolroom.SourceCLI }) {
		return nil
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = identifier(e.Tool.ID.Name)
	}
	ns := identifier(namespace)
	e := toolroom.Errorf(toolroom.CodeToolNotFound, "cli.%s is not the program here, because other tools have its name: tools.%s has %s", ns, ns, firstNames(names))
	if all[0].Tool.Source != toolroom.SourceBuiltin {
		return e.WithHint("call one of them; the operator can add the program under another name").
			WithCLIHint("toolroom sources add NAME --cli %s", namespace)
	}
	return e.WithHint("call one of them; the operator can add the program as the source %s, which replaces them", namespace).
		WithCLIHint("toolroom sources add %s --cli %[1]s", namespace)
}

// addProgram adds a command-line program as a source, unless policy denies the caller its
// use.
func (h *handler) addProgram(ctx context.Context, name string) error {
	id, err := toolroom.ParseID(name + ":" + name)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidID, "%q is not the name of a program", name)
	}
	e := &catalog.Entry{ID: id.String(), Tool: toolroom.Tool{ID: id, Source: toolroom.SourceCLI}}
	if !h.o.Runner.Allowed(h.request.Identity, e) {
		return toolroom.Errorf(toolroom.CodeDenied, "policy forbids %s to call %s", h.request.Identity.Key(), id).
			WithHint("the operator can see which rule does").
			WithCLIHint("toolroom policy explain %s", id)
	}
	return h.o.AddProgram(ctx, name)
}

// makeProgramsCallable makes cli.NAME callable for each command-line program that the text
// calls directly, as in cli.uname(s=True).
func (h *handler) makeProgramsCallable(text string) {
	for _, used := range usedPrograms(text) {
		if !used.called {
			continue
		}
		e := h.programEntry(used.name)
		if e == nil {
			continue
		}
		ns := identifier(e.Tool.ID.Namespace)
		if used.subcommand { // a name is a function or has members
			h.view.unknown = append(h.view.unknown, bridge.Member{Key: "cli." + used.name, Value: fmt.Sprintf(
				"cli.%s(...) and cli.%[1]s.NAME(...) are both in this program: write tools.%s.%s(...) for the program itself", used.name, ns, identifier(e.Tool.ID.Name))})
			continue
		}
		h.view.makeCallable(e, used.name)
	}
}

// programEntry returns the tool that runs a command-line program itself, or nil. Policy is
// checked when it is called.
func (h *handler) programEntry(name string) *catalog.Entry {
	all := h.o.Catalog.All(func(e *catalog.Entry) bool {
		return e.Tool.Source == toolroom.SourceCLI && identifier(e.Tool.ID.Namespace) == identifier(name)
	})
	if len(all) == 0 {
		return nil
	}
	commander, ok := source.As[source.Refiner](all[0].Source)
	if !ok {
		return nil
	}
	tool, _, ok := commander.Subcommand("version", nil) // the tool that runs any sub-command
	at := slices.IndexFunc(all, func(e *catalog.Entry) bool { return e.Tool.ID.Name == tool })
	if !ok || at < 0 {
		return nil
	}
	return all[at]
}

// makeCallable makes cli.NAME a function that calls e, in place of a namespace.
func (v *view) makeCallable(e *catalog.Entry, name string) {
	ns := identifier(e.Tool.ID.Namespace)
	for i := range v.tools {
		if v.tools[i].Path[0] == ns {
			v.tools[i].Globals = slices.DeleteFunc(v.tools[i].Globals, func(path []string) bool { return path[0] == "cli" })
		}
	}
	at := slices.IndexFunc(v.tools, func(t bridge.Tool) bool { return t.ID == e.ID })
	if at < 0 {
		at = len(v.tools)
		v.tools = append(v.tools, bridge.Tool{ID: e.ID, Path: []string{ns, identifier(e.Tool.ID.Name)}, Kind: string(toolroom.SourceCLI), Open: true})
		v.entries = append(v.entries, e)
	}
	v.tools[at].Globals = append(v.tools[at].Globals, []string{"cli", name})
}
