package function

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// asked is a server that answers 404 and keeps who asked.
func asked(t *testing.T) (address string, who func() string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, "\n")
	}
}

func TestAPasswordDoesNotFollowARedirectToAnotherOrigin(t *testing.T) {
	t.Parallel()
	other, who := asked(t)
	var first string
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first = r.Header.Get("Authorization")
		http.Redirect(w, r, other+"/wheel", http.StatusFound)
	}))
	defer index.Close()
	s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient, Passwords: func() map[string]*url.Userinfo {
		return map[string]*url.Userinfo{index.URL: url.UserPassword("me", "secret")}
	}}
	if _, err := s.openURL(context.Background(), wheel{URL: index.URL + "/x.whl"}); err == nil {
		t.Fatal("there is no such file")
	}
	if first == "" || who() != "/wheel " {
		t.Errorf("the index heard %q, and the other origin %q", first, who())
	}
}

// TestFoldersOfAllUsersConfigureNothing is not parallel: it sets TMPDIR.
func TestFoldersOfAllUsersConfigureNothing(t *testing.T) {
	evil, who := asked(t)
	good, goodWho := asked(t)
	shared, home := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", shared)
	for name, text := range map[string]string{
		"uv.toml":      "[[index]]\nname = \"corp\"\nurl = \"" + evil + "/simple\"\ndefault = true\n",
		"package.json": `{"name":"evil","workspaces":["toolroom-lock-*"]}`,
		".npmrc":       "registry=" + evil + "/\n" + strings.TrimPrefix(evil, "http:") + "/:_authToken=${CORP_TOKEN}\n",
	} {
		if err := os.WriteFile(filepath.Join(shared, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
	environ := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "UV_INDEX_CORP_USERNAME=me", "UV_INDEX_CORP_PASSWORD=secret", "CORP_TOKEN=secret"}
	uv := os.Getenv("TOOLROOM_UV")
	npm, missing := exec.LookPath("npm")
	if os.Getenv("CI") != "" && (uv == "" || missing != nil) {
		t.Fatal("uv or npm is missing")
	}
	if uv == "" && missing != nil {
		t.Skip("neither uv nor npm is there")
	}
	if uv != "" {
		config := filepath.Join(home, ".config", "uv")
		if err := os.MkdirAll(config, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(config, "uv.toml"), []byte("[[index]]\nurl = \""+good+"/simple\"\ndefault = true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := Resolver{UV: uv, Python: "/usr/bin/python3", Environ: environ, Store: store}
		if _, err := r.Resolve(context.Background(), []string{"docopt"}, ""); err == nil {
			t.Error("there is no such package")
		}
	}
	if missing == nil {
		if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte("registry="+good+"/\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (NPM{Path: npm, Environ: environ, Store: store}).Resolve(context.Background(), []string{"left-pad@1.3.0"}, "", ""); err == nil {
			t.Error("there is no such package")
		}
	}
	if who() != "" || goodWho() == "" {
		t.Errorf("the index of another user heard %q, and the configured one %q", who(), goodWho())
	}
}

func TestWhatUVSaysOfItsConfigurationHasNoPassword(t *testing.T) {
	t.Parallel()
	err := resolveError([]string{"x"}, "TOML parse error at line 2\n2 | url = \"http://me:secret@r.example/simple\" default=true")
	if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "r.example") {
		t.Error(err)
	}
}
