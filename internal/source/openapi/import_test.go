package openapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/source/openapi"
)

const here = "http://127.0.0.1:1"

// list imports a document that is a file.
func list(t *testing.T, spec string) ([]toolroom.Tool, error) {
	t.Helper()
	return open(t, openapi.Config{Spec: spec, BaseURL: here}).Tools(t.Context())
}

// inputOf is the schema of the argument p of a document's only operation.
func inputOf(t *testing.T, version, parameterSchema, components string) []byte {
	t.Helper()
	doc := strings.Replace(document("get", "/", parameters("{name: p, in: query, schema: "+parameterSchema+"}")), "3.1.0", version, 1) + components
	found, err := list(t, write(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Compile(found[0].InputSchema, schema.Limits{}); err != nil {
		t.Fatalf("%v in %s", err, found[0].InputSchema)
	}
	return found[0].InputSchema
}

func TestSchemasBecomeJSONSchema202012(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, version, schema, want string }{
		{"3.0 nullable type", "3.0.3", "{type: string, nullable: true, enum: [a]}", `{"type":["string","null"],"enum":["a",null]}`},
		{"3.0 nullable without type", "3.0.3", "{nullable: true, oneOf: [{type: string}]}", `{"anyOf":[{"oneOf":[{"type":"string"}]},{"type":"null"}]}`},
		{"3.0 exclusive bounds", "3.0.3", "{type: integer, minimum: 1, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false}", `{"type":"integer","exclusiveMinimum":1,"maximum":9}`},
		{"3.0 example", "3.0.3", "{type: string, example: x}", `{"type":"string","examples":["x"]}`},
		{"3.0 byte", "3.0.3", "{type: string, format: byte}", `{"type":"string","contentEncoding":"base64"}`},
		{"3.1 types and bounds", "3.1.0", "{type: [integer, 'null'], exclusiveMinimum: 1}", `{"type":["integer","null"],"exclusiveMinimum":1}`},
		{"3.1 boolean schemas", "3.1.0", "{type: array, prefixItems: [true, false], items: false, const: [1]}", `{"type":"array","prefixItems":[{},false],"items":false,"const":[1]}`},
		{
			"3.1 conditions", "3.1.0", "{if: {type: string}, then: {minLength: 1}, else: {not: {type: 'null'}}, dependentRequired: {a: [b]}}",
			`{"if":{"type":"string"},"then":{"minLength":1},"else":{"not":{"type":"null"}},"dependentRequired":{"a":["b"]}}`,
		},
		{"what validators do not know is left out", "3.1.0", "{x-a: 1, xml: {}, discriminator: {propertyName: a}, $id: 'http://x/', $anchor: a, type: string}", `{"type":"string"}`},
		{
			"what is of the wrong kind is left out", "3.0.3",
			"{type: file, required: true, minLength: '1', maxLength: -1, minItems: 1.5, multipleOf: 0, enum: {}, pattern: [a], allOf: [], items: [{type: string}], properties: []}",
			`{}`,
		},
		{"large numbers stay", "3.1.0", "{maximum: 9223372036854775807, default: 123456789012345678901234567890}", `{"maximum":9223372036854775807,"default":123456789012345678901234567890}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := string(inputOf(t, test.version, test.schema, ""))
			got = strings.TrimSuffix(strings.TrimPrefix(got, `{"additionalProperties":false,"properties":{"p":`), `},"type":"object"}`)
			if strings.Contains(test.want, "123456789012345678901234567890") && !strings.Contains(got, "123456789012345678901234567890") {
				t.Errorf("digits were lost: %s", got)
			}
			sameJSON(t, test.schema, test.want, []byte(got))
		})
	}
}

func TestReferencesBecomeDefinitions(t *testing.T) {
	t.Parallel()
	components := `components:
  schemas:
    Tree: {type: object, properties: {children: {type: array, items: {$ref: "#/components/schemas/Tree"}}}}
    Alias: {$ref: "#/components/schemas/Tree"}
    Part: {type: object, properties: {inner: {type: string, minLength: 3}}}
`
	sameJSON(t, "recursive", `{"type":"object","additionalProperties":false,"properties":{"p":{"$ref":"#/$defs/Alias"}},
		"$defs":{"Alias":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Alias"}}}}}}`,
		inputOf(t, "3.1.0", `{$ref: "#/components/schemas/Alias"}`, components))
	sameJSON(t, "into a schema", `{"type":"object","additionalProperties":false,"properties":{"p":{"$ref":"#/$defs/inner"}},"$defs":{"inner":{"type":"string","minLength":3}}}`,
		inputOf(t, "3.0.0", `{$ref: "#/components/schemas/Part/properties/inner", description: ignored}`, components))
	sameJSON(t, "with siblings in 3.1", `{"type":"object","additionalProperties":false,"properties":{"p":{"$ref":"#/$defs/inner","description":"kept"}},"$defs":{"inner":{"type":"string","minLength":3}}}`,
		inputOf(t, "3.1.0", `{$ref: "#/components/schemas/Part/properties/inner", description: kept}`, components))
}

// folder writes files and gives the path of the first.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, "docs", files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "docs", files[0])
}

func withRef(ref string) string {
	return document("get", "/", parameters(`{name: p, in: query, schema: {$ref: "`+ref+`"}}`))
}

func TestADocumentRefersToFilesInItsFolder(t *testing.T) {
	t.Parallel()
	spec := folder(t,
		"api.yaml", withRef("parts/a.yaml#/A"),
		"parts/a.yaml", `A: {type: object, properties: {b: {$ref: "../b.json#/B"}, c: {$ref: "#/C"}}}`+"\nC: {type: integer}\n",
		"b.json", `{"B": {"type": "string"}}`,
	)
	found, err := list(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "schema", `{"type":"object","additionalProperties":false,"properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{
		"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"},"c":{"$ref":"#/$defs/C"}}},"B":{"type":"string"},"C":{"type":"integer"}}}`, found[0].InputSchema)
}

func TestReferencesThatLeadAstrayAreTypedErrors(t *testing.T) {
	t.Parallel()
	secret := `{"A": {"type": "string", "description": "outside"}}`
	for _, test := range []struct {
		name, ref string
		code      toolroom.Code
	}{
		{"to another host", "http://127.0.0.1:1/x.yaml#/A", toolroom.CodeUnsupported},
		{"to a scheme", "file:///etc/passwd", toolroom.CodeUnsupported},
		{"to a host without scheme", "//127.0.0.1/x.yaml", toolroom.CodeUnsupported},
		{"to an absolute path", "/etc/passwd", toolroom.CodeUnsupported},
		{"upwards", "../outside.json#/A", toolroom.CodeUnsupported},
		{"upwards by detours", "parts/../../outside.json#/A", toolroom.CodeUnsupported},
		{"upwards, escaped", "%2e%2e/outside.json#/A", toolroom.CodeUnsupported},
		{"through a link out of the folder", "link.json#/A", toolroom.CodeUpstreamError},
		{"to a folder", "parts", toolroom.CodeUpstreamError},
		{"to a file that is not there", "none.yaml", toolroom.CodeUpstreamError},
		{"to nothing", "#/components/schemas/None", toolroom.CodeUpstreamError},
		{"to an anchor", "#anchor", toolroom.CodeUpstreamError},
		{"in a circle", "#/components/schemas/Circle", toolroom.CodeUpstreamError},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := folder(t,
				"api.yaml", withRef(test.ref)+`components: {schemas: {Circle: {$ref: "#/components/schemas/Circle"}}}`+"\n",
				"parts/x", "", "../outside.json", secret)
			if err := os.Symlink("../outside.json", filepath.Join(filepath.Dir(spec), "link.json")); err != nil {
				t.Fatal(err)
			}
			_, err := list(t, spec)
			if toolroom.CodeOf(err) != test.code {
				t.Fatalf("got %v (%s), want %s", err, toolroom.CodeOf(err), test.code)
			}
			if !strings.Contains(err.Error(), "GET /: ") {
				t.Errorf("the error does not name the operation: %v", err)
			}
		})
	}
}

func TestBrokenDocumentsAreTypedErrorsWithTheirPlace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		code       toolroom.Code
		message    string
	}{
		{"empty", "", toolroom.CodeUpstreamError, "empty"},
		{"broken JSON", "{\n\"openapi\": \"3.0.0\",\n]", toolroom.CodeUpstreamError, "line 2"},
		{"broken YAML", "openapi: 3.0.0\npaths:\n  - a\n b: [", toolroom.CodeUpstreamError, "line"},
		{"a key twice", "openapi: 3.0.0\nopenapi: 3.1.0\n", toolroom.CodeUpstreamError, `"openapi" is there twice`},
		{"a list", "- a\n", toolroom.CodeUpstreamError, "not a JSON object"},
		{"a binary", "\x00\x01\x02", toolroom.CodeUpstreamError, ""},
		{"Swagger 1", "swagger: '1.2'\n", toolroom.CodeUnsupported, `says swagger: "1.2"`},
		{"no version", "a: 1\n", toolroom.CodeUnsupported, "nothing of the kind"},
		{"an alias inside of what it names", "a: &a\n  b: *a\n", toolroom.CodeUpstreamError, ""},
		{"deep JSON", `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", toolroom.CodeUpstreamError, "levels of nesting"},
		{"deep YAML", "a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), toolroom.CodeUpstreamError, "levels of nesting"},
		{"a path without slash", "openapi: 3.1.0\npaths: {pets: {}}\n", toolroom.CodeUpstreamError, "line 2"},
		{"a broken reference", "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      requestBody: {$ref: '#/x'}\n", toolroom.CodeUpstreamError, "line 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := list(t, write(t, test.text))
			if toolroom.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v (%s), want %s: %s", err, toolroom.CodeOf(err), test.code, test.message)
			}
		})
	}
	if _, err := list(t, filepath.Join(t.TempDir(), "none.yaml")); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a document that is not there: got %v", err)
	}
}

func TestHostileDocumentsEndInBoundedTime(t *testing.T) {
	t.Parallel()
	// Each of many references leads to the same large schema. A resolver that
	// walks what it has resolved before takes minutes for this.
	quadratic := func() string {
		var large, refs strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&large, `"p%d":{"type":"string"},`, i)
			fmt.Fprintf(&refs, `"q%d":{"$ref":"#/components/schemas/Large"},`, i)
		}
		return `{"openapi":"3.0.0","paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Refs"}}}}}}},
			"components":{"schemas":{"Large":{"properties":{` + strings.TrimSuffix(large.String(), ",") + `}},"Refs":{"properties":{` + strings.TrimSuffix(refs.String(), ",") + `}}}}}`
	}
	// Ten levels of nine aliases each stand for three billion values.
	bomb := func() string {
		var b strings.Builder
		b.WriteString("openapi: 3.1.0\nx0: &x0 [a, a, a, a, a, a, a, a, a]\n")
		for i := 1; i < 10; i++ {
			fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 9), ", "))
		}
		b.WriteString("paths: {/a: {get: {parameters: [{name: p, in: query, schema: {default: *x9}}]}}}\n")
		return b.String()
	}
	chain := func() string {
		var b strings.Builder
		b.WriteString(`{"openapi":"3.0.0","paths":{"/a":{"get":{"parameters":[{"name":"p","in":"query","schema":{"$ref":"#/components/schemas/S0"}}]}}},"components":{"schemas":{`)
		for i := range 100_000 {
			fmt.Fprintf(&b, `"S%d":{"items":{"$ref":"#/components/schemas/S%d"}},`, i, i+1)
		}
		b.WriteString(`"S100000":{}}}}`)
		return b.String()
	}
	many := func() string {
		var b strings.Builder
		b.WriteString(`{"openapi":"3.0.0","paths":{`)
		for i := range 5_001 {
			fmt.Fprintf(&b, `"/p%d":{"get":{}},`, i)
		}
		return strings.TrimSuffix(b.String(), ",") + "}}"
	}
	for _, test := range []struct {
		name, text, note string
		code             toolroom.Code
	}{
		{"quadratic references", quadratic(), "The schema of the arguments is left out", ""},
		{"a YAML bomb", bomb(), "", toolroom.CodeResourceLimit},
		{"a chain of 100,000 schemas", chain(), "The schema of the arguments is left out", ""},
		{"too many operations", many(), "", toolroom.CodeResourceLimit},
		{"too many bytes", `{"openapi":"3.0.0","x":"` + strings.Repeat("x", 16<<20) + `"}`, "", toolroom.CodeResourceLimit},
		{"too many values", `{"openapi":"3.0.0","x":[` + strings.Repeat("1,", 2_000_000) + `1]}`, "", toolroom.CodeResourceLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found, err := list(t, write(t, test.text))
			if toolroom.CodeOf(err) != test.code {
				t.Fatalf("got %v (%s), want %q", err, toolroom.CodeOf(err), test.code)
			}
			if err == nil && !strings.Contains(found[0].Notes, test.note) {
				t.Errorf("notes: %q", found[0].Notes)
			}
		})
	}
}

func TestListingStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := open(t, openapi.Config{Spec: write(t, document("get", "/", "")), BaseURL: here})
	if _, err := s.Tools(ctx); toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("got %v", err)
	}
	if _, err := s.Tools(t.Context()); err != nil {
		t.Errorf("the source does not recover: %v", err)
	}
}

func TestOperationsWithoutAnIDAreNamedByMethodAndPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	found, err := list(t, write(t, `openapi: 3.1.0
paths:
  /pets/{id}/photos: {get: {}, post: {operationId: "photos/add one!"}}
  /a: {get: {operationId: same}, put: {operationId: same}}
  /b: {get: {operationId: `+long+`}, put: {operationId: `+long+`}}
  /: {get: {}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range found {
		if err := tool.ID.Validate(); err != nil {
			t.Error(err)
		}
		names = append(names, tool.ID.Name)
	}
	want := []string{"get_pets_id_photos", "photos_add_one", "same", "same_2"}
	if diff := cmp.Diff(want, names[:4]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if names[4] == names[5] || !strings.HasPrefix(names[4], "xxx") || names[6] != "get" {
		t.Errorf("got %q", names[4:])
	}
}

func TestTheServerComesFromTheNearestPlace(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".yaml") {
			_, _ = fmt.Fprint(w, `openapi: 3.1.0
servers: [{url: "/{version}/", variables: {version: {default: v7}}}]
paths:
  /doc: {get: {operationId: doc}}
  /item: {servers: [{url: "../up"}], get: {operationId: item}, put: {operationId: op, servers: [{url: "`+"http://"+r.Host+`/own"}]}}
`)
			return
		}
		asked = r.URL.Path
	}))
	defer server.Close()
	for tool, want := range map[string]string{"doc": "/v7/doc", "item": "/up/item", "op": "/own/item"} {
		s := open(t, openapi.Config{Spec: server.URL + "/specs/api.yaml"})
		if _, err := call(t, s, tool, `{}`); err != nil || asked != want {
			t.Errorf("%s: asked %s (%v), want %s", tool, asked, err, want)
		}
		s = open(t, openapi.Config{Spec: server.URL + "/specs/api.yaml", BaseURL: server.URL + "/base"})
		if _, err := call(t, s, tool, `{}`); err != nil || !strings.HasPrefix(asked, "/base/") {
			t.Errorf("%s: base_url was not used: asked %s (%v)", tool, asked, err)
		}
	}
}

func TestADocumentCannotSendCredentialsToAHostOfItsChoice(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "openapi: 3.1.0\nservers: [{url: http://192.0.2.1/}]\npaths: {/a: {get: {}}}\ncomponents: {securitySchemes: {k: {type: http, scheme: bearer}}}\n")
	}))
	defer server.Close()
	config := openapi.Config{Spec: server.URL + "/api.yaml", Auth: map[string]string{"k": "secret://pets/key"}}
	_, err := open(t, config).Tools(t.Context())
	if toolroom.CodeOf(err) != toolroom.CodeUnsupported || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("got %v, want a refusal that names the host", err)
	}
	config.BaseURL = "http://192.0.2.1/"
	if _, err := open(t, config).Tools(t.Context()); err != nil {
		t.Errorf("with base_url set: %v", err)
	}
}

func TestADocumentWithoutAServerAsksForBaseURL(t *testing.T) {
	t.Parallel()
	_, err := open(t, openapi.Config{Spec: write(t, document("get", "/", ""))}).Tools(t.Context())
	if !strings.Contains(toolroom.AsError(err).Hint, "base_url") {
		t.Errorf("got %v with hint %q", err, toolroom.AsError(err).Hint)
	}
}

func TestCredentialsForASchemeThatIsNotThereAreAMistake(t *testing.T) {
	t.Parallel()
	doc := document("get", "/", "") + "components: {securitySchemes: {token: {type: http, scheme: bearer}}}\n"
	s := open(t, openapi.Config{Spec: write(t, doc), BaseURL: here, Auth: map[string]string{"tokne": "x"}})
	_, err := s.Tools(t.Context())
	if err == nil || !strings.Contains(toolroom.AsError(err).Hint, "token") {
		t.Errorf("got %v, want the names that there are", err)
	}
	if state := s.Describe().State; state != "broken" {
		t.Errorf("the source says that it is %s", state)
	}
}

func TestValidateReportsEveryMistakeWithItsKey(t *testing.T) {
	t.Parallel()
	config := openapi.Config{
		BaseURL: "http://user:pass@example.com", Headers: map[string]string{"Host": "x"},
		Auth: map[string]string{"k": ""}, Timeout: -1, MaxResponse: -1,
	}
	err := config.Validate()
	for _, key := range []string{"spec: ", "base_url: ", "headers.Host: ", "auth.k: ", "timeout: ", "max_response: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no mention of %q in %v", key, err)
		}
	}
}

// FuzzImport looks for a document that makes the import panic, or that gives a
// tool which cannot be used.
func FuzzImport(f *testing.F) {
	for _, unit := range []string{`[`, `{a: `, `- `, `{"a":`, `? `} { // nested deep
		f.Add([]byte(strings.Repeat(unit, 20_000)), `{}`)
	}
	f.Add([]byte(document("get", "/{a}", parameters("{name: a, in: path, schema: {$ref: '#/components/schemas/A'}}"))+
		"components: {schemas: {A: {allOf: [{$ref: '#/components/schemas/B'}]}, B: {type: object, nullable: true, properties: {a: {$ref: '#/components/schemas/A'}}}}}\n"), `{"a":1}`)
	f.Add([]byte(`{"openapi":"3.0.0","security":[{"k":[]}],"paths":{"/x":{"post":{"requestBody":{"content":{"multipart/form-data":{"schema":{"type":"object","properties":{"f":{"type":"string","format":"binary"}}}}}},"responses":{"200":{"content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`), `{"f":"AA=="}`)
	f.Add([]byte("openapi: 3.1.0\na: &a {x: 1}\npaths:\n  /x:\n    <<: *a\n    put: {requestBody: {content: {text/plain: {}}}}\n"), `{"body":[]}`)
	f.Fuzz(func(t *testing.T, text []byte, arguments string) {
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/api.yaml" {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, nil
			}
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
		})
		s, err := openapi.New("pets", openapi.Config{Spec: here + "/api.yaml"}, openapi.Options{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found, err := s.Tools(t.Context())
		if err != nil {
			if code := toolroom.CodeOf(err); code == toolroom.CodeInternal {
				t.Fatalf("the error has no code: %v", err)
			}
			return
		}
		for _, tool := range found {
			if err := tool.ID.Validate(); err != nil {
				t.Fatal(err)
			}
			if tool.InputSchema == nil {
				t.Fatalf("%s has no input schema", tool.ID)
			}
			if _, err := call(t, s, tool.ID.Name, arguments); err != nil && toolroom.CodeOf(err) == toolroom.CodeInternal {
				t.Fatalf("the error of a call has no code: %v", err)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestServerVariablesMayBeNumbers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	s := open(t, openapi.Config{Spec: write(t, document("get", "/a", "")+
		"servers: [{url: \"http://"+host+":{port}\", variables: {port: {default: "+port+"}}}]\n")})
	if _, err := call(t, s, "op", `{}`); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyPropertiesOfAnotherBranchAreNotRequired(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"flat":              "allOf: [{$ref: '#/components/schemas/Base'}, {type: object, required: [id, name], properties: {name: {type: string}}}]",
		"beside allOf":      "allOf: [{$ref: '#/components/schemas/Base'}], required: [id, name], properties: {name: {type: string}}",
		"one argument":      "minProperties: 1, allOf: [{$ref: '#/components/schemas/Base'}, {type: object, required: [id, name], properties: {name: {type: string}}}]",
		"one, beside allOf": "minProperties: 1, allOf: [{$ref: '#/components/schemas/Base'}], required: [id, name], properties: {name: {type: string}}",
	} {
		s := open(t, openapi.Config{BaseURL: here, Spec: write(t, document("post", "/a",
			"      requestBody: {required: true, content: {application/json: {schema: {"+schema+"}}}}\n")+
			"components: {schemas: {Base: {type: object, properties: {id: {type: integer, readOnly: true}}}}}\n")})
		input := string(tools(t, s)["op"].InputSchema)
		if strings.Contains(input, `"id"`) || !strings.Contains(input, `"required":["name"]`) {
			t.Errorf("%s: %s", name, input)
		}
	}
}
