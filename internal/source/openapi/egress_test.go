package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/openapi"
)

func TestAFetchedDocumentCannotSendCallsInside(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	text := fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "t"}, "servers": [{"url": %q}], "paths": {"/x": {"get": {"operationId": "x"}}}}`, inside.URL)
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer outside.Close()

	s := open(t, openapi.Config{Spec: outside.URL})
	tools(t, s)
	if _, err := call(t, s, "x", `{}`); toolroom.CodeOf(err) != toolroom.CodeDenied || reached.Load() != 0 {
		t.Errorf("the server of a fetched document: %v", err)
	}
	for _, config := range []openapi.Config{
		{Spec: outside.URL, BaseURL: inside.URL}, // the operator says so
		{Spec: write(t, text)},                   // the document is the operator's
	} {
		before := reached.Load()
		s := open(t, config)
		tools(t, s)
		if _, err := call(t, s, "x", `{}`); err != nil || reached.Load() != before+1 {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

func TestADocumentThatLeadsInsideIsNotFetched(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	outside := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer outside.Close()
	s := open(t, openapi.Config{Spec: outside.URL, RedirectHosts: []string{"127.0.0.1"}})
	if _, err := s.Tools(t.Context()); toolroom.CodeOf(err) != toolroom.CodeDenied || reached.Load() != 0 {
		t.Errorf("a redirect of the document: %v", err)
	}
}
