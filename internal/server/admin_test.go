package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/token"
)

func TestOperatorsManageTokensOverHTTP(t *testing.T) {
	t.Parallel()
	s := serveForPeople(t, always)
	other, _, err := token.Create(t.Context(), s.room.Parts().Tokens, token.Options{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	as := func(bearer, method, path, body string) (int, string) {
		return visit(t, http.DefaultClient, method, s.URL+path, body, "Authorization", "Bearer "+bearer, "Content-Type", "application/json", "Accept", "application/json")
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/v1/tokens", ""},
		{"POST", "/api/v1/tokens", `{"name": "eve", "groups": ["operators"]}`},
		{"DELETE", "/api/v1/tokens/x", ""},
		{"POST", "/api/v1/config/reload", ""},
		{"POST", "/api/v1/sources/x/restart", ""},
	} {
		if status, text := as(other, c.method, c.path, c.body); status != 403 {
			t.Errorf("%s %s of somebody: %d %s", c.method, c.path, status, text)
		}
	}
	status, text := as(s.token, "POST", "/api/v1/tokens", `{"name": "ci", "expires": "1h"}`)
	var made struct{ ID, Token string }
	_, body, _ := strings.Cut(text, "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &made); status != 201 || err != nil || made.Token == "" {
		t.Fatalf("a new token: %d %s %v", status, text, err)
	}
	if status, _ := as(made.Token, "GET", "/api/v1/tools", ""); status != 200 {
		t.Errorf("with the new token: %d", status)
	}
	if _, text := as(s.token, "GET", "/api/v1/tokens?limit=1", ""); !strings.Contains(text, `"name":"ci"`) || !strings.Contains(text, `"next":`) {
		t.Errorf("the newest token: %s", text)
	}
	if status, _ := as(s.token, "DELETE", "/api/v1/tokens/"+made.ID, ""); status != 204 {
		t.Errorf("revoke: %d", status)
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/api/v1/tokens", `{"name": "x", "expires": "soon"}`, 422},
		{"/api/v1/sources/none/restart", "", 404},
		{"/api/v1/config/reload", "", 501}, // it was started without a file
	} {
		if status, text := as(s.token, "POST", c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
	if status, text := as(s.token, "GET", "/docs", ""); status != 200 || !strings.Contains(text, "POST /api/v1/tokens") || strings.Contains(text, "<script") {
		t.Errorf("the description of the API: %d %.300s", status, text)
	}
}

func TestAWrongMethodNamesTheRightOnes(t *testing.T) {
	t.Parallel()
	s := serveForPeople(t, always)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/api/v1/approvals", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var problem struct{ Type, Title, Detail, Instance, Code string }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 405 || res.Header.Get("Allow") != "GET" {
		t.Errorf("%d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
	}
	if problem.Type == "" || problem.Title == "" || problem.Detail == "" || problem.Instance == "" || problem.Code != "unsupported" {
		t.Errorf("the problem is %+v", problem)
	}
}
