//go:build integration

package integration

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// startAuthorizationServer starts oidc-provider and returns its URL.
func (r *room) startAuthorizationServer(scopes string) string {
	issuer, _ := r.startIssuer(scopes, nil, nil)
	return issuer
}

// grant is a line of the authorization server's output: an issued token or a registered
// client.
type grant struct{ Grant, Client, Method, Registered string }

// startIssuer starts oidc-provider with further clients. It returns its URL, and a function that
// returns its grants so far.
func (r *room) startIssuer(scopes string, clients []object, env []string) (issuer string, log func() []grant) {
	r.t.Helper()
	cmd := r.command(r.t.Context(), nodeProgram(r.t), nodeFile(r.t, "oauth-server.mjs"), scopes, encode(r.t, append([]object{}, clients...)))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = r.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		r.t.Fatalf("the authorization server did not start: %v", lines.Err())
	}
	var mu sync.Mutex
	var done []grant
	issuer = lines.Text()
	go func() {
		for lines.Scan() {
			var g grant
			if json.Unmarshal(lines.Bytes(), &g) == nil {
				mu.Lock()
				done = append(done, g)
				mu.Unlock()
			}
		}
	}()
	return issuer, func() []grant {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(done)
	}
}

// freeAddress returns an unused address of this machine.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAClientLogsInAndStepsUpIfAToolNeedsMore(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	address := freeAddress(t)
	resource := "http://" + address + "/mcp"
	issuer := r.startAuthorizationServer("mcp files:write")
	r.configure(object{"filesystem": r.filesystem()}, object{"server": object{
		"listen": address, "url": "http://" + address,
		"auth": object{"required": "always", "oauth": object{
			"issuers": []string{issuer}, "required_scopes": []string{"mcp"},
			"scopes": object{"files:write": []string{"filesystem.write_file"}},
		}},
	}})
	s := r.serveAt(address)

	readme := filepath.Join(r.files, "README.md")
	written := filepath.Join(r.files, "new.txt")
	type login struct{ Scope, Resource, PKCE string }
	type result struct {
		Name    string
		IsError bool
		Text    string
	}
	out := r.runProgram(nodeProgram(t), nodeFile(t, "oauth-client.mjs"), s.url+"/mcp",
		`filesystem__read_text_file={"path":"`+readme+`"}`, `filesystem__write_file={"path":"`+written+`","content":"by ada"}`)
	if out.stdout == "" {
		t.Fatalf("the client failed: %s", out.stderr)
	}
	got := decode[struct {
		Logins  []login
		Results []result
		Token   struct {
			Aud, Scope, Sub string
		}
	}](t, out.stdout)
	if len(got.Logins) != 2 || got.Logins[0].Scope != "mcp" || got.Logins[0].PKCE != "S256" || got.Logins[0].Resource != resource {
		t.Fatalf("the logins were %+v\n%s", got.Logins, out.stderr)
	}
	if step := " " + got.Logins[1].Scope + " "; !strings.Contains(step, " mcp ") || !strings.Contains(step, " files:write ") {
		t.Errorf("the step up asked for %q", got.Logins[1].Scope)
	}
	if len(got.Results) != 2 || got.Results[0].IsError || !strings.Contains(got.Results[0].Text, "The file of") || got.Results[1].IsError {
		t.Errorf("the calls gave %+v", got.Results)
	}
	if got.Token.Aud != resource || got.Token.Sub != "ada" {
		t.Errorf("the token is %+v", got.Token)
	}
	for name, header := range map[string]string{"no token": "", "a token of nobody": "Bearer a.b.c"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/mcp", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		challenge := resp.Header.Get("WWW-Authenticate")
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, "/.well-known/oauth-protected-resource/mcp") {
			t.Errorf("%s: %s, %s", name, resp.Status, challenge)
		}
	}
}

// nodeFile returns the path of one of our scripts for Node.
func nodeFile(t *testing.T, name string) string {
	return installedFile(t, "it is part of the repository", "test", "node", name)
}
