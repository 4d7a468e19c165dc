package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// shelve gives a namespace a resource, a template and a prompt.
func (f *fixture) shelve(namespace string) {
	f.add(namespace+":resources.read", func(_ context.Context, req *source.Request) (*source.Output, error) {
		var in struct{ URI string }
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, err
		}
		if strings.HasSuffix(in.URI, "gone") {
			return nil, toolroom.Errorf(toolroom.CodeNotFound, "gone")
		}
		return &source.Output{Value: json.RawMessage(`{"contents":[{"uri":"` + in.URI + `","text":"of ` + namespace + `","odd":9007199254740993}]}`)}, nil
	})
	f.add(namespace+":prompts.get", func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Value: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"from ` + namespace + `"}}]}`)}, nil
	})
	f.library.Set(namespace, catalog.Offer{
		Resources: []source.Resource{{URI: "doc://a", Name: "a"}, {URI: "doc://gone", Name: "gone"}},
		Templates: []source.Template{{URITemplate: "doc://" + namespace + "/{id}", Name: "t"}},
		Prompts:   []source.Prompt{{Name: "hello"}},
		Source:    completer{},
	})
}

type completer struct {
	source.Source
	source.NoLibrary
}

func (completer) Complete(_ context.Context, c source.Completion) (source.Completions, error) {
	value := c.Prompt + "/" + c.Argument + "/" + c.Value
	if who := c.Identity.Subject; who != "" {
		value += " for " + who
	}
	return source.Completions{Values: []string{value}}, nil
}

func TestASourceHearsWhoWantsACompletion(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.shelve("docs")
	for _, who := range []string{"ann", "bob"} {
		answer := fmt.Sprint(f.post(t, who, "completion/complete", "", `"ref":{"type":"ref/prompt","name":"docs__hello"},"argument":{"name":"n","value":"v"}`, ""))
		if !strings.Contains(answer, "hello/n/v for "+who) {
			t.Errorf("%s got %s", who, answer)
		}
	}
}

func TestResourcesAndPromptsOfAllSourcesAreOneList(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		f.shelve("docs")
		f.shelve("more")
		f.shelve("secret") // which policy denies
		s := f.connect(version, nil)
		resources, err := s.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		read := ""
		for _, r := range resources.Resources {
			got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
			if err != nil {
				read += " -"
				continue
			}
			read += " " + got.Contents[0].Text
		}
		if read != " of docs - of more -" {
			t.Errorf("the resources say%s", read)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://secret/1"}); err == nil {
			t.Error("a template of a hidden source was read")
		}
		if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://more/1"}); err != nil || r.Contents[0].Text != "of more" {
			t.Errorf("a template gave %v, %v", r, err)
		}
		prompts, err := s.ListPrompts(t.Context(), nil)
		if err != nil || len(prompts.Prompts) != 2 || prompts.Prompts[1].Name != "more__hello" {
			t.Fatalf("the prompts are %v, %v", prompts, err)
		}
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "more__hello"})
		if err != nil || got.Messages[0].Content.(*mcp.TextContent).Text != "from more" {
			t.Errorf("got %v, %v", got, err)
		}
		if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "secret__hello"}); err == nil {
			t.Error("a prompt of a hidden source was got")
		}
		completed, err := s.Complete(t.Context(), &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "more__hello"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: "a"},
		})
		if err != nil || len(completed.Completion.Values) != 1 || completed.Completion.Values[0] != "hello/who/a" {
			t.Errorf("completed %v, %v", completed, err)
		}
	})
}

func TestALongResultIsAResourceOfItsOwnerAlone(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "long__it"}); err != nil {
			t.Fatal(err)
		}
		resources, err := s.ListResources(t.Context(), nil)
		if err != nil || len(resources.Resources) != 1 {
			t.Fatalf("%v, %v", resources, err)
		}
		uri := resources.Resources[0].URI
		got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(got.Contents[0].Text) != 100_000 {
			t.Errorf("got %v, %v", got, err)
		}
		if _, err := f.connect(version, nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "toolroom://artifacts/res_guessed"}); err == nil {
			t.Error("a guessed handle was read")
		}
	})
}

func TestClientsHearOfChangedResourcesAndPrompts(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		heard := make(chan string, 100)
		s := f.connect(version, &mcp.ClientOptions{
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { heard <- "resources" },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { heard <- "prompts" },
		})
		names(t, s)
		missing := map[string]bool{"resources": true, "prompts": true}
		for i := 0; len(missing) > 0; i++ {
			// The stream of notifications opens beside the session; until it is
			// there, tell again.
			f.shelve("docs" + string(rune('a'+i%26)))
			select {
			case what := <-heard:
				delete(missing, what)
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

func TestBareNamesAreShownWhereTheyAreUnique(t *testing.T) {
	expose := direct(t)
	expose.Plain = true
	inEachEra(t, expose, func(t *testing.T, f *fixture, version string) {
		f.add("a:unique", value(`1`))
		f.add("a:twice", value(`"a"`))
		f.add("b:twice", value(`"b"`))
		f.add("a:read_result", value(`"mine"`)) // as a tool of the surface is called
		s := f.connect(version, nil)
		got := strings.Join(names(t, s), " ")
		for _, want := range []string{"read_result", "unique", "a__twice", "b__twice", "a__read_result"} {
			if !strings.Contains(" "+got+" ", " "+want+" ") {
				t.Errorf("%s is missing in %s", want, got)
			}
		}
		for _, name := range strings.Fields(got) {
			if strings.HasSuffix(name, "twice") || name == "unique" || name == "a__read_result" {
				if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name}); err != nil || r.IsError {
					t.Errorf("%s gave %v, %v", name, r, err)
				}
			}
		}
	})
}

func TestAListFollowsWhatItsToolsBecome(t *testing.T) {
	expose := direct(t)
	expose.Plain = true
	inEachEra(t, expose, func(t *testing.T, f *fixture, version string) {
		listed := func() map[string]*mcp.Tool {
			list, err := f.connect(version, nil).ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			tools := map[string]*mcp.Tool{}
			for _, tool := range list.Tools {
				tools[tool.Name] = tool
			}
			return tools
		}
		tool := toolroom.Tool{ID: toolroom.MustParseID("a:lone"), Source: toolroom.SourceGo, OutputSchema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)}
		offer := func(tool toolroom.Tool) {
			if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
				t.Fatal(err)
			}
		}
		offer(tool)
		if got := listed()["lone"]; got == nil || got.OutputSchema == nil {
			t.Errorf("at first it is %+v", got)
		}
		for check, schema := range map[toolroom.OutputCheck]string{
			toolroom.OutputWarn:   `{"type":"object"}`, // nobody holds its values to it
			toolroom.OutputStrict: `{"type":"array"}`,  // before 2026-07-28 structured content is an object
		} {
			other := tool
			other.OutputCheck, other.OutputSchema = check, json.RawMessage(schema)
			offer(other)
			if got := listed()["lone"]; got == nil || got.OutputSchema != nil {
				t.Errorf("with %s of %s it is %+v", schema, check, got)
			}
		}
		tool.Description = "it is another now"
		offer(tool)
		if got := listed()["lone"]; got == nil || got.Description != tool.Description {
			t.Errorf("after its change it is %+v", got)
		}
		f.add("b:lone", value(`1`))
		if got := listed(); got["lone"] != nil || got["a__lone"] == nil || got["b__lone"] == nil {
			t.Errorf("beside another of its name the list is %v", got)
		}
		f.runner.Catalog.Unregister("go", toolroom.MustParseID("b:lone"))
		if got := listed(); got["lone"] == nil || got["b__lone"] != nil {
			t.Errorf("alone again the list is %v", got)
		}
	})
}

// shelved has one skill that it lists, and one that it does not.
type shelved struct {
	source.Source
	source.NoLibrary
}

func (shelved) Skills(context.Context) ([]source.Skill, error) { return nil, nil }

func (shelved) Skill(_ context.Context, uri string) (source.Skill, error) {
	if !strings.Contains(uri, "refunds") && !strings.Contains(uri, "unlisted") {
		return source.Skill{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no skill %s", uri)
	}
	return source.Skill{URI: uri, Raw: skillOf(uri)}, nil
}

func skillOf(uri string) json.RawMessage {
	return json.RawMessage(`{"zeta":9007199254740993,"uri":"` + uri + `","frontmatter":{"name":"refunds","n":1.50},"resources":[{"digest":"sha256:0","uri":"` + uri + `","size":1}]}`)
}

func TestSkillsOfAllSourcesAreOneListForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	const uri = "skill://acme/refunds/SKILL.md"
	for _, namespace := range []string{"docs", "more", "secret"} { // policy denies the last
		f.add(namespace+":resources.read", func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Value: json.RawMessage(`{"contents":[]}`)}, nil
		})
		f.library.Set(namespace, catalog.Offer{Skills: []source.Skill{{URI: uri, Raw: skillOf(uri)}}, Source: shelved{}})
	}
	ask := func(method, params string) string {
		answer, err := json.Marshal(f.post(t, "ada", method, "", params, ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	list := ask("skills/list", `"cursor":""`)
	second := "toolroom://sources/more/" + uri
	if n := strings.Count(list, uri); n != 4 || strings.Count(list, second) != 2 || strings.Contains(list, "secret") || !strings.Contains(list, `"ttlMs"`) {
		t.Errorf("the list is %s", list)
	}
	for uri, want := range map[string]bool{
		uri: true, second: true, "skill://unlisted/SKILL.md": true,
		"skill://none/SKILL.md": false, "toolroom://sources/secret/" + uri: false,
	} {
		got := ask("skills/get", `"uri":"`+uri+`"`)
		if strings.Contains(got, `"skill":{`) != want || strings.Contains(got, "-32602") == want || want && strings.Count(got, `"`+uri+`"`) != 2 {
			t.Errorf("%s is %s", uri, got)
		}
	}
}

// listedKeywords keeps receipts.
type listedKeywords struct {
	mu   sync.Mutex
	list []*receipt.Draft
}

func (k *listedKeywords) Append(_ context.Context, r *receipt.Draft) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, r)
	return nil
}

func (k *listedKeywords) Intend(context.Context, *toolroom.Receipt, string) error { return nil }
func (k *listedKeywords) Flush(context.Context) error                             { return nil }
func (k *listedKeywords) Ready() error                                            { return nil }

func TestACompletionLeavesAReceipt(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	receipts := &listedKeywords{}
	f.runner.Receipts = receipts
	f.shelve("docs")
	f.post(t, "ann", "completion/complete", "", `"ref":{"type":"ref/prompt","name":"docs__hello"},"argument":{"name":"n","value":"some text"}`, "")
	if len(receipts.list) != 1 {
		t.Fatalf("%d receipts", len(receipts.list))
	}
	r := receipts.list[0]
	if r.Tool != "docs:completion.complete" || r.Identity.Subject != "ann" || r.Status != toolroom.StatusOK || !strings.Contains(string(r.Arguments), "some text") {
		t.Errorf("got %+v", r)
	}
}

// ruledSource is a source that keeps rules about effects in calls.
type ruledSource struct{ *gofunc.Source }

func (ruledSource) PredictEffects(*source.Request) ([]toolroom.Effect, string) { return nil, "" }

func (ruledSource) Enforces(*source.Request, toolroom.Effect, []toolroom.Effect) bool { return true }

func (ruledSource) Preview(context.Context, *source.Request) (source.Preview, error) {
	return source.Preview{}, nil
}

// A source completes what a user types, and reports changes, outside of calls, where it keeps no
// rules about effects.
func TestNoSourceIsAskedOutsideOfCallsForACallerWithRulesAboutEffects(t *testing.T) {
	t.Parallel()
	for _, ruled := range []bool{true, false} {
		f := serve(t, direct(t))
		f.shelve("docs")
		for _, name := range []string{"resources.read", "prompts.get"} {
			id := toolroom.MustParseID("docs:" + name)
			f.runner.Catalog.Unregister("go", id)
			if err := f.runner.Catalog.Register("kept", ruledSource{f.funcs}, toolroom.Tool{ID: id, Source: toolroom.SourceMCP, Description: name}); err != nil {
				t.Fatal(err)
			}
		}
		if ruled {
			layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"effect:file:/secret/**"}}})
			if err != nil {
				t.Fatal(err)
			}
			f.runner.Policy = layers
		}
		for _, ref := range []string{`{"type":"ref/prompt","name":"docs__hello"}`, `{"type":"ref/resource","uri":"doc://docs/{id}"}`} {
			answer := fmt.Sprint(f.post(t, "ann", "completion/complete", "", `"ref":`+ref+`,"argument":{"name":"n","value":"v"}`, ""))
			if got := strings.Contains(answer, "/n/v for ann"); got == ruled || !strings.Contains(answer, "values") {
				t.Errorf("under rules %v, %s: %s", ruled, ref, answer)
			}
		}
		err := f.connect("2025-06-18", nil).Subscribe(t.Context(), &mcp.SubscribeParams{URI: "doc://a"})
		if ruled != (err != nil) || ruled && !strings.Contains(err.Error(), "may not subscribe") {
			t.Errorf("a subscription under rules %v: %v", ruled, err)
		}
		const listed = "skill://acme/refunds/SKILL.md"
		f.library.Set("docs", catalog.Offer{Skills: []source.Skill{{URI: listed, Raw: json.RawMessage(`{"uri":"` + listed + `","from":"list"}`)}}, Source: shelved{}})
		for uri, want := range map[string]string{listed: "list", "skill://unlisted/SKILL.md": "there is no skill"} {
			answer := fmt.Sprint(f.post(t, "ann", "skills/get", "", `"uri":"`+uri+`"`, ""))
			if asked := strings.Contains(answer, "frontmatter"); asked == ruled || ruled && !strings.Contains(answer, want) {
				t.Errorf("under rules %v, %s: %s", ruled, uri, answer)
			}
		}
	}
}

// A source is told the environment of a call, and a question and its answer are for that one.
func TestReadsOfTheLibraryAreInTheEnvironmentOfTheirClient(t *testing.T) {
	t.Parallel()
	chosen := func(o *mcpserver.Options) { o.Environment = func(context.Context) string { return "test" } }
	f := serveWith(t, direct(t), approval.Options{}, chosen)
	f.shelve("docs")
	for tool, answer := range map[string]string{
		"docs:prompts.get":    `{"messages":[{"role":"user","content":{"type":"text","text":"in %s"}}]}`,
		"docs:resources.read": `{"contents":[{"uri":"doc://a","text":"in %s"}]}`,
	} {
		f.add(tool, func(_ context.Context, req *source.Request) (*source.Output, error) {
			return &source.Output{Value: json.RawMessage(fmt.Sprintf(answer, req.Environment))}, nil
		})
	}
	for method, params := range map[string]string{"prompts/get": `"name":"docs__hello"`, "resources/read": `"uri":"doc://a"`} {
		_, name, _ := strings.Cut(strings.ReplaceAll(params, `"`, ""), ":")
		if answer := fmt.Sprint(f.post(t, "ann", method, name, params, "")); !strings.Contains(answer, "in test") {
			t.Errorf("%s: %s", method, answer)
		}
	}
}
