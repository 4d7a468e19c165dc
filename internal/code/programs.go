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
	// spokenProgram matches cli.uname, cli("docker-compose") and cli["git"], with what follows.
	spokenProgram = pattern.Lazy(`\bcli\s*(?:\.\s*([\pL_][\pL\pN_]*)|[(\[]\s*["']([\pL\pN_][\pL\pN_.+-]*)["']\s*[)\]])\s*([.(\[]?)`)
	// computedProgram matches cli(name) and cli[name].
	computedProgram = pattern.Lazy(`\bcli\s*[(\[]\s*[^"'\s)]`)
)

// programUse says how a program uses a command-line program.
type programUse struct {
	name          string
	called, below bool // cli.git(...), and cli.git.status(...)
}

func usedPrograms(text string) []programUse {
	var used []programUse
	for _, m := range spokenProgram().FindAllStringSubmatch(text, -1) {
		name := m[1] + m[2]
		at := slices.IndexFunc(used, func(u programUse) bool { return u.name == name })
		if at < 0 {
			if len(used) == maxUnknown {
				break
			}
			at, used = len(used), append(used, programUse{name: name})
		}
		used[at].called = used[at].called || m[3] == "("
		used[at].below = used[at].below || m[3] == "." || m[3] == "["
	}
	return used
}

// openPrograms makes the command-line programs sources that a program names and that are
// none. It keeps why one cannot be.
func (h *handler) openPrograms(ctx context.Context, text string) {
	h.programs = usedPrograms(text)
	if h.o.Programs == nil {
		return
	}
	h.computed = computedProgram().MatchString(text)
	for _, used := range h.programs {
		if h.hasNamespace(used.name) {
			continue
		}
		if err := h.openProgram(ctx, used.name); err != nil {
			if h.closedPrograms == nil {
				h.closedPrograms = map[string]error{}
			}
			h.closedPrograms[used.name] = err
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

// openFor makes the command-line program of a call a source, whose name the program has
// computed. It returns why there is none.
func (h *handler) openFor(ctx context.Context, tool string) error {
	namespace, _, _ := strings.Cut(tool, ":")
	if err := h.closedPrograms[namespace]; err != nil {
		return err
	}
	if err := h.notAProgram(tool); err != nil {
		return err
	}
	if !h.computed || h.o.Programs == nil || h.hasNamespace(namespace) {
		return nil
	}
	return h.openProgram(ctx, namespace)
}

// notAProgram returns an error if a tool does not exist because the program means a
// command-line program by cli.NAME, and NAME is the namespace of other tools.
func (h *handler) notAProgram(tool string) error {
	namespace, _, _ := strings.Cut(tool, ":")
	if !slices.ContainsFunc(h.programs, func(u programUse) bool { return identifier(u.name) == identifier(namespace) }) {
		return nil
	}
	if _, err := h.o.Catalog.Resolve(tool, nil); toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return nil
	}
	visible := h.sees().Visible
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
	e := toolroom.Errorf(toolroom.CodeToolNotFound, "cli.%s is not the program here, because other tools have its name: tools.%s has %s", ns, ns, some(names))
	if all[0].Tool.Source != toolroom.SourceBuiltin {
		return e.WithHint("call one of them; the operator can add the program under another name").
			WithCLIHint("toolroom sources add NAME --cli %s", namespace)
	}
	return e.WithHint("call one of them; the operator can add the program as the source %s, which replaces them", namespace).
		WithCLIHint("toolroom sources add %s --cli %[1]s", namespace)
}

// openProgram makes a program a source, unless policy forbids the caller to call it.
func (h *handler) openProgram(ctx context.Context, name string) error {
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
	return h.o.Programs(ctx, name)
}

// callPrograms lets a program call command-line programs themselves: cli.uname(s=True).
func (h *handler) callPrograms(text string) {
	for _, used := range usedPrograms(text) {
		if !used.called {
			continue
		}
		e := h.programEntry(used.name)
		if e == nil {
			continue
		}
		ns := identifier(e.Tool.ID.Namespace)
		if used.below { // a name is a function or has members
			h.view.unknown = append(h.view.unknown, bridge.Member{Key: "cli." + used.name, Value: fmt.Sprintf(
				"cli.%s(...) and cli.%[1]s.NAME(...) are both in this program: write tools.%s.%s(...) for the program itself", used.name, ns, identifier(e.Tool.ID.Name))})
			continue
		}
		h.view.call(e, used.name)
	}
}

// programEntry returns the tool of a command-line program itself, or nil. Policy decides
// when it is called.
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

// call makes cli.NAME the function that calls a program, in place of the namespace.
func (v *view) call(e *catalog.Entry, name string) {
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
