package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/token"
)

// operated serves a home with a config file, and returns its file and a function that sends
// requests to the API as a group.
func operated(t *testing.T, text string) (file string, r *app.App, ask func(group, method, path, body string, status int) string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(dir, "home"), ConfigFile: file, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	at := servedWith(t, r, Options{ConfigFile: file})
	bearers := map[string]string{}
	return file, r, func(group, method, path, body string, status int) string {
		t.Helper()
		if bearers[group] == "" {
			text, _, err := token.Create(t.Context(), r.Parts().Tokens, token.Options{Subject: "ann", Groups: strings.Fields(group)})
			if err != nil {
				t.Fatal(err)
			}
			bearers[group] = "Bearer " + text
		}
		res, answer := send(t, method, at+"/api/v1"+path, body, "Authorization", bearers[group], "Content-Type", "application/json")
		if res.StatusCode != status {
			t.Errorf("%s %s as %q: %d, want %d: %s", method, path, group, res.StatusCode, status, answer)
		}
		return answer
	}
}

func TestOperatorsManageSourcesOverHTTP(t *testing.T) {
	t.Parallel()
	file, r, ask := operated(t, "# mine\nserver: {auth: {required: always}}\nsources: {}\n")
	const all = "operators"
	text := ask(all, "POST", "/sources", `{"name":"git","source":{"cli":{"command":"git","env":{"API_TOKEN":"hunter2hunter2hunter2"}}}}`, 201)
	if !strings.Contains(text, `"secrets":["secret://git/API_TOKEN"]`) || !strings.Contains(text, `"state":"ready"`) {
		t.Errorf("added: %s", text)
	}
	written, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(written), "# mine") || !strings.Contains(string(written), "secret://git/API_TOKEN") || strings.Contains(string(written), "hunter2") {
		t.Errorf("the config: %s %v", written, err)
	}
	ask(all, "POST", "/sources", `{"name":"git","source":{"cli":{"command":"git"}}}`, 409)
	if text := ask(all, "POST", "/sources", `{"name":"x","source":{"cli":{"comand":"git"}}}`, 422); !strings.Contains(text, "comand") {
		t.Errorf("a mistake: %s", text)
	}
	for _, name := range []string{"a b", "x: {cli: {command: sh}}\n  y", "code", ""} {
		body, _ := json.Marshal(map[string]any{"name": name, "source": map[string]any{"cli": map[string]any{"command": "git"}}})
		ask(all, "POST", "/sources", string(body), 422)
	}
	if text := ask(all, "GET", "/sources/git", "", 200); !strings.Contains(text, `"command":"git"`) || !strings.Contains(text, `"API_TOKEN":"secret://git/API_TOKEN"`) {
		t.Errorf("shown: %s", text)
	}
	ask(all, "POST", "/sources/git/test", "", 200)
	ask(all, "POST", "/sources/git/restart", "", 204)
	ask(all, "GET", "/sources/git/logs", "", 200)
	ask(all, "POST", "/sources/git/disable", "", 204)
	if text := ask(all, "GET", "/sources", "", 200); !strings.Contains(text, `"state":"disabled"`) {
		t.Errorf("disabled: %s", text)
	}
	ask(all, "POST", "/sources/git/test", "", 404)
	ask(all, "POST", "/sources/git/enable", "", 204)
	ask(all, "PUT", "/sources/git", `{"source":{"description":"versions","cli":{"command":"git"}}}`, 200)
	if text := ask(all, "GET", "/sources/git", "", 200); !strings.Contains(text, `"description":"versions"`) {
		t.Errorf("edited: %s", text)
	}
	ask(all, "DELETE", "/sources/git", "", 204)
	ask(all, "GET", "/sources/git", "", 404)
	ask(all, "DELETE", "/sources/git", "", 404)

	for what, n := range map[string]int{"sources.add": 7, "sources.disable": 1, "sources.enable": 1, "sources.edit": 1, "sources.restart": 1, "sources.remove": 2} {
		found, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "toolroom:" + what})
		if err != nil || len(found) != n {
			t.Errorf("%d receipts of %s, want %d: %v", len(found), what, n, err)
		}
		for _, one := range found {
			if one.Identity.Subject != "ann" || strings.Contains(string(one.Arguments), "hunter2") {
				t.Errorf("%+v", one)
			}
		}
	}
}

func TestSecretsAreSetAndNeverReadBackOverHTTP(t *testing.T) {
	t.Parallel()
	_, r, ask := operated(t, "server: {auth: {required: always}}\n")
	ask("operators:secrets", "PUT", "/secrets/github/token", `{"value":"hunter2hunter2"}`, 204)
	ask("operators:secrets", "PUT", "/secrets/github/token?for=bob", `{"value":"hunter2hunter3"}`, 204)
	ask("operators:secrets", "PUT", "/secrets/github/short", `{"value":"x"}`, 422)
	text := ask("operators:secrets", "GET", "/secrets?limit=1", "", 200)
	if !strings.Contains(text, `"reference":"secret://github/token"`) || !strings.Contains(text, `"next":"github/token@"`) {
		t.Errorf("a page: %s", text)
	}
	text += ask("operators:secrets", "GET", "/secrets?limit=1&cursor=github/token@", "", 200)
	ask("operators:secrets", "GET", "/secrets/github/token", "", 405)
	found, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "toolroom:secrets.set"})
	if err != nil || len(found) != 3 {
		t.Errorf("%d receipts: %v", len(found), err)
	}
	all, err := json.Marshal(found)
	if err != nil || strings.Contains(text+string(all), "hunter2") || !strings.Contains(text, `"owner":"bob"`) {
		t.Errorf("%s %s %v", text, all, err)
	}
	ask("operators:secrets", "DELETE", "/secrets/github/token", "", 204)
	ask("operators:secrets", "DELETE", "/secrets/github/token", "", 404)
}

func TestTheAuditAndTheConfigAreReadOverHTTP(t *testing.T) {
	t.Parallel()
	file, _, ask := operated(t, "server: {auth: {required: always}}\nsources:\n  api: {disabled: true, mcp: {url: \"https://example.com/mcp\", headers: {Authorization: \"Bearer hunter2hunter2\"}}}\n")
	text := ask("operators:config", "GET", "/config", "", 200)
	if strings.Contains(text, "hunter2") || !strings.Contains(text, `"required":"always"`) {
		t.Errorf("the config: %s", text)
	}
	if text := ask("operators:config", "GET", "/config/check", "", 200); !strings.Contains(text, `"ok":true`) || !strings.Contains(text, "sources.api.mcp.headers.Authorization") || strings.Contains(text, "hunter2") {
		t.Errorf("the check: %s", text)
	}
	ask("operators", "PUT", "/secrets/a/b", `{"value":"a long value"}`, 204)
	text = ask("operators:audit", "GET", "/audit/receipts?tool=toolroom:secrets.set", "", 200)
	var list struct{ Calls []toolroom.Receipt }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Calls) != 1 {
		t.Fatalf("%s %v", text, err)
	}
	if head := ask("operators:audit", "GET", "/audit/head", "", 200); !strings.Contains(head, `"hash":"`+list.Calls[0].Hash+`"`) {
		t.Errorf("the head: %s, the last receipt %+v", head, list.Calls[0])
	}
	if text := ask("operators:audit", "POST", "/audit/verify", "", 200); !strings.Contains(text, `"ok":true,"receipts":1`) {
		t.Errorf("verified: %s", text)
	}
	if err := os.WriteFile(file, []byte("sevrer: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := ask("operators:config", "GET", "/config/check", "", 200); !strings.Contains(text, `"ok":false`) || !strings.Contains(text, `"key":"sevrer"`) {
		t.Errorf("a mistake: %s", text)
	}
	ask("operators", "POST", "/config/reload", "", 422)
}

func TestGroupsGiveNarrowPartsOfAnOperatorsRights(t *testing.T) {
	t.Parallel()
	_, r, ask := operated(t, "server: {auth: {required: always}}\nsources: {git: {cli: {command: git}}}\n")
	narrow := map[string]string{
		"GET /sources": "operators:sources", "GET /sources/git": "operators:sources", "POST /sources/git/test": "operators:sources",
		"POST /sources/git/restart": "operators:sources", "GET /sources/git/logs": "operators:sources",
		"GET /secrets": "operators:secrets", "PUT /secrets/a/b": "operators:secrets", "DELETE /secrets/a/b": "operators:secrets",
		"GET /audit/head": "operators:audit", "POST /audit/verify": "operators:audit", "GET /audit/receipts": "operators:audit",
		"GET /config": "operators:config", "GET /config/check": "operators:config",
		"POST /sources": "", "PUT /sources/git": "", "DELETE /sources/git": "", "POST /sources/git/enable": "", "POST /sources/git/disable": "",
		"POST /config/reload": "",
	}
	for route, group := range narrow {
		method, path, _ := strings.Cut(route, " ")
		body := ""
		if method == http.MethodPut || path == "/sources" && method == http.MethodPost {
			body = `{"name":"x","source":{"cli":{"command":"git"}}}`
			if strings.HasPrefix(path, "/secrets") {
				body = `{"value":"a long value"}`
			}
			if path == "/sources/git" {
				body = `{"source":{"cli":{"command":"git"}}}`
			}
		}
		for _, one := range []string{"users", "operators:sources", "operators:secrets", "operators:audit", "operators:config"} {
			if one != group {
				if text := ask(one, method, path, body, 403); !strings.Contains(text, `"code":"denied"`) {
					t.Errorf("%s as %s: %s", route, one, text)
				}
			}
		}
	}
	refused, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "toolroom:sources.add", Status: toolroom.StatusDenied})
	if err != nil || len(refused) != 5 {
		t.Errorf("%d receipts of refused changes: %v", len(refused), err)
	}
}

func TestTheBeginningOfAnIDIsEnoughOverHTTP(t *testing.T) {
	t.Parallel()
	_, _, ask := operated(t, "server: {auth: {required: always}}\ntools: {sensitive: {tools: [\"file:write\"]}}\n")
	idOf := func(text string) string {
		t.Helper()
		var one struct{ ID string }
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.ID == "" {
			t.Fatalf("%s %v", text, err)
		}
		return one.ID
	}
	id := idOf(ask("operators", "POST", "/tokens", `{"name":"bob"}`, 201))
	ask("operators", "DELETE", "/tokens/"+id[:6], "", 204)
	ask("operators", "DELETE", "/tokens/none", "", 404)
	id = idOf(ask("operators", "POST", "/policy/elevations", `{"subject":"bob"}`, 200))
	ask("operators", "DELETE", "/policy/elevations/"+id[:9], "", 204)
	ask("operators", "POST", "/call", `{"tool":"system:info","arguments":{}}`, 200)
	var list struct{ Calls []struct{ ID, Tool string } }
	if err := json.Unmarshal([]byte(ask("operators", "GET", "/calls?tool=system:info", "", 200)), &list); err != nil || len(list.Calls) != 1 {
		t.Fatal(list, err)
	}
	call := list.Calls[0].ID
	if text := ask("operators", "GET", "/calls/"+call[:len(call)-3], "", 200); !strings.Contains(text, `"id":"`+call+`"`) {
		t.Errorf("the call: %s", text)
	}
	ask("strangers", "GET", "/calls/call_0000", "", 404)
}

func TestWhatTheAPIHidesIsNotWrittenBackAsASecret(t *testing.T) {
	t.Parallel()
	const text = "server: {auth: {required: always}}\nsources:\n  api: {disabled: true, mcp: {url: \"https://example.com/mcp\", headers: {Authorization: \"Bearer hunter2hunter2\"}}}\n"
	file, r, ask := operated(t, text)
	var shown struct{ Config json.RawMessage }
	if err := json.Unmarshal([]byte(ask("operators", "GET", "/sources/api", "", 200)), &shown); err != nil {
		t.Fatal(err)
	}
	if answer := ask("operators", "PUT", "/sources/api", `{"source":`+string(shown.Config)+`}`, 422); !strings.Contains(answer, "hidden") {
		t.Errorf("the answer: %s", answer)
	}
	refs, err := r.Parts().Secrets.List()
	if written, rerr := os.ReadFile(file); err != nil || rerr != nil || len(refs) != 0 || string(written) != text {
		t.Errorf("stored %v, %v; the config is now %s, %v", refs, err, written, rerr)
	}
}

// TestASourceThatIsNotWrittenLeavesTheSecretsAlone adds a source that is in the file, but
// not in the room yet.
func TestASourceThatIsNotWrittenLeavesTheSecretsAlone(t *testing.T) {
	t.Parallel()
	const text = "server: {auth: {required: always}}\n"
	file, r, ask := operated(t, text)
	ask("operators", "PUT", "/secrets/late/API_TOKEN", `{"value":"hunter2hunter2hunter2"}`, 204)
	if err := os.WriteFile(file, []byte(text+"sources:\n  late: {disabled: true, cli: {command: git}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask("operators", "POST", "/sources", `{"name":"late","source":{"cli":{"command":"git","env":{"API_TOKEN":"another2another2another2"}}}}`, 409)
	got, err := r.Parts().Secrets.Get(t.Context(), secret.Ref{Scope: "late", Name: "API_TOKEN"})
	if err != nil || got != "hunter2hunter2hunter2" {
		t.Errorf("the secret is %q, %v", got, err)
	}
}
