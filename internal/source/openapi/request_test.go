package openapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/openapi"
)

// seen is the request that a service was sent.
type seen struct {
	line, body string
	header     http.Header
}

// send calls the only operation of a document against a service that records.
func send(t *testing.T, document, arguments string, auth map[string]string) (seen, error) {
	t.Helper()
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{r.Method + " " + r.RequestURI, string(body), r.Header}
	}))
	defer server.Close()
	s := open(t, openapi.Config{Spec: write(t, document), BaseURL: server.URL + "/v1/", Auth: auth})
	list, err := s.Tools(t.Context())
	if err != nil {
		return got, err
	}
	tools(t, s)
	_, err = call(t, s, list[0].ID.Name, arguments)
	return got, err
}

// document has one operation, with what is given below its responses.
func document(method, path, rest string) string {
	return "openapi: 3.1.0\npaths:\n  " + path + ":\n    " + method + ":\n      operationId: op\n      responses: {}\n" + rest
}

func parameters(list string) string { return "      parameters: [" + list + "]\n" }

func TestParametersAreWrittenInTheirStyle(t *testing.T) {
	t.Parallel()
	const (
		array = `{"p":["a","b c"]}`
		obj   = `{"p":{"x":1,"y":"z&"}}`
	)
	for _, test := range []struct{ name, path, parameter, arguments, want string }{
		{"query form exploded list", "/", "name: p, in: query", array, "/?p=a&p=b+c"},
		{"query form list", "/", "name: p, in: query, explode: false", array, "/?p=a,b+c"},
		{"query form exploded object", "/", "name: p, in: query", obj, "/?x=1&y=z%26"},
		{"query form object", "/", "name: p, in: query, explode: false", obj, "/?p=x,1,y,z%26"},
		{"query form list whose items have commas", "/", "name: p, in: query, explode: false", `{"p":["Doe, Jane","&x=1"]}`, "/?p=Doe%2C+Jane,%26x%3D1"},
		{"query form list beside the document's query", "/?action=list", "name: p, in: query, explode: false", array, "/?action=list&p=a,b+c"},
		{"query spaceDelimited", "/", "name: p, in: query, style: spaceDelimited", array, "/?p=a+b+c"},
		{"query pipeDelimited", "/", "name: p, in: query, style: pipeDelimited", array, "/?p=a%7Cb+c"},
		{"query deepObject", "/", "name: p, in: query, style: deepObject", obj, "/?p%5Bx%5D=1&p%5By%5D=z%26"},
		{"query JSON", "/", "name: p, in: query, content: {application/json: {schema: {}}}", `{"p":{"x":[1]}}`, "/?p=%7B%22x%22%3A%5B1%5D%7D"},
		{"query scalar", "/", "name: p, in: query", `{"p":12345678901234567890}`, "/?p=12345678901234567890"},
		{"query null", "/", "name: p, in: query", `{"p":null}`, "/"},
		{"path simple", "/a/{p}/b", "name: p, in: path", `{"p":"x/y z"}`, "/a/x%2Fy%20z/b"},
		{"path simple list", "/{p}", "name: p, in: path", array, "/a,b%20c"},
		{"path simple object", "/{p}", "name: p, in: path", obj, "/x,1,y,z&"},
		{"path simple exploded object", "/{p}", "name: p, in: path, explode: true", obj, "/x=1,y=z&"},
		{"path label", "/{p}", "name: p, in: path, style: label, explode: true", array, "/.a.b%20c"},
		{"path matrix", "/{p}", "name: p, in: path, style: matrix", array, "/;p=a,b%20c"},
		{"path matrix exploded", "/{p}", "name: p, in: path, style: matrix, explode: true", array, "/;p=a;p=b%20c"},
		{"path matrix exploded object", "/{p}", "name: p, in: path, style: matrix, explode: true", obj, "/;x=1;y=z&"},
		{"path that no parameter describes", "/{p}", "name: q, in: query", `{"p":"x"}`, "/x"},
		{"path with a query", "/?action=list&x={p}", "name: p, in: path", `{"p":"a&b=c"}`, "/?action=list&x=a%26b%3Dc"},
		{"path with a query beside a parameter", "/?action=list", "name: p, in: query", `{"p":"x"}`, "/?action=list&p=x"},
		{"path with a space", `"/a b/{p}"`, "name: p, in: path", `{"p":"x"}`, "/a%20b/x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := send(t, document("get", test.path, parameters("{"+test.parameter+"}")), test.arguments, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := "GET /v1" + test.want
			if got.line != want {
				t.Errorf("got %s, want %s", got.line, want)
			}
		})
	}
}

func TestAnArgumentThatNamesAnotherPartOfThePathStaysAsItIs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/{a}/x/{b}":              "/%7Bb%7D/x/two",
		"/x?first={a}&second={b}": "/x?first=%7Bb%7D&second=two",
	} {
		got, err := send(t, document("get", path, parameters("{name: a, in: path}, {name: b, in: path}")), `{"a":"{b}","b":"two"}`, nil)
		if want = "GET /v1" + want; err != nil || got.line != want {
			t.Errorf("%s: got %s, want %s (%v)", path, got.line, want, err)
		}
	}
}

func TestHeadersAndCookiesCarryParameters(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("get", "/", parameters(
		"{name: X-List, in: header}, {name: X-Object, in: header, explode: true}, {name: c, in: cookie}, {name: Authorization, in: header}")),
		`{"X-List":["a","b"],"X-Object":{"x":1},"c":"a; b"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"X-List": "a,b", "X-Object": "x=1", "Cookie": "c=a%3B%20b", "Authorization": ""}
	for name, value := range want {
		if got := got.header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
}

func TestBodiesAreWrittenAsTheirMediaType(t *testing.T) {
	t.Parallel()
	body := func(mediaType, schema string) string {
		return "      requestBody: {required: true, content: {" + mediaType + ": {schema: " + schema + "}}}\n"
	}
	fields := "{type: object, properties: {a: {type: string}, l: {type: array}, n: {}}}"
	for _, test := range []struct{ name, body, arguments, contentType, want string }{
		{"JSON fields", body("application/json", fields), `{"a":"x","n":12345678901234567890,"more":1}`, "application/json", `{"a":"x","more":1,"n":12345678901234567890}`},
		{"a kind of JSON", body("application/vnd.x+json", fields), `{"a":"x"}`, "application/vnd.x+json", `{"a":"x"}`},
		{"JSON that is a list", body("application/json", "{type: array}"), `{"body":[1,2]}`, "application/json", `[1,2]`},
		{"JSON that is one of several", body("application/json", "{oneOf: [{type: object}, {type: string}]}"), `{"body":"x"}`, "application/json", `"x"`},
		{"no fields for a body that is needed", body("application/json", fields), `{}`, "application/json", `{}`},
		{"a form", body("application/x-www-form-urlencoded", fields), `{"a":"x&y","l":["1","2"]}`, "application/x-www-form-urlencoded", "a=x%26y&l=1&l=2"},
		{"text", body("text/plain", "{type: string}"), `{"body":"hi\nyou"}`, "text/plain", "hi\nyou"},
		{"bytes", body("application/octet-stream", "{type: string, format: binary}"), `{"body":"AAE="}`, "application/octet-stream", "\x00\x01"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := send(t, document("post", "/x", test.body), test.arguments, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.contentType, test.want}, []string{got.header.Get("Content-Type"), got.body}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormsCarryListsOfFilesAndDelimitedFields(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("post", "/", `      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {files: {type: array, items: {type: string, format: binary}}}}
`), `{"files":["AAE=","Ag=="]}`, nil)
	if err != nil || strings.Count(got.body, `filename="files"`) != 2 || !strings.Contains(got.body, "\x00\x01") || strings.Contains(got.body, "AAE=") {
		t.Errorf("%v: %q", err, got.body)
	}
	for style, want := range map[string]string{"pipeDelimited": "l=1%7C2", "spaceDelimited": "l=1+2", "form": "l=1&l=2"} {
		got, err := send(t, document("post", "/", `      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {l: {type: array, items: {type: integer}}}}
            encoding: {l: {style: `+style+`}}
`), `{"l":[1,2]}`, nil)
		if err != nil || got.body != want {
			t.Errorf("%s: %v, %q, want %q", style, err, got.body, want)
		}
	}
}

func TestAFieldWithTheNameOfAParameterPutsTheBodyIntoOneArgument(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("put", "/x/{id}",
		parameters("{name: id, in: path, required: true, schema: {type: integer}}, {name: id, in: query, schema: {type: string}}, {name: body, in: query}")+
			"      requestBody: {content: {application/json: {schema: {type: object, properties: {id: {type: string}}}}}}\n"),
		`{"id":7,"query_id":"q","body":"b","request_body":{"id":"x"}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.line != "PUT /v1/x/7?body=b&id=q" || got.body != `{"id":"x"}` {
		t.Errorf("got %s with %s", got.line, got.body)
	}
}

func TestArgumentsThatWouldChangeTheRequestAreRefused(t *testing.T) {
	t.Parallel()
	doc := document("get", "/x/{id}/y", parameters("{name: id, in: path}, {name: X-H, in: header}"))
	for name, arguments := range map[string]string{
		"upwards":                 `{"id":".."}`,
		"empty":                   `{"id":""}`,
		"an empty list in a path": `{"id":[]}`,
		"missing":                 `{}`,
		"a line break":            `{"id":"1","X-H":"a\r\nX-Admin: 1"}`,
		"a line break in a list":  `{"id":"1","X-H":["a\nb"]}`,
		"no object":               `[]`,
	} {
		if _, err := send(t, doc, arguments, nil); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: got %v, want invalid_arguments", name, err)
		}
	}
	upload := document("post", "/x", "      requestBody: {content: {image/png: {}}}\n")
	if _, err := send(t, upload, `{"body":"not base64!"}`, nil); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("a body that is not base64: got %v", err)
	}
}

func TestCredentialsGoWhereTheSchemeSays(t *testing.T) {
	t.Parallel()
	with := func(scheme, security string) string {
		return document("get", "/", "      security: "+security+"\n") +
			"components: {securitySchemes: {s: " + scheme + ", other: {type: http, scheme: bearer}}}\n"
	}
	secret := map[string]string{"s": "secret://pets/key"}
	for _, test := range []struct {
		name, document string
		auth           map[string]string
		header, want   string
		line           string
	}{
		{"a key in a header", with("{type: apiKey, in: header, name: X-Key}", "[{s: []}]"), secret, "X-Key", "petstore-key", "GET /v1/"},
		{"a key in the query", with("{type: apiKey, in: query, name: k}", "[{s: []}]"), secret, "X-Key", "", "GET /v1/?k=petstore-key"},
		{"a key in a cookie", with("{type: apiKey, in: cookie, name: k}", "[{s: []}]"), secret, "Cookie", "k=petstore-key", "GET /v1/"},
		{"a bearer token", with("{type: http, scheme: Bearer}", "[{s: []}]"), secret, "Authorization", "Bearer petstore-key", "GET /v1/"},
		{"a token of OAuth", with("{type: oauth2, flows: {}}", "[{s: [read]}]"), secret, "Authorization", "Bearer petstore-key", "GET /v1/"},
		{
			"a password", with("{type: http, scheme: basic}", "[{s: []}]"),
			map[string]string{"s": "user:secret://pets/key"},
			"Authorization", "Basic dXNlcjpwZXRzdG9yZS1rZXk=", "GET /v1/",
		},
		{"the alternative that is configured", with("{type: apiKey, in: header, name: X-Key}", "[{other: []}, {s: []}]"), secret, "X-Key", "petstore-key", "GET /v1/"},
		{"nothing where nothing is asked", with("{type: apiKey, in: header, name: X-Key}", "[]"), secret, "X-Key", "", "GET /v1/"},
		{"nothing where two are needed and one is there", with("{type: apiKey, in: header, name: X-Key}", "[{s: [], other: []}]"), secret, "X-Key", "", "GET /v1/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := send(t, test.document, `{}`, test.auth)
			if err != nil {
				t.Fatal(err)
			}
			if got.header.Get(test.header) != test.want || got.line != test.line {
				t.Errorf("got %s with %s %q", got.line, test.header, got.header.Get(test.header))
			}
		})
	}
}

func TestAnArgumentCannotNameASecret(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("get", "/{p}", parameters("{name: p, in: path}, {name: q, in: query}, {name: X-H, in: header}")),
		`{"p":"secret://pets/key","q":"secret://pets/key","X-H":"secret://pets/key"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.line+got.header.Get("X-H"), "petstore") {
		t.Errorf("an argument was replaced by a secret: %s", got.line)
	}
}

func TestExtensionsBetweenThePathsAreLeftOut(t *testing.T) {
	t.Parallel()
	got, err := send(t, "openapi: 3.1.0\npaths:\n  x-owner: team\n  /a: {get: {operationId: op}}\n", `{}`, nil)
	if err != nil || got.line != "GET /v1/a" {
		t.Errorf("got %s, %v", got.line, err)
	}
}

func TestAHeadRequestHasNoBodyToBeTooLarge(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000000")
	}))
	defer server.Close()
	s := open(t, openapi.Config{Spec: write(t, document("head", "/a", "")), BaseURL: server.URL})
	if _, err := call(t, s, "op", `{}`); err != nil {
		t.Error(err)
	}
}

func TestASessionCookieIsSentAsItIs(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("get", "/", "      security: [{s: []}]\n")+
		"components: {securitySchemes: {s: {type: apiKey, in: cookie, name: sid}}}\n", `{}`, map[string]string{"s": "aGk/+w=="})
	if err != nil || got.header.Get("Cookie") != "sid=aGk/+w==" {
		t.Errorf("%v, %q", err, got.header.Get("Cookie"))
	}
}

func TestAParameterWithContentThatIsTextIsNotJSON(t *testing.T) {
	t.Parallel()
	got, err := send(t, document("get", "/", parameters("{name: p, in: query, content: {text/plain: {schema: {type: string}}}}")), `{"p":"a"}`, nil)
	if err != nil || got.line != "GET /v1/?p=a" {
		t.Errorf("%v, %s", err, got.line)
	}
}

func TestPartsGetOneOfTheTypesThatTheDocumentAllows(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[string]string{
		"image/png, image/jpeg": "Content-Type: image/png\r\n",
		"image/*":               "Content-Type: application/octet-stream\r\n",
		"'image/*, image/gif'":  "Content-Type: image/gif\r\n",
		"text/csv":              "Content-Type: text/csv\r\n",
	} {
		got, err := send(t, document("post", "/", `      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {f: {type: string, format: binary}}}
            encoding: {f: {contentType: "`+strings.Trim(allowed, "'")+`"}}
`), `{"f":"AAE="}`, nil)
		if err != nil || !strings.Contains(got.body, want) {
			t.Errorf("%s: %v, %q", allowed, err, got.body)
		}
	}
}

func TestTheNextPageMayHaveCommas(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<http://x/a?ids=1,2&page=1>; rel="prev", <http://x/a?ids=1,2&page=3>; title="a, b"; rel="next"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `[]`)
	}))
	defer server.Close()
	s := open(t, openapi.Config{Spec: write(t, document("get", "/a", "")), BaseURL: server.URL})
	out, err := call(t, s, "op", `{}`)
	if err != nil || len(out.Content) != 2 || !strings.HasSuffix(out.Content[1].Text, "ids=1,2&page=3") {
		t.Errorf("%v, %+v", err, out)
	}
}

// A field with the name of a parameter, and a schema that is no plain object, put the whole
// form into one argument. Its files are bytes there, too.
func TestFilesInAFormThatIsOneArgumentAreBytes(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		"{type: object, properties: {id: {type: string}, file: {type: string, format: binary}}}",
		"{type: object, minProperties: 1, properties: {id: {type: string}, file: {type: string, format: binary}}}",
	} {
		got, err := send(t, document("post", "/{id}", parameters("{name: id, in: path}")+
			"      requestBody: {content: {multipart/form-data: {schema: "+schema+"}}}\n"),
			`{"id":"1","body":{"id":"2","file":"AAE="}}`, nil)
		if err != nil || !strings.Contains(got.body, "\x00\x01") {
			t.Errorf("%v, %q", err, got.body)
		}
	}
}
