package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

func open(t *testing.T, home string, o secret.Options) *secret.Store {
	t.Helper()
	s, err := secret.Open(home, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t *testing.T, s *secret.Store, path, value string) {
	t.Helper()
	if err := s.Set(t.Context(), secret.Ref{Scope: path[:strings.Index(path, "/")], Name: path[strings.Index(path, "/")+1:]}, value); err != nil {
		t.Fatal(err)
	}
}

// resolver returns a resolver that knows the file alone.
func resolver(s *secret.Store) *secret.Resolver {
	return secret.NewResolver(s, secret.ResolverOptions{})
}

// explain is what a person sees of an error.
func explain(err error) string {
	e := toolroom.AsError(err)
	return string(e.Code) + ": " + e.Message + "; " + e.Hints()
}

func TestAStoredSecretIsResolvedByAnotherProcessAndNeverLiesInPlain(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]secret.Options{"own key": {}, "key passed in": {Key: bytes.Repeat([]byte{7}, 32)}} {
		home := t.TempDir()
		set(t, open(t, home, o), "github/token", "ghp_first")
		s := open(t, home, o)
		got, err := resolver(s).Resolve(t.Context(), "secret://github/token")
		if err != nil || got != "ghp_first" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		files, err := filepath.Glob(filepath.Join(home, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("ghp_first")) {
				t.Errorf("%s: %s holds the value", name, f)
			}
			if info, _ := os.Stat(f); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s has mode %v", name, f, info.Mode())
			}
		}
	}
}

func TestListNamesSecretsInOrderAndRemoveForgetsThem(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), secret.Options{})
	set(t, s, "b/two", "value two")
	set(t, s, "a/one", "value one")
	got, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	want := []secret.Ref{{Scope: "a", Name: "one"}, {Scope: "b", Name: "two"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := s.Remove(t.Context(), want[0]); err != nil {
		t.Fatal(err)
	}
	if got, _ = s.List(); len(got) != 1 {
		t.Errorf("%v are left", got)
	}
	err = s.Remove(t.Context(), want[0])
	if got, want := explain(err), "not_found: secret://a/one is not set; see what is set: toolroom secret list"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestErrorsNameTheReferenceAndTheNextCommand(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), secret.Options{})
	for reference, want := range map[string]string{
		"secret://github/token": "not_found: secret://github/token is not set; set it: toolroom secret set github/token",
		"env://NOPE":            "not_found: env://NOPE is not set; set the variable before Toolroom starts: export NOPE=…",
		"env://1X":              `invalid_arguments: "env://1X" is not a reference to a secret: a variable has letters, digits and _, and no digit first; for example env://GITHUB_TOKEN`,
		"secret://github":       `invalid_arguments: "secret://github" is not a reference to a secret: it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning; for example secret://github/token`,
		"secret://a/b/c":        `invalid_arguments: "secret://a/b/c" is not a reference to a secret: it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning; for example secret://github/token`,
		"keyring://a":           `invalid_arguments: "keyring://a" is not a reference to a secret: it begins with neither secret:// nor env://; for example secret://github/token`,
	} {
		_, err := resolver(s).Resolve(t.Context(), reference)
		if diff := cmp.Diff(want, explain(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reference, diff)
		}
	}
	ref := secret.Ref{Scope: "a", Name: "b"}
	for value, want := range map[string]string{
		"":                                     "invalid_arguments: the value of secret://a/b is empty; pipe the value in: printf %s … | toolroom secret set a/b",
		strings.Repeat("x", secret.MaxValue+1): "resource_limit: the value of secret://a/b has 65537 bytes, at most 65536 are kept; ",
	} {
		if diff := cmp.Diff(want, explain(s.Set(t.Context(), ref, value))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	err := s.Set(t.Context(), secret.Ref{Name: "HOME"}, "x")
	if got, want := explain(err), "invalid_arguments: env://HOME is a variable of the environment and is not kept here; name it scope/name, for example env/home"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestExpandAllResolvesReferencesAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), secret.Options{})
	k := secret.NewResolver(s, secret.ResolverOptions{LookupEnv: func(name string) (string, bool) { return "from " + name, name == "REGION" }})
	set(t, s, "github/token", "ghp_first")
	in := map[string]string{"A": "secret://github/token", "B": "env://REGION", "C": "plain", "D": "Bearer secret://github/token, env://REGION;"}
	got, err := k.ExpandAll(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "ghp_first", "B": "from REGION", "C": "plain", "D": "Bearer ghp_first, from REGION;"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in["E"] = "Bearer secret://no/such"
	if _, err := k.ExpandAll(t.Context(), in); !errors.Is(err, &toolroom.Error{Code: toolroom.CodeNotFound}) {
		t.Errorf("got %v", err)
	}
}

func TestTheRedactorKnowsWhatIsStoredAndWhatWasResolved(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	set(t, open(t, home, secret.Options{}), "github/token", "ghp_first")
	s := open(t, home, secret.Options{})
	k := secret.NewResolver(s, secret.ResolverOptions{LookupEnv: func(string) (string, bool) { return "variable", true }})
	if got := redacted(s.Redactor(), "ghp_first variable"); got != "[secret github/token] variable" {
		t.Errorf("before: %s", got)
	}
	if _, err := k.Resolve(t.Context(), "env://REGION"); err != nil {
		t.Fatal(err)
	}
	set(t, s, "github/token", "ghp_second")
	if got := redacted(s.Redactor(), "ghp_first ghp_second variable"); got != "[secret github/token] [secret github/token] [env REGION]" {
		t.Errorf("after: %s", got)
	}
}

func TestNoUpdateIsLostWhenManyProcessesSet(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s, err := secret.Open(home, secret.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Set(t.Context(), secret.Ref{Scope: "s", Name: fmt.Sprint(i)}, fmt.Sprint("value ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	refs, err := open(t, home, secret.Options{}).List()
	if err != nil || len(refs) != 20 {
		t.Errorf("%d secrets, %v; want 20", len(refs), err)
	}
}

func TestADamagedStoreSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(t *testing.T, home string)
		want   string
	}{
		"no key": {
			func(t *testing.T, home string) { remove(t, home, "secrets.key") },
			"internal: the key of the secrets is gone: there is no HOME/secrets.key; restore the file, or remove secrets.json and set the secrets again",
		},
		"not a key": {
			func(t *testing.T, home string) { write(t, home, "secrets.key", "abc") },
			"internal: HOME/secrets.key is not a key: want 32 bytes in base64; restore the file from a backup",
		},
		"another key": {
			func(t *testing.T, home string) { write(t, home, "secrets.key", strings.Repeat("A", 43)+"=") },
			"internal: secret://a/b was encrypted with another key, or its text was changed; restore secrets.key beside it, or set it again: toolroom secret set a/b",
		},
		"not JSON": {
			func(t *testing.T, home string) { write(t, home, "secrets.json", "x") },
			"internal: HOME/secrets.json cannot be used: invalid character 'x' looking for beginning of value; restore the file from a backup, or remove it and set the secrets again",
		},
		"another version": {
			func(t *testing.T, home string) { write(t, home, "secrets.json", `{"version":2}`) },
			"internal: HOME/secrets.json cannot be used: it is of another version of Toolroom; restore the file from a backup, or remove it and set the secrets again",
		},
		"values swapped": {
			func(t *testing.T, home string) {
				text, err := os.ReadFile(filepath.Join(home, "secrets.json"))
				if err != nil {
					t.Fatal(err)
				}
				write(t, home, "secrets.json", strings.Replace(string(text), `"a/b"`, `"a/c"`, 1))
			},
			"internal: secret://a/c was encrypted with another key, or its text was changed; restore secrets.key beside it, or set it again: toolroom secret set a/c",
		},
		"key readable by others": {
			func(t *testing.T, home string) {
				if runtime.GOOS == "windows" {
					t.Skip("no modes on Windows")
				}
				if err := os.Chmod(filepath.Join(home, "secrets.key"), 0o644); err != nil {
					t.Fatal(err)
				}
			},
			"internal: others can read the key of the secrets: HOME/secrets.key has mode 0644; chmod 600 HOME/secrets.key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			set(t, open(t, home, secret.Options{}), "a/b", "value one")
			tc.damage(t, home)
			_, err := secret.Open(home, secret.Options{})
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tc.want, strings.ReplaceAll(explain(err), home, "HOME")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func write(t *testing.T, home, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, home, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(home, name)); err != nil {
		t.Fatal(err)
	}
}
