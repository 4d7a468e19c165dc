package graphql_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gql "github.com/graphql-go/graphql"
	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/source/graphql"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a GraphQL service of graphql-go.
type service struct {
	*httptest.Server
	waiting atomic.Int64 // calls of the query wait
	mu      sync.Mutex
	queries []string // that came, but for introspections
	header  http.Header
	saved   map[string]any
}

func text(resolve func(gql.ResolveParams) (any, error)) *gql.Field {
	return &gql.Field{Type: gql.String, Resolve: resolve}
}

func serve(t *testing.T) *service {
	t.Helper()
	s := &service{}
	role := gql.NewEnum(gql.EnumConfig{Name: "Role", Values: gql.EnumValueConfigMap{"ADMIN": {Value: "ADMIN"}, "GUEST": {Value: "GUEST"}}})
	user := gql.NewObject(gql.ObjectConfig{Name: "User", Fields: gql.Fields{
		"id": {Type: gql.NewNonNull(gql.ID)}, "name": {Type: gql.String}, "role": {Type: role},
		"secret": text(func(gql.ResolveParams) (any, error) { return nil, errors.New("only the owner may see it") }),
	}})
	user.AddFieldConfig("boss", &gql.Field{Type: user})
	user.AddFieldConfig("friends", &gql.Field{
		Type: gql.NewList(user), Args: gql.FieldConfigArgument{"first": {Type: gql.NewNonNull(gql.Int)}, "named": {Type: gql.String}},
		Resolve: func(p gql.ResolveParams) (any, error) {
			return []any{map[string]any{"id": "2", "name": p.Args["named"]}}[:p.Args["first"].(int)], nil
		},
	})
	dog := gql.NewObject(gql.ObjectConfig{Name: "Dog", Fields: gql.Fields{"barks": {Type: gql.Boolean}}})
	// Cats and birds have fields of like names that differ in their types.
	cat := gql.NewObject(gql.ObjectConfig{Name: "Cat", Fields: gql.Fields{"name": {Type: gql.NewNonNull(gql.String)}, "lives": {Type: gql.Int}}})
	bird := gql.NewObject(gql.ObjectConfig{Name: "Bird", Fields: gql.Fields{"name": {Type: gql.String}, "lives": {Type: gql.String}}})
	pet := gql.NewUnion(gql.UnionConfig{Name: "Pet", Types: []*gql.Object{cat, bird}, ResolveType: func(gql.ResolveTypeParams) *gql.Object { return bird }})
	either := gql.NewUnion(gql.UnionConfig{Name: "Either", Types: []*gql.Object{user, dog}, ResolveType: func(gql.ResolveTypeParams) *gql.Object { return dog }})
	filter := gql.NewInputObject(gql.InputObjectConfig{Name: "Filter", Fields: gql.InputObjectConfigFieldMap{
		"name": {Type: gql.String}, "role": {Type: role, DefaultValue: "GUEST"},
	}})
	filter.AddFieldConfig("not", &gql.InputObjectFieldConfig{Type: filter})
	ann := func(gql.ResolveParams) (any, error) {
		return map[string]any{"id": "9007199254740993", "name": "Ann", "role": "ADMIN", "boss": map[string]any{"id": "7", "name": "Bo"}}, nil
	}
	query := gql.NewObject(gql.ObjectConfig{Name: "Query", Fields: gql.Fields{
		"user":   {Type: user, Description: "Find a user.", Args: gql.FieldConfigArgument{"id": {Type: gql.NewNonNull(gql.ID)}}, Resolve: ann},
		"users":  {Type: gql.NewList(user), Args: gql.FieldConfigArgument{"where": {Type: filter}}, Resolve: func(p gql.ResolveParams) (any, error) { return []any{}, s.save(p.Args) }},
		"either": {Type: either, Resolve: func(gql.ResolveParams) (any, error) { return map[string]any{"barks": true}, nil }},
		"pet":    {Type: pet, Resolve: func(gql.ResolveParams) (any, error) { return map[string]any{"name": "Tweety", "lives": "one"}, nil }},
		"echo":   {Type: gql.String, Args: gql.FieldConfigArgument{"text": {Type: gql.String}}, Resolve: func(p gql.ResolveParams) (any, error) { return p.Args["text"], nil }},
		"fails":  text(func(gql.ResolveParams) (any, error) { return nil, errors.New("the shelf is empty") }),
		"wait": text(func(p gql.ResolveParams) (any, error) {
			s.waiting.Add(1)
			defer s.waiting.Add(-1)
			<-p.Context.Done()
			return nil, p.Context.Err()
		}),
	}})
	mutation := gql.NewObject(gql.ObjectConfig{Name: "Mutation", Fields: gql.Fields{
		"rename": {Type: user, Args: gql.FieldConfigArgument{"id": {Type: gql.NewNonNull(gql.ID)}, "name": {Type: gql.NewNonNull(gql.String)}}, Resolve: ann},
		"echo":   text(func(gql.ResolveParams) (any, error) { return nil, errors.New("no") }),
	}})
	described, err := gql.NewSchema(gql.SchemaConfig{Query: query, Mutation: mutation})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Query     string
			Variables map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		if r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if !strings.Contains(body.Query, "__schema") {
			s.mu.Lock()
			s.queries, s.header = append(s.queries, body.Query), r.Header
			s.mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(gql.Do(gql.Params{Schema: described, RequestString: body.Query, VariableValues: body.Variables, Context: r.Context()}))
	}))
	t.Cleanup(s.Server.Close)
	return s
}

func (s *service) save(args map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = args
	return nil
}

func (s *service) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[len(s.queries)-1]
}

func open(t *testing.T, c graphql.Config) *graphql.Source {
	t.Helper()
	c.Headers = map[string]string{"Authorization": "Bearer secret://shop/token"}
	s, err := graphql.New("shop", c, graphql.Options{Resolve: func(context.Context, string) (string, error) { return "sesame", nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, s source.Source, tool, arguments string) (*source.Output, error) {
	t.Helper()
	return s.Call(t.Context(), &source.Request{Tool: toolroom.ID{Namespace: "shop", Name: tool}, Arguments: []byte(arguments), Emit: func(toolroom.Event) {}})
}

func tools(t *testing.T, s source.Source) map[string]toolroom.Tool {
	t.Helper()
	list, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]toolroom.Tool{}
	for _, one := range list {
		out[one.ID.Name] = one
	}
	return out
}

func TestAGraphQLServiceKeepsTheContractOfSources(t *testing.T) {
	shop := serve(t)
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "shop",
		Open:      func(t *testing.T) source.Source { return open(t, graphql.Config{URL: shop.URL}) },
		Good:      sourcetest.Call{Tool: "user", Arguments: `{"id": "1"}`, Want: `{"id": "9007199254740993", "name": "Ann", "role": "ADMIN", "secret": null}`},
		Failing:   sourcetest.Call{Tool: "fails"},
		Slow:      sourcetest.Call{Tool: "wait"},
		Running:   func() int { return int(shop.waiting.Load()) },
	})
}

func TestQueriesAndMutationsAreToolsWithSchemasAndHints(t *testing.T) {
	shop := serve(t)
	all := tools(t, open(t, graphql.Config{URL: shop.URL}))
	if len(all) != 9 {
		t.Errorf("there are %d tools: %v", len(all), all)
	}
	if u := all["user"]; !u.Hints.IsReadOnly() || u.RepeatGuarantee() != toolroom.GuaranteeSafe || !strings.Contains(u.Description, "Find a user. Returns User") {
		t.Errorf("the query is %+v", u)
	}
	if m := all["rename"]; m.Hints.IsReadOnly() || !m.Hints.IsDestructive() || m.RepeatGuarantee() != toolroom.GuaranteeNever {
		t.Errorf("the mutation is %+v", m)
	}
	if m, ok := all["echo.mutation"]; !ok || m.Hints.IsReadOnly() {
		t.Errorf("a mutation of the same name as a query is %+v", m)
	}
	for arguments, fits := range map[string]bool{
		`{"where": {"name": "a", "role": "ADMIN", "not": {"not": {"name": "b"}}}}`: true,
		`{"where": {"role": "BOSS"}}`: false, `{"where": {"size": 1}}`: false, `{"fields": "id"}`: true, `{}`: true,
	} {
		if err := validate(t, all["users"].InputSchema, arguments); (err == nil) != fits {
			t.Errorf("%s: %v, want it to fit: %v", arguments, err, fits)
		}
	}
	if err := validate(t, all["user"].InputSchema, `{}`); err == nil {
		t.Error("the required argument may be left out")
	}
	chosen := tools(t, open(t, graphql.Config{URL: shop.URL, Include: []string{"mutation", "us*"}, Exclude: []string{"rename"}}))
	if len(chosen) != 3 { // user, users and the mutation echo
		t.Errorf("the chosen tools are %v", chosen)
	}
}

func validate(t *testing.T, s json.RawMessage, arguments string) error {
	t.Helper()
	compiled, err := schema.Compile(s, schema.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal([]byte(arguments), &tree); err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(tree)
}

func TestArgumentsAreVariablesAndFieldsAreChecked(t *testing.T) {
	shop := serve(t)
	s := open(t, graphql.Config{URL: shop.URL})
	hostile := `"}) { id } } mutation { rename(id: 1, name: \"x\") { id } } #`
	out, err := call(t, s, "echo", `{"text": `+quote(hostile)+`}`)
	if err != nil || strings.Contains(shop.last(), "rename") || !strings.Contains(string(out.Value), "rename") {
		t.Errorf("%v, sent %s", err, shop.last())
	}
	if _, err := call(t, s, "users", `{"where": {"name": "a", "not": {"role": "ADMIN"}}}`); err != nil || shop.saved["where"].(map[string]any)["name"] != "a" {
		t.Errorf("%v, the service got %v", err, shop.saved)
	}
	for fields, want := range map[string]string{
		"id":                    `{"id":"9007199254740993"}`,
		"{ id, boss { name } }": `{"boss":{"name":"Bo"},"id":"9007199254740993"}`,
		"name boss":             `{"boss":{"id":"7","name":"Bo","role":null,"secret":null},"name":"Ann"}`,
		"__typename":            `{"__typename":"User"}`,
		`friends(first: 1, named: "a\"b") {name}`: `{"friends":[{"name":"a\"b"}]}`,
	} {
		out, err := call(t, s, "user", `{"id": "1", "fields": `+quote(fields)+`}`)
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		var got any
		_ = json.Unmarshal(out.Value, &got)
		if text, _ := json.Marshal(got); string(text) != want {
			t.Errorf("%s: %s, want %s", fields, text, want)
		}
	}
	for _, fields := range []string{
		"id } } mutation { rename(id: 1, name: 2) { id }", "nothing", "id { name }", "boss {", "boss { }", "friends { id }", `friends(first: 1, first: 2) { id }`,
		"friends(first: $x) { id }", "id @skip(if: true)", "a: id", "...", "... on Nobody { id }", "# id", "friends(first: {) { id }", `friends(first: 1, named: "\q") { id }`, "{}", "}",
		strings.Repeat("boss { ", 12) + "id" + strings.Repeat(" }", 12), strings.Repeat("id ", 2000),
	} {
		if _, err := call(t, s, "user", `{"id": "1", "fields": `+quote(fields)+`}`); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if _, err := call(t, s, "either", `{}`); err != nil || !strings.Contains(shop.last(), "... on Dog { barks }") {
		t.Errorf("a union: %v, %s", err, shop.last())
	}
}

// The default selection of a union is a valid query also if fields of its members have one name
// and different types.
func TestFieldsOfAUnionThatDifferGetNamesOfTheirOwn(t *testing.T) {
	shop := serve(t)
	out, err := call(t, open(t, graphql.Config{URL: shop.URL}), "pet", `{}`)
	if err != nil || out.Failed || string(out.Value) != `{"Bird_lives":"one","Bird_name":"Tweety","__typename":"Bird"}` {
		t.Errorf("%v, %+v, sent %s", err, out, shop.last())
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestErrorsAreFailuresAndPartialDataHasANote(t *testing.T) {
	shop := serve(t)
	s := open(t, graphql.Config{URL: shop.URL})
	out, err := call(t, s, "fails", `{}`)
	if err != nil || !out.Failed || out.Effects != toolroom.EffectsNone || !strings.Contains(out.Content[0].Text, "the shelf is empty (at fails)") {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err = call(t, s, "echo.mutation", `{}`); err != nil || !out.Failed || out.Effects != toolroom.EffectsUnknown {
		t.Errorf("a mutation that failed may have acted: %+v, %v", out, err)
	}
	out, err = call(t, s, "user", `{"id": "1", "fields": "name secret"}`)
	if err != nil || out.Failed || string(out.Value) != `{"name":"Ann","secret":null}` || len(out.Content) != 2 || !strings.Contains(out.Content[1].Text, "only the owner may see it (at user.secret)") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAServiceThatIsNoneOrTooLargeIsRefused(t *testing.T) {
	huge := `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[{"kind":"OBJECT","name":"Query","fields":[` +
		strings.Repeat(`{"name":"a","args":[],"type":{"kind":"SCALAR","name":"Int"}},`, 2100) + `{"name":"b","args":[],"type":{"kind":"SCALAR","name":"Int"}}]}]}}}`
	for name, c := range map[string]struct {
		answer string
		code   toolroom.Code
		text   string
	}{
		"a page":            {"<html>", toolroom.CodeInvalidOutput, ""},
		"another API":       {`{"ok": true}`, toolroom.CodeInvalidOutput, ""},
		"no introspection":  {`{"errors": [{"message": "introspection is disabled"}]}`, toolroom.CodeUpstreamError, "introspection is disabled"},
		"no data":           {`{"data": null, "errors": [{"message": "introspection is disabled"}]}`, toolroom.CodeUpstreamError, "introspection is disabled"},
		"a path as a text":  {`{"data": null, "errors": [{"message": "it is off", "path": "shop.items"}]}`, toolroom.CodeUpstreamError, "it is off (at shop.items)"},
		"a path of steps":   {`{"data": null, "errors": [{"message": "it is off", "path": ["shop", 0]}]}`, toolroom.CodeUpstreamError, "it is off (at shop.0)"},
		"an empty schema":   {`{"data": {"__schema": {"types": []}}}`, toolroom.CodeUpstreamError, ""},
		"too many":          {huge, toolroom.CodeResourceLimit, ""},
		"types without end": {`{"data": {"__schema": {"queryType": {"name": "Q"}, "types": [{"name": "Q", "kind": "OBJECT", "fields": [{"name": "q", "args": [], "type": {"kind": "OBJECT", "name": "Q"}}]}]}}}`, "", ""},
		"names that inject": {`{"data": {"__schema": {"queryType": {"name": "Q"}, "types": [{"name": "Q", "kind": "OBJECT", "fields": [{"name": "q } mutation { x", "args": [], "type": {"name": "Int"}}, {"name": "ok", "args": [], "type": {"name": "Int"}}]}]}}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(c.answer))
			}))
			defer web.Close()
			list, err := open(t, graphql.Config{URL: web.URL}).Tools(t.Context())
			if toolroom.CodeOf(err) != c.code && (c.code != "" || err != nil) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, %d tools", err, len(list))
			}
			if c.code == "" && len(list) != 1 {
				t.Errorf("the tools are %v", list)
			}
		})
	}
}

func TestAServiceThatDoesNotAnswerSaysWhatToCheck(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no POST here", http.StatusNotImplemented)
	}))
	defer web.Close()
	_, err := open(t, graphql.Config{URL: web.URL}).Tools(t.Context())
	if e := toolroom.AsError(err); e == nil || !strings.HasPrefix(e.Message, "cannot read the schema: POST ") || e.Hint != "check the url of the source, and that it serves GraphQL" {
		t.Errorf("got %v", err)
	}
}

// FuzzSelection checks that what a caller selects never ends the braces around it.
func FuzzSelection(f *testing.F) {
	for _, seed := range []string{"id", "{ id boss { name } }", `friends(first: 1, named: "}") { id }`, "... on User { id }"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, fields string) {
		built, err := graphql.ParseSelectionForTest(fields)
		if err != nil {
			return
		}
		depth, quoted := 0, false
		for i := 0; i < len(built); i++ {
			switch c := built[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && c == '{':
				depth++
			case !quoted && c == '}':
				if depth--; depth < 0 {
					t.Fatalf("%q became %q", fields, built)
				}
			}
		}
		if depth != 0 || quoted || strings.ContainsAny(built, "$#") && !strings.Contains(built, `"`) {
			t.Fatalf("%q became %q", fields, built)
		}
	})
}

// TestNullIsAValue gives null to arguments, which GraphQL permits where they may be left
// out, and which says something else there.
func TestNullIsAValue(t *testing.T) {
	s := serve(t)
	shop := open(t, graphql.Config{URL: s.URL})
	all := tools(t, shop)
	for _, c := range []struct {
		tool, arguments string
		fits            bool
	}{
		{"users", `{"where": null}`, true},
		{"users", `{"where": {"not": null}}`, true},
		{"echo", `{"text": null}`, true},
		{"user", `{"id": null}`, false},
		{"rename", `{"id": "1", "name": null}`, false},
	} {
		if err := validate(t, all[c.tool].InputSchema, c.arguments); (err == nil) != c.fits {
			t.Errorf("%s %s: %v", c.tool, c.arguments, err)
		}
	}
	out, err := call(t, shop, "users", `{"where": null}`)
	if err != nil || out.Failed || !strings.Contains(s.last(), "where: $where") {
		t.Errorf("%+v, %v, sent %s", out, err, s.last())
	}
}
