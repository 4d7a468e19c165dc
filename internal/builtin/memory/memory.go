// Package memory provides the built-in tools with which agents keep notes. Notes are Markdown
// files in namespaces, separate for each identity, and can be searched.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/source"
)

// Pack returns the tools, which keep their files in dir. With the embedder that embedder
// returns, memory:search also finds text with a similar meaning. embedder may be nil or return
// nil.
func Pack(dir string, embedder func() *embed.Service) *builtin.Pack {
	m := &memory{store: store{dir}}
	m.index.store, m.index.vectors.service = m.store, embedder
	ctx, stop := context.WithCancel(context.Background())
	m.index.vectors.ctx = ctx
	closed := func() error {
		stop()
		m.index.vectors.running.Wait()
		return nil
	}
	return &builtin.Pack{Name: "memory", Close: closed, Tools: []builtin.Tool{m.read(), m.write(), m.append(), m.edit(), m.forget(), m.list(), m.search()}}
}

type memory struct {
	store
	index index
}

// Namespace names a namespace in arguments.
type Namespace struct {
	Namespace string `json:"namespace" jsonschema:"name of the notes, such as user/preferences or project"`
}

// Note is a changed or read namespace.
type Note struct {
	Namespace string   `json:"namespace" jsonschema:"the namespace"`
	Content   string   `json:"content,omitempty" jsonschema:"its text, Markdown"`
	Links     []string `json:"links,omitempty" jsonschema:"namespaces that it links to as [[name]]"`
	Bytes     int      `json:"bytes" jsonschema:"size of its text"`
}

var link = pattern.Lazy(`\[\[([A-Za-z0-9_][A-Za-z0-9._/-]*)\]\]`)

func noteOf(namespace, text string) Note {
	n := Note{Namespace: namespace, Content: text, Bytes: len(text)}
	for _, m := range link().FindAllStringSubmatch(text, -1) {
		if !slices.Contains(n.Links, m[1]) {
			n.Links = append(n.Links, m[1])
		}
	}
	return n
}

func tool(name, title, description string, hints toolroom.Hints, example map[string]any) toolroom.Tool {
	return builtin.Define("memory:"+name, "memory", title, description, hints, example)
}

func namespaceProperty() map[string]builtin.Property {
	return map[string]builtin.Property{"namespace": {"pattern": NamespaceForm, "examples": []string{"user/preferences"}}}
}

func (m *memory) read() builtin.Tool {
	return builtin.MustTool(builtin.Spec[Namespace, Note]{
		Tool: tool("read", "Read memory", "Read what you remember in one memory namespace: the notes saved there.",
			builtin.Hints(true, false, false), map[string]any{"namespace": "user/preferences"}),
		Arguments: namespaceProperty(),
		Run: func(_ context.Context, req *source.Request, in Namespace) (Note, []toolroom.Content, error) {
			text, err := m.store.read(identity.Owner(req.Identity), in.Namespace)
			return noteOf(in.Namespace, text), builtin.Text(text), err
		},
	})
}

// WriteArgs are the arguments of memory:write and memory:append.
type WriteArgs struct {
	Namespace string `json:"namespace" jsonschema:"name of the notes, such as user/preferences or project"`
	Content   string `json:"content" jsonschema:"the text, Markdown; [[name]] links to another namespace"`
}

func (m *memory) changeTool(t toolroom.Tool, edit func(old, content string) string) builtin.Tool {
	properties := namespaceProperty()
	properties["content"] = builtin.Property{"minLength": 1}
	return builtin.MustTool(builtin.Spec[WriteArgs, Note]{
		Tool: t, Arguments: properties,
		Run: func(ctx context.Context, req *source.Request, in WriteArgs) (Note, []toolroom.Content, error) {
			out := Note{}
			err := m.change(ctx, identity.Owner(req.Identity), in.Namespace, func(old string) (string, error) {
				text := edit(old, in.Content)
				out = noteOf(in.Namespace, text)
				out.Content = ""
				return text, nil
			})
			return out, builtin.Text(fmt.Sprintf("Remembered in %s (%d bytes).", in.Namespace, out.Bytes)), err
		},
	})
}

func (m *memory) write() builtin.Tool {
	return m.changeTool(tool("write", "Write memory", "Remember a fact or a preference for later: save a text to memory, in a namespace, in place of what was there. To keep that, use memory:append.",
		builtin.Hints(false, true, false), map[string]any{"namespace": "user/preferences", "content": "Prefers short answers."}),
		func(_, content string) string { return content })
}

func (m *memory) append() builtin.Tool {
	return m.changeTool(tool("append", "Add to memory", "Add a note or fact to memory: append to a namespace and keep its old text.",
		builtin.Hints(false, false, false), map[string]any{"namespace": "project", "content": "- The deadline is in May."}),
		func(old, content string) string {
			if old != "" && !strings.HasSuffix(old, "\n") {
				old += "\n"
			}
			return old + strings.TrimSuffix(content, "\n") + "\n"
		})
}

// EditArgs are the arguments of memory:edit.
type EditArgs struct {
	Namespace string `json:"namespace" jsonschema:"the namespace"`
	Search    string `json:"search" jsonschema:"the text to replace; it must occur once"`
	Replace   string `json:"replace" jsonschema:"the new text"`
}

func (m *memory) edit() builtin.Tool {
	properties := namespaceProperty()
	properties["search"] = builtin.Property{"minLength": 1}
	return builtin.MustTool(builtin.Spec[EditArgs, Note]{
		Tool: tool("edit", "Correct memory", "Correct or update a fact that you remember: replace one piece of a remembered note in memory.",
			builtin.Hints(false, true, false), map[string]any{"namespace": "project", "search": "in May", "replace": "in June"}),
		Arguments: properties,
		Run: func(ctx context.Context, req *source.Request, in EditArgs) (Note, []toolroom.Content, error) {
			out := Note{}
			err := m.change(ctx, identity.Owner(req.Identity), in.Namespace, func(old string) (string, error) {
				if n := strings.Count(old, in.Search); n != 1 {
					return "", toolroom.Errorf(toolroom.CodeConflict, "the text stands in %s %d times, not once", in.Namespace, n).WithHint("read it first: memory:read namespace=%s", in.Namespace)
				}
				text := strings.Replace(old, in.Search, in.Replace, 1)
				if strings.TrimSpace(text) == "" {
					return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "nothing would be left in %s", in.Namespace).WithHint("remove it: memory:forget")
				}
				out = noteOf(in.Namespace, text)
				return text, nil
			})
			return out, builtin.Text(out.Content), err
		},
	})
}

// ForgetArgs are the arguments of memory:forget.
type ForgetArgs struct {
	Namespace string `json:"namespace" jsonschema:"the namespace"`
	Text      string `json:"text,omitempty" jsonschema:"forget only the paragraphs that contain this; without it everything in the namespace"`
}

// Forgotten is the value of memory:forget.
type Forgotten struct {
	Namespace  string `json:"namespace" jsonschema:"the namespace"`
	Paragraphs int    `json:"paragraphs" jsonschema:"number of removed paragraphs"`
	Bytes      int    `json:"bytes" jsonschema:"bytes that are left"`
}

var emptyLines = pattern.Lazy(`\n[ \t]*\n+`)

func (m *memory) forget() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ForgetArgs, Forgotten]{
		Tool: tool("forget", "Forget", "Forget what was told: delete notes from memory, a whole namespace or only the paragraphs that contain a text.",
			builtin.Hints(false, true, false), map[string]any{"namespace": "project", "text": "deadline"}),
		Arguments: namespaceProperty(),
		Predict: func(*source.Request, ForgetArgs) []toolroom.Effect {
			return []toolroom.Effect{{Kind: toolroom.EffectDestroy}}
		},
		Run: func(ctx context.Context, req *source.Request, in ForgetArgs) (Forgotten, []toolroom.Content, error) {
			out := Forgotten{Namespace: in.Namespace}
			err := m.change(ctx, identity.Owner(req.Identity), in.Namespace, func(old string) (string, error) {
				if old == "" {
					return "", toolroom.Errorf(toolroom.CodeNotFound, "nothing is remembered in %s", in.Namespace).WithHint("list the namespaces: memory:list")
				}
				var left []string
				for _, p := range emptyLines().Split(strings.TrimSpace(old), -1) {
					if in.Text == "" || strings.Contains(strings.ToLower(p), strings.ToLower(in.Text)) {
						out.Paragraphs++
					} else {
						left = append(left, p)
					}
				}
				if out.Paragraphs == 0 {
					return "", toolroom.Errorf(toolroom.CodeNotFound, "no paragraph of %s contains %q", in.Namespace, in.Text)
				}
				text := strings.Join(left, "\n\n")
				if text != "" {
					text += "\n"
				}
				out.Bytes = len(text)
				return text, nil
			})
			return out, builtin.Text(fmt.Sprintf("Forgot %d paragraphs of %s.", out.Paragraphs, in.Namespace)), err
		},
	})
}

// ListArgs are the arguments of memory:list.
type ListArgs struct {
	Prefix string `json:"prefix,omitempty" jsonschema:"only namespaces that begin with this"`
}

// Listed is the value of memory:list.
type Listed struct {
	Namespaces []ListedNote `json:"namespaces" jsonschema:"the namespaces, sorted"`
}

// ListedNote is one namespace of a list.
type ListedNote struct {
	Namespace string    `json:"namespace" jsonschema:"the namespace"`
	Bytes     int64     `json:"bytes" jsonschema:"size of its text"`
	Changed   time.Time `json:"changed" jsonschema:"time of the last change"`
}

func (m *memory) list() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ListArgs, Listed]{
		Tool: tool("list", "List memory", "List which memory namespaces exist, with their sizes and dates.", builtin.Hints(true, false, false), map[string]any{}),
		Run: func(_ context.Context, req *source.Request, in ListArgs) (Listed, []toolroom.Content, error) {
			notes, err := m.store.list(identity.Owner(req.Identity))
			out, text := Listed{Namespaces: []ListedNote{}}, ""
			for _, n := range notes {
				if strings.HasPrefix(n.namespace, in.Prefix) {
					out.Namespaces = append(out.Namespaces, ListedNote{n.namespace, n.info.Size(), n.info.ModTime().UTC()})
					text += fmt.Sprintf("%s  %d\n", n.namespace, n.info.Size())
				}
			}
			return out, builtin.Text(cmp.Or(text, "Nothing is remembered.")), err
		},
	})
}

// SearchArgs are the arguments of memory:search.
type SearchArgs struct {
	Query       string `json:"query" jsonschema:"what to look for"`
	Namespace   string `json:"namespace,omitempty" jsonschema:"search this namespace and those below it; all if left out"`
	Limit       int    `json:"limit,omitempty" jsonschema:"number of results"`
	KeywordOnly bool   `json:"keywordOnly,omitempty" jsonschema:"search only by words, not by meaning; without an embedder all searches do so"`
}

// Results is the value of memory:search.
type Results struct {
	Results []Result `json:"results" jsonschema:"the paragraphs, best first"`
	Note    string   `json:"note,omitempty" jsonschema:"what the search left out: there is no such namespace, or it was by words alone although there is an embedder"`
}

// Result is one paragraph.
type Result struct {
	Namespace string  `json:"namespace" jsonschema:"the namespace"`
	Content   string  `json:"content" jsonschema:"the paragraph"`
	Context   string  `json:"context" jsonschema:"the heading above it"`
	Line      int     `json:"line" jsonschema:"its first line"`
	Score     float64 `json:"score" jsonschema:"from 0 to 1"`
	Source    string  `json:"source" jsonschema:"how it was found: keyword, vector (its meaning is near that of the query), or keyword+vector"`
}

func (m *memory) search() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SearchArgs, Results]{
		Tool: tool("search", "Search memory", "Search your memory: find what a user told you earlier about a topic, in the notes and facts of all namespaces.",
			builtin.Hints(true, false, false), map[string]any{"query": "deadline of the project"}),
		Arguments: map[string]builtin.Property{"query": {"minLength": 1}, "namespace": {"pattern": NamespaceForm}, "limit": {"minimum": 1, "maximum": 100, "default": 10}},
		Run: func(ctx context.Context, req *source.Request, in SearchArgs) (Results, []toolroom.Content, error) {
			hits, note, err := m.index.search(ctx, identity.Owner(req.Identity), in.Query, in.Namespace, cmp.Or(in.Limit, 10), in.KeywordOnly)
			out, text := Results{Results: []Result{}, Note: note}, ""
			for _, h := range hits {
				out.Results = append(out.Results, Result{h.namespace, h.text, h.heading, h.line, h.score, h.source})
				text += fmt.Sprintf("%s:%d (%.2f)\n%s\n\n", h.namespace, h.line, h.score, h.text)
			}
			text = cmp.Or(text, "Nothing is remembered about it.\n")
			if note != "" {
				text += "[" + note + "]\n"
			}
			return out, builtin.Text(text), err
		},
	})
}
