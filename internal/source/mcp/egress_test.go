package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/mcp"
)

func TestAServerCannotRedirectTheClientInside(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	outside := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer outside.Close()
	s := mcp.New(mcp.Config{Namespace: "remote", URL: outside.URL})
	defer s.Close()
	_, err := s.Tools(t.Context())
	e := toolroom.AsError(err)
	if e.Code != toolroom.CodeDenied || !strings.Contains(e.Hint, "egress: {allow:") || reached.Load() != 0 {
		t.Errorf("%v (%s), try: %s", err, e.Code, e.Hint)
	}
}
