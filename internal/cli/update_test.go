package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/cli"
)

// The answers are shortened from those of api.github.com.
func TestUpdateComparesWithTheNewestReleaseAndDownloadsNothing(t *testing.T) {
	t.Parallel()
	const answer = `{"url": "https://api.github.com/repos/toolroom/toolroom/releases/1", "tag_name": "v1.10.0", "draft": false, "prerelease": false,
		"html_url": "https://github.com/toolroom/toolroom/releases/tag/v1.10.0", "published_at": "2026-11-01T10:00:00Z",
		"assets": [{"browser_download_url": "/download"}]}`
	for name, c := range map[string]struct {
		version, answer string
		status, exit    int
		want            string
		json            bool
	}{
		"older":              {"1.9.3", answer, 200, 0, "there is a newer release: v1.10.0 (this is 1.9.3): https://github.com/toolroom/toolroom/releases/tag/v1.10.0\n", false},
		"the newest":         {"v1.10.0", answer, 200, 0, "this is the newest release, v1.10.0\n", false},
		"later":              {"1.11.0-rc.1", answer, 200, 0, "this is the newest release, 1.11.0-rc.1\n", false},
		"a prerelease of it": {"1.10.0-rc.1", answer, 200, 0, "there is a newer release: v1.10.0", false},
		"no release":         {"devel", answer, 200, 0, "the newest release is v1.10.0; this is devel, which is no release", false},
		"as JSON":            {"1.9.3", answer, 200, 0, `"newer": true`, true},
		"unknown":            {"devel", answer, 200, 0, `"newer": null`, true},
		"none yet":           {"1.9.3", `{"message": "Not Found"}`, 404, 4, "there is no release at", false},
		"too often":          {"1.9.3", `{"message": "API rate limit exceeded"}`, 403, 1, "answers no more requests from here for now", false},
		"a page":             {"1.9.3", `<html>`, 200, 1, "does not answer with a release", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path+" "+r.UserAgent())
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer server.Close()
			var out bytes.Buffer
			p := cli.Program{
				In: strings.NewReader(""), Out: &out, Err: &out, Home: t.TempDir(), Dir: t.TempDir(), Open: openWithTools,
				Version: c.version, ReleasesURL: server.URL + "/releases/latest",
			}
			args := []string{"update", "--check"}
			if c.json {
				args = append(args, "--json")
			}
			if code := p.Run(t.Context(), args); code != c.exit || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit code %d, want %d; printed %s, want %s", code, c.exit, &out, c.want)
			}
			if len(asked) != 1 || asked[0] != "GET /releases/latest toolroom/"+c.version {
				t.Errorf("it sent %q", asked)
			}
		})
	}
}

func TestUpdateChangesNothingByItself(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := cli.Program{In: strings.NewReader(""), Out: &out, Err: &out, Home: t.TempDir(), Dir: t.TempDir(), Open: openWithTools, Version: "1.0.0", ReleasesURL: "http://127.0.0.1:1/"}
	if code := p.Run(t.Context(), []string{"update"}); code != 2 || !strings.Contains(out.String(), "Toolroom does not update itself") {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

func TestUpdateAsksOnlyAnAddressOfTheWeb(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"releases.json", "ftp://example.com/latest", "ht tp://x"} {
		var stderr bytes.Buffer
		p := cli.Program{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &stderr, Home: t.TempDir(), Dir: t.TempDir(), ReleasesURL: address}
		if code := p.Run(t.Context(), []string{"update", "--check"}); code != 2 || !strings.Contains(stderr.String(), "is not an http or https URL") {
			t.Errorf("%s: exit code %d, %s", address, code, &stderr)
		}
	}
}
