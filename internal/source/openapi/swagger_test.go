package openapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/source/openapi"
)

const swagger = `swagger: "2.0"
info: {title: Pets, version: "1"}
host: pets.example.com
basePath: /v2
schemes: [http, https]
consumes: [application/json]
produces: [application/json]
securityDefinitions:
  key: {type: apiKey, in: header, name: X-Key}
  user: {type: basic}
parameters:
  page: {name: page, in: query, type: integer}
  pet: {name: pet, in: body, required: true, schema: {$ref: "#/definitions/Pet"}}
responses:
  One: {description: one, schema: {$ref: "#/definitions/Pet"}}
definitions:
  Pet:
    type: object
    required: [name]
    properties:
      name: {type: string}
      parent: {$ref: "#/definitions/Pet"}
      note: {type: string, x-nullable: true}
paths:
  /pets:
    parameters: [{$ref: "#/parameters/page"}]
    get:
      operationId: listPets
      security: [{key: []}]
      parameters:
        - {name: tags, in: query, type: array, items: {type: string, enum: [a, b]}, collectionFormat: multi}
        - {name: ids, in: query, type: array, items: {type: integer}, collectionFormat: pipes}
        - {name: X-Trace, in: header, type: string}
      responses: {"200": {description: all, schema: {type: array, items: {$ref: "#/definitions/Pet"}}}}
    post:
      operationId: addPet
      parameters: [{$ref: "#/parameters/pet"}]
      responses: {"200": {$ref: "#/responses/One"}}
  /pets/{id}/photo:
    post:
      operationId: addPhoto
      consumes: [multipart/form-data]
      parameters:
        - {name: id, in: path, required: true, type: integer}
        - {name: title, in: formData, type: string, required: true}
        - {name: photo, in: formData, type: file}
      responses: {"200": {description: done}}
  /login:
    post:
      operationId: login
      consumes: [application/x-www-form-urlencoded]
      parameters: [{name: user, in: formData, type: string, required: true}]
      responses: {"200": {description: done}}
`

func TestSwagger2IsConverted(t *testing.T) {
	t.Parallel()
	type request struct{ line, body, key, kind string }
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = request{r.Method + " " + r.RequestURI, string(body), r.Header.Get("X-Key"), r.Header.Get("Content-Type")}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"name": "Rex"}`)
	}))
	t.Cleanup(server.Close)
	s := open(t, openapi.Config{Spec: write(t, swagger), BaseURL: server.URL + "/v2", Auth: map[string]string{"key": "k1"}})
	list, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list {
		names = append(names, tool.ID.Name)
		if text := string(tool.InputSchema) + string(tool.OutputSchema); strings.Contains(text, "#/definitions/Pet\"") && !strings.Contains(text, "$defs") {
			t.Errorf("%s refers to what is not there: %s", tool.ID.Name, text)
		}
	}
	if want := []string{"listPets", "addPet", "addPhoto", "login"}; !slices.Equal(names, want) {
		t.Fatalf("the tools are %q", names)
	}
	tools(t, s)
	for _, c := range []struct {
		tool, arguments, line, body, key string
	}{
		{"listPets", `{"tags": ["a", "b"], "ids": [1, 2], "page": 3}`, "GET /v2/pets?", "", "k1"},
		{"addPet", `{"name": "Rex"}`, "POST /v2/pets", `{"name":"Rex"}`, ""},
		{"addPhoto", `{"id": 4, "title": "Rex"}`, "POST /v2/pets/4/photo", "Rex", ""},
		{"login", `{"user": "ann"}`, "POST /v2/login", "user=ann", ""},
	} {
		if _, err := call(t, s, c.tool, c.arguments); err != nil {
			t.Errorf("%s: %v", c.tool, err)
		}
		if !strings.HasPrefix(got.line, c.line) || !strings.Contains(got.body, c.body) || got.key != c.key {
			t.Errorf("%s: %+v", c.tool, got)
		}
		if c.tool == "listPets" {
			for _, part := range []string{"tags=a&tags=b", "page=3"} {
				if !strings.Contains(got.line, part) {
					t.Errorf("%s has no %s", got.line, part)
				}
			}
			if !strings.Contains(got.line, "ids=1%7C2") && !strings.Contains(got.line, "ids=1|2") {
				t.Errorf("%s has no ids", got.line)
			}
		}
	}
	if !strings.HasPrefix(got.kind, "application/x-www-form-urlencoded") {
		t.Errorf("a form is sent as %s", got.kind)
	}
	if !strings.Contains(string(list[1].OutputSchema), `"name"`) {
		t.Errorf("the answer of addPet has the schema %s", list[1].OutputSchema)
	}
}

func TestSwagger2NamesItsServer(t *testing.T) {
	t.Parallel()
	s := open(t, openapi.Config{Spec: write(t, strings.Replace(swagger, "pets.example.com", "127.0.0.1:1", 1))})
	if _, err := s.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, s, "login", `{"user": "ann"}`)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the call went to %v", err)
	}
}

// TestConvertingSwaggerIsBounded: documents of a megabyte took gigabytes, or minutes.
func TestConvertingSwaggerIsBounded(t *testing.T) {
	t.Parallel()
	list := func(n int, format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = strings.ReplaceAll(format, "#", strconv.Itoa(i))
		}
		return strings.Join(all, ",")
	}
	for name, text := range map[string]string{
		"types":      `{"swagger":"2.0","produces":[` + list(1500, `"a/#"`) + `],"responses":{` + list(1500, `"r#":{"schema":{}}`) + `}}`,
		"parameters": `{"swagger":"2.0","paths":{"/a":{"parameters":[` + list(300_000, `1`) + `],` + list(7, `"#":{}`) + `}}}`,
	} {
		for i, method := range []string{"get", "head", "options", "post", "put", "patch", "delete"} {
			text = strings.ReplaceAll(text, `"`+strconv.Itoa(i)+`":{}`, `"`+method+`":{}`)
		}
		_, err := openapi.ParseSet("x", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), "Swagger 2.0 makes more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnOperationWithManyParametersIsConverted(t *testing.T) {
	t.Parallel()
	parameters := func(from string) string {
		all := make([]string, 3000)
		for i := range all {
			all[i] = `{"name":"` + from + strconv.Itoa(i) + `","in":"query"}`
		}
		return strings.Join(all, ",")
	}
	set, err := openapi.ParseSet("x", []byte(`{"swagger":"2.0","paths":{"/a":{"parameters":[`+parameters("a")+`,{"name":"b1","in":"query"}],"get":{"parameters":[`+parameters("b")+`]}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Root().Get("paths").Get("/a").Get("get").Get("parameters").Items()); n != 6000 {
		t.Errorf("it has %d parameters", n)
	}
}

// TestParametersOfLikeNamesGetShortArguments: with an underscore more for each one, thousands
// of them took minutes.
func TestParametersOfLikeNamesGetShortArguments(t *testing.T) {
	t.Parallel()
	all := make([]string, 0, 196)
	for _, x := range ".:/!@$%^*()=|~" {
		for _, y := range ".:/!@$%^*()=|~" {
			all = append(all, `{"name":"a`+string(x)+string(y)+`b","in":"query"}`)
		}
	}
	offered, err := list(t, write(t, `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"servers":[{"url":"http://127.0.0.1:9"}],"paths":{"/a":{"get":{"parameters":[`+strings.Join(all, ",")+`],"responses":{}}}}}`))
	if err != nil || len(offered) != 1 {
		t.Fatal(offered, err)
	}
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(offered[0].InputSchema, &schema); err != nil || len(schema.Properties) != len(all) {
		t.Fatalf("%d arguments: %v", len(schema.Properties), err)
	}
	for name := range schema.Properties {
		if len(name) > 30 {
			t.Errorf("an argument is called %s", name)
		}
	}
}

// A Swagger document without schemes is of the scheme by which it was fetched.
func TestSwagger2WithoutSchemesUsesThatOfItsAddress(t *testing.T) {
	t.Parallel()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/swagger.json" {
			_, _ = fmt.Fprintf(w, `{"swagger":"2.0","host":%q,"basePath":"/api","paths":{"/a":{"get":{"operationId":"op","responses":{}}}}}`, r.Host)
			return
		}
		asked = r.URL.Path
	}))
	defer server.Close()
	s := open(t, openapi.Config{Spec: server.URL + "/swagger.json"})
	if _, err := call(t, s, "op", `{}`); err != nil || asked != "/api/a" {
		t.Errorf("asked %q: %v", asked, err)
	}
	file := open(t, openapi.Config{Spec: write(t, strings.Replace(swagger, "schemes: [http, https]\n", "", 1))})
	if target := tools(t, file)["addPet"].Effects[0].Target; target != "pets.example.com:443" {
		t.Errorf("a file without schemes leads to %s", target)
	}
}

func TestSwagger2MayBeANumber(t *testing.T) {
	t.Parallel()
	got, err := send(t, "swagger: 2.0\npaths: {/a: {get: {operationId: op, responses: {}}}}\n", `{}`, nil)
	if err != nil || got.line != "GET /v1/a" {
		t.Errorf("%v, %s", err, got.line)
	}
}

func TestSwagger2ListsInFormsAreWrittenInTheirFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"": "l=1%2C2", "csv": "l=1%2C2", "multi": "l=1&l=2", "pipes": "l=1%7C2", "ssv": "l=1+2"} {
		if format != "" {
			format = ", collectionFormat: " + format
		}
		got, err := send(t, "swagger: '2.0'\npaths: {/a: {post: {operationId: op, responses: {}, parameters: [{name: l, in: formData, type: array, items: {type: integer}"+format+"}]}}}\n", `{"l":[1,2]}`, nil)
		if err != nil || got.body != want {
			t.Errorf("%s: %v, %q, want %q", format, err, got.body, want)
		}
	}
}
