package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpapi"
	"github.com/toolroom/toolroom/source"
)

// seen is the request that a service was sent.
type seen struct {
	Line   string
	Body   string
	Header http.Header
}

// callRecorded calls the tool against a service that records it.
func callRecorded(t *testing.T, config httpapi.Config, arguments, key string) (seen, error) {
	t.Helper()
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{Line: r.Method + " " + r.RequestURI, Body: string(body), Header: r.Header}
		writeJSON(w, map[string]any{"result": 1})
	}))
	defer server.Close()
	config.BaseURL = server.URL + "/api/"
	s := open(t, config, httpapi.Options{Resolve: resolve})
	_, err := call(t, s, config.Tools[0].Name, arguments, key)
	return got, err
}

func call(t *testing.T, s source.Source, tool, arguments, key string) (*source.Output, error) {
	t.Helper()
	return s.Call(t.Context(), &source.Request{
		Tool:           toolroom.ID{Namespace: "svc", Name: tool},
		Arguments:      []byte(arguments),
		IdempotencyKey: key,
		Emit:           func(toolroom.Event) {},
	})
}

func resolve(_ context.Context, ref string) (string, error) {
	if ref == "secret://svc/token" {
		return "s3cr3t-t0ken", nil
	}
	return "", errors.New("unknown")
}

func TestArgumentsGoWhereTheToolSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		tool      httpapi.Tool
		form      httpapi.Form
		arguments string
		line      string
		body      string
	}{
		{
			name:      "by default the arguments are posted to the tool's name",
			tool:      httpapi.Tool{Name: "forecast"},
			arguments: `{"city":"Oslo","id":12345678901234567890}`,
			line:      "POST /api/forecast",
			body:      `{"city":"Oslo","id":12345678901234567890}`,
		},
		{
			name:      "the form run wraps them",
			form:      httpapi.FormRun,
			tool:      httpapi.Tool{Name: "forecast"},
			arguments: `{"city":"Oslo"}`,
			line:      "POST /api/tools/run",
			body:      `{"tool":"forecast","input":{"city":"Oslo"}}`,
		},
		{
			name:      "a path value stays one segment, and what the path takes is not in the body",
			tool:      httpapi.Tool{Name: "t", Method: "put", Path: "/items/{id}/parts"},
			arguments: `{"id":"a/b ?#%","name":"x"}`,
			line:      "PUT /api/items/a%2Fb%20%3F%23%25/parts",
			body:      `{"name":"x"}`,
		},
		{
			name:      "a query value is escaped, a list repeats it, an absent one is left out",
			tool:      httpapi.Tool{Name: "t", Method: "GET", Path: "/s", Query: map[string]string{"q": "{text}", "tag": "{tags}", "since": "{since}", "v": "1"}},
			arguments: `{"text":"a&b=c d","tags":["x","y"],"since":null}`,
			line:      "GET /api/s?q=a%26b%3Dc+d&tag=x&tag=y&v=1",
		},
		{
			name:      "without a body the other arguments go into the query",
			tool:      httpapi.Tool{Name: "t", Method: "GET", Path: "/items/{id}"},
			arguments: `{"id":7,"full":true,"filter":{"a":1}}`,
			line:      "GET /api/items/7?filter=%7B%22a%22%3A1%7D&full=true",
		},
		{
			name: "a body template keeps types and drops what is not given",
			tool: httpapi.Tool{Name: "t", Path: "/x", BodyTemplate: map[string]any{
				"n": "{n}", "text": "n is {n}", "none": "{none}", "list": []any{"{a}", "{none}", 1}, "brace": "{{}}", "fixed": true,
			}},
			arguments: `{"n":12345678901234567890,"a":{"b":[]}}`,
			line:      "POST /api/x",
			body:      `{"brace":"{}","fixed":true,"list":[{"b":[]},1],"n":12345678901234567890,"text":"n is 12345678901234567890"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := callRecorded(t, httpapi.Config{Form: test.form, Tools: []httpapi.Tool{test.tool}}, test.arguments, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.line, test.body}, []string{got.Line, got.Body}); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadersCarrySecretsAndArguments(t *testing.T) {
	t.Parallel()
	got, err := callRecorded(t, httpapi.Config{
		Headers: map[string]string{"Authorization": "Bearer secret://svc/token", "X-Team": "shared", "X-Region": "eu"},
		Tools: []httpapi.Tool{{
			Name:      "t",
			Guarantee: toolroom.GuaranteeKeyed,
			Headers:   map[string]string{"X-User": "u-{user}", "X-Team": "own", "X-None": "{none}"},
		}},
	}, `{"user":"alice","keep":1}`, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization":   "Bearer s3cr3t-t0ken",
		"X-User":          "u-alice",
		"X-Team":          "own",
		"X-Region":        "eu",
		"X-None":          "",
		"Idempotency-Key": "key-1",
	} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got.Body != `{"keep":1}` {
		t.Errorf("body: got %s", got.Body)
	}
}

func TestTheIdempotencyKeyIsSentOnlyForKeyedTools(t *testing.T) {
	t.Parallel()
	got, err := callRecorded(t, httpapi.Config{Tools: []httpapi.Tool{{Name: "t"}}}, `{}`, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	if key := got.Header.Get("Idempotency-Key"); key != "" {
		t.Errorf("the key %q was sent for a tool that is not keyed", key)
	}
}

func TestAnArgumentCannotNameASecret(t *testing.T) {
	t.Parallel()
	got, err := callRecorded(t, httpapi.Config{Tools: []httpapi.Tool{{
		Name: "t", Path: "/{p}", Query: map[string]string{"q": "{q}"}, Headers: map[string]string{"X-H": "{h}"},
		BodyTemplate: map[string]any{"b": "{b}", "mixed": "secret://svc/{b}"},
	}}}, `{"p":"secret://svc/token","q":"secret://svc/token","h":"secret://svc/token","b":"token"}`, "")
	if err == nil {
		t.Fatalf("secret://svc alone was resolved: %+v", got)
	}
	got, err = callRecorded(t, httpapi.Config{Tools: []httpapi.Tool{{
		Name: "t", Path: "/{p}", Query: map[string]string{"q": "{q}"}, Headers: map[string]string{"X-H": "{h}"},
		BodyTemplate: map[string]any{"b": "{b}"},
	}}}, `{"p":"secret://svc/token","q":"secret://svc/token","h":"secret://svc/token","b":"secret://svc/token"}`, "")
	if err != nil {
		t.Fatal(err)
	}
	if all := got.Line + got.Body + got.Header.Get("X-H"); strings.Contains(all, "s3cr3t") {
		t.Errorf("an argument was replaced by a secret: %s", all)
	}
}

func TestArgumentsThatWouldChangeTheRequestAreRefused(t *testing.T) {
	t.Parallel()
	tool := httpapi.Tool{Name: "t", Path: "/items/{id}/x", Headers: map[string]string{"X-H": "{h}"}}
	for name, arguments := range map[string]string{
		"a path value that leads upwards":     `{"id":"..","h":"x"}`,
		"a path value that leads nowhere":     `{"id":".","h":"x"}`,
		"an empty path value":                 `{"id":"","h":"x"}`,
		"no path value":                       `{"h":"x"}`,
		"a list in a path":                    `{"id":["a"],"h":"x"}`,
		"a line break in a header":            `{"id":"1","h":"x\r\nX-Admin: 1"}`,
		"a bare line feed in a header":        `{"id":"1","h":"x\ny"}`,
		"a zero byte in a header":             `{"id":"1","h":"x\u0000"}`,
		"arguments that are not an object":    `[1]`,
		"arguments that are not JSON at all,": `{"id":`,
	} {
		_, err := callRecorded(t, httpapi.Config{Tools: []httpapi.Tool{tool}}, arguments, "")
		if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: got %v (%s), want invalid_arguments", name, err, toolroom.CodeOf(err))
		}
	}
}

func TestValidateReportsEveryMistakeWithItsKey(t *testing.T) {
	t.Parallel()
	config := httpapi.Config{
		BaseURL: "ftp://example.com",
		Form:    "soap",
		Headers: map[string]string{"Host": "x", "X-A": "a\nb"},
		Timeout: -1,
		Tools: []httpapi.Tool{
			{Name: "bad name", Path: "/{a", Method: "GE T", Guarantee: "always"},
			{Name: "a", Path: "/x?y={z}", Body: "form", Result: "data"},
			{Name: "a", Path: "/secret://svc/token", Body: "template", Headers: map[string]string{"Content-Length": "1"}},
			{Name: "b", Path: "/{idd}", InputSchema: map[string]any{"properties": map[string]any{"id": map[string]any{}}}},
		},
	}
	err := config.Validate()
	if err == nil {
		t.Fatal("no mistake was found")
	}
	for _, want := range []string{
		"base_url: ", "form: ", "headers.Host: ", "headers.X-A: ", "timeout: ",
		"tools[0].name: ", "tools[0]: path: ", "tools[0].method: ", "tools[0].guarantee: ",
		"tools[1]: path: ", "tools[1].body: ", "tools[1].result: ",
		"tools[2].name: ", "tools[2].path: ", "tools[2].body: ", "tools[2].headers.Content-Length: ",
		"tools[3]: a template uses {idd}, which is not among the properties of input_schema: id",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no mention of %q in:\n%v", want, err)
		}
	}
	if _, err := httpapi.New("svc", config, httpapi.Options{}); err == nil {
		t.Error("New accepted a config that is not valid")
	}
}

func TestToolsTellWhatTheirMethodSays(t *testing.T) {
	t.Parallel()
	no := false
	s := open(t, httpapi.Config{BaseURL: "http://127.0.0.1:1", Tools: []httpapi.Tool{
		{Name: "get", Method: "GET", Path: "/items/{id}"},
		{Name: "post"},
		{Name: "put", Method: "PUT"},
		{Name: "delete", Method: "DELETE", Hints: httpapi.Hints{Destructive: &no}},
	}}, httpapi.Options{})
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range tools {
		word := tool.ID.Name + " " + string(tool.RepeatGuarantee())
		if tool.Hints.IsReadOnly() {
			word += " reads"
		}
		if tool.Hints.IsDestructive() {
			word += " destroys"
		}
		got = append(got, word)
	}
	want := []string{"get safe reads", "post never destroys", "put safe destroys", "delete safe"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := `{"properties":{"id":{}},"required":["id"],"type":"object"}`; string(tools[0].InputSchema) != want {
		t.Errorf("schema of a path argument: got %s, want %s", tools[0].InputSchema, want)
	}
}
