package secret_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// pem returns a key with lines that end with end.
func pem(end string) (key string, lines []string) {
	random := make([]byte, 300)
	rand.Read(random)
	text := base64.StdEncoding.EncodeToString(random)
	for at := 0; at < len(text); at += 64 {
		lines = append(lines, text[at:min(at+64, len(text))])
	}
	return "-----BEGIN PRIVATE KEY-----" + end + strings.Join(lines, end) + end + "-----END PRIVATE KEY-----" + end, lines
}

func TestAKeyWithLineEndsOfWindowsIsFoundLineByLine(t *testing.T) {
	t.Parallel()
	key, lines := pem("\r\n")
	r := redactor(map[string]string{"s/v": key})
	for _, line := range lines {
		if got := r.Text("x\n" + line + "\ny"); strings.Contains(got, line) {
			t.Errorf("%s", got)
		}
	}
}

// A service account of a cloud is a JSON document with a key in it, which programs read out.
func TestAKeyInAJSONDocumentIsFoundByItself(t *testing.T) {
	t.Parallel()
	key, lines := pem("\n")
	for _, indent := range []string{"", "  "} {
		document, err := json.MarshalIndent(map[string]string{"type": "service_account", "private_key": key}, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		r := redactor(map[string]string{"s/v": string(document)})
		for _, shown := range []string{key, strings.ReplaceAll(key, "\n", "\r\n"), strings.Join(lines, "\n")} {
			for _, line := range lines {
				if got := r.Text(shown); strings.Contains(got, line) {
					t.Fatalf("%s", got)
				}
			}
		}
	}
}

type text string

func TestNoAttributeOfALogLineShowsASecretInAnotherForm(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery"
	nested := struct{ Next *struct{ Token string } }{&struct{ Token string }{value}}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"JSON": func(out *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(out, nil) },
		"text": func(out *bytes.Buffer) slog.Handler { return slog.NewTextHandler(out, nil) },
	} {
		var out bytes.Buffer
		slog.New(redactor(map[string]string{"s/v": value}).Handler(handler(&out))).Error("m",
			"bytes", []byte(value), "document", json.RawMessage(`{"token": "`+value+`"}`), "nested", nested, "kind", text(value), "n", []byte("plain"))
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		if strings.Contains(out.String(), "horse") || strings.Contains(out.String(), encoded) || strings.Count(out.String(), "[secret s/v]") < 3 {
			t.Errorf("%s: logged %s", name, &out)
		}
	}
}

// stuck is a backend that never answers.
type stuck struct{}

func (stuck) Get(ctx context.Context, _ secret.Ref) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestAStoreThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	file, err := secret.Open(t.TempDir(), secret.Options{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := secret.NewResolver(file, secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: stuck{}}}})
		_, err := r.Resolve(t.Context(), "secret://gh/token")
		if toolroom.CodeOf(err) != toolroom.CodeTimeout || !strings.Contains(err.Error(), "secret://gh/token") {
			t.Errorf("%v", err)
		}
	})
}
