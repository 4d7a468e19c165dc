package app_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/secret"
)

// telling is a service that repeats the token it is sent, in the forms that
// encoders make of it, in answers and in failures.
func telling(t *testing.T) (address string, forms []string, token string) {
	t.Helper()
	token = `tok "en"/of+ann&1`
	inJSON, _ := json.Marshal(token)
	forms = []string{
		token, strings.Trim(string(inJSON), `"`), url.QueryEscape(token), base64.StdEncoding.EncodeToString([]byte("ann:" + token)),
		base64.RawURLEncoding.EncodeToString([]byte(token)), hex.EncodeToString([]byte(token)),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token {
			t.Errorf("the service was sent %q", r.Header.Get("Authorization"))
		}
		if strings.HasSuffix(r.URL.Path, "fail") {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, strings.Join(forms, "\n"))
	}))
	t.Cleanup(s.Close)
	return s.URL, forms, token
}

func TestLinesAndRecordsOfCallsHaveNoSecretInAnyForm(t *testing.T) {
	t.Parallel()
	service, forms, token := telling(t)
	for _, log := range []string{"otlp", "calls.log", "stdout"} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var sent bytes.Buffer
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Header.Get("X-Key") != "key-of-collector" {
					t.Errorf("the collector was sent the key %q", r.Header.Get("X-Key"))
				}
				_, _ = sent.ReadFrom(r.Body)
			}))
			t.Cleanup(collector.Close)
			home := t.TempDir()
			file := filepath.Join(home, "toolroom.yaml")
			config := `
receipts: {log: ` + log + `, otlp: {endpoint: "` + collector.URL + `", headers: {X-Key: "secret://otlp/key"}}}
sources:
  api: {http: {base_url: "` + service + `", headers: {Authorization: "secret://api/token"}, tools: [{name: tell}, {name: fail}]}}
`
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			var lines bytes.Buffer
			r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file, Receipts: &lines})
			if err != nil {
				t.Fatal(err)
			}
			for ref, value := range map[secret.Ref]string{{Scope: "api", Name: "token"}: token, {Scope: "otlp", Name: "key"}: "key-of-collector"} {
				if err := r.Parts().Secrets.Set(t.Context(), ref, value); err != nil {
					t.Fatal(err)
				}
			}
			arguments, err := json.Marshal(map[string]any{"said": forms, forms[0]: forms[0]})
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range []string{"api:tell", "api:fail", "api:tell"} {
				// The model repeats what it has seen elsewhere; the first call looks the token up.
				r.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: arguments})
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			kept, _ := os.ReadFile(filepath.Join(home, "calls.log"))
			text := sent.String() + lines.String() + string(kept)
			if calls := strings.Count(text, "api:tell"); calls < 2 || !strings.Contains(text, "[secret api/token]") {
				t.Errorf("of the calls there is %q", text)
			}
			for _, form := range append(forms, "key-of-collector", "of+ann", "of%2Bann", "b2YrYW5u", "9mK2Fub", "vZithbm") {
				if strings.Contains(text, form) {
					t.Errorf("%q is in %s", form, text)
				}
			}
		})
	}
}
