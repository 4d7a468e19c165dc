package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestTheDescriptionIsValidAndHasEveryRoute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.get("/openapi.json")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "test" {
		t.Errorf("it says OpenAPI %s, version %s", doc.OpenAPI, doc.Info.Version)
	}
	for _, route := range []string{
		"GET /tools", "GET /tools/{id}", "GET /search", "POST /tools/{id}/call", "POST /call", "POST /chain", "POST /batch",
		"GET /calls", "GET /calls/{id}", "POST /calls/{id}/cancel", "GET /calls/{id}/events", "GET /events",
		"GET /approvals", "GET /approvals/{id}", "POST /approvals/{id}", "GET /approvals/rules", "DELETE /approvals/rules/{id}",
		"GET /artifacts", "POST /artifacts", "GET /artifacts/{handle}", "DELETE /artifacts/{handle}", "GET /artifacts/{handle}/content",
		"GET /sources", "GET /policy/explain", "GET /policy/elevations", "POST /policy/elevations", "DELETE /policy/elevations/{id}",
	} {
		method, path, _ := strings.Cut(route, " ")
		item := doc.Paths.Value("/api/v1" + path)
		if item == nil || item.GetOperation(method) == nil {
			t.Errorf("%s is not described", route)
			continue
		}
		op := item.GetOperation(method)
		if op.Responses.Default() == nil || op.Responses.Default().Value.Content["application/problem+json"] == nil {
			t.Errorf("%s does not describe its errors", route)
		}
		if method == http.MethodPost && path != "/calls/{id}/cancel" && op.RequestBody == nil {
			t.Errorf("%s does not describe its body", route)
		}
	}
	if strings.Contains(r.body, "ErrorModel") {
		t.Error("it describes errors that no answer has")
	}
	if yaml := b.get("/openapi.yaml"); yaml.status != http.StatusOK || !strings.Contains(yaml.body, "openapi: 3.1.0") {
		t.Errorf("as YAML: %d", yaml.status)
	}
}

func TestWhatDoesNotFitIsAProblemLikeAllOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for path, want := range map[string]int{
		"/search":                         http.StatusUnprocessableEntity,
		"/tools/echo:it?level=everything": http.StatusUnprocessableEntity,
		"/tools?limit=many":               http.StatusUnprocessableEntity,
		"/tools?cursor=xyz":               http.StatusBadRequest,
		"/nothing/here":                   http.StatusNotFound,
		"/sources":                        http.StatusNotImplemented,
	} {
		r := b.get(path)
		var p struct {
			Title, Message, Code string
			Status               int
		}
		r.into(t, &p)
		if r.status != want || p.Status != want || p.Message == "" || p.Code == "" || p.Title == "" || r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
}
