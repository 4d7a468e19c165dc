package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestARedactedConfigHasNoSecretsAndAllElse(t *testing.T) {
	t.Parallel()
	c, err := Parse("t.yaml", []byte(`
store: {url: "postgres://u:hunter2@db/x"}
approvals: {webhooks: [{name: w, url: "https://hook.example.com/x?key=hunter2", secret: hunter2hunter2}]}
sources:
  a: {mcp: {command: node, args: [s.js, --token, hunter2hunter2, --api-key=hunter2hunter2, -e, API_KEY=hunter2, -phunter2, -p8080, -parallel, "db:hunter2@db.example.com/x", "--dsn=db:hunter2@tcp(h)/x", "git@example.com:a/b", --header, "Authorization: Bearer hunter2", --depth, "3"], env: {API_KEY: hunter2hunter2, DB_PASS: hunter2, MODE: fast}}}
  b: {mcp: {url: "https://b.example.com/mcp", headers: {Authorization: "Bearer secret://b/token"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Redacted(c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("a secret is shown: %s", text)
	}
	for _, want := range []string{`"MODE":"fast"`, `"s.js","--token","(hidden)","--api-key=(hidden)","-e","API_KEY=(hidden)","-p(hidden)","-p8080","-parallel","db:(hidden)@db.example.com/x","--dsn=db:(hidden)@tcp(h)/x","git@example.com:a/b","--header","Authorization:(hidden)","--depth","3"`, `"Bearer secret://b/token"`, `https://hook.example.com/x?(hidden)`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	one, err := RedactedSource(c.Sources["a"])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(one); err != nil || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), `"API_KEY":"(hidden)"`) {
		t.Errorf("one source: %s %v", text, err)
	}
}
