// Package vaultkv reads secrets from the KV engine, version 2, of HashiCorp
// Vault or OpenBao over their HTTP API. See
// https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2.
package vaultkv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// Options say which server and how to log in. Exactly one of Token, AppRole and
// Kubernetes is set.
type Options struct {
	// Address is the server's URL.
	Address string
	// Namespace is that of Vault Enterprise and OpenBao; empty is the root.
	Namespace string
	// Mount is where the engine is mounted (secret).
	Mount string
	// Path is the secret's path ({scope}), and Own that of a caller's own
	// values; empty keeps none. Field is the field within it ({name}).
	Path, Own, Field secret.Template

	// Token gives the token; it is asked again after the server refused one.
	Token      func(context.Context) (string, error)
	AppRole    *AppRole
	Kubernetes *Kubernetes

	// HTTP makes the requests; nil is a client of its own that follows no
	// redirects.
	HTTP *http.Client
}

// AppRole logs in as a role; see
// https://developer.hashicorp.com/vault/api-docs/auth/approle.
type AppRole struct {
	// Mount is where the method is mounted (approle).
	Mount string
	Role  string
	// Secret gives the secret id.
	Secret func(context.Context) (string, error)
}

// Kubernetes logs in with the service account's token; see
// https://developer.hashicorp.com/vault/api-docs/auth/kubernetes.
type Kubernetes struct {
	// Mount is where the method is mounted (kubernetes).
	Mount string
	Role  string
	// TokenFile holds the token. It is read at each login: the cluster renews it.
	TokenFile string
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 20

// Store is a [secret.Backend].
type Store struct {
	o Options

	mu    sync.Mutex
	token string // of the last login
}

// New makes a store. Nothing is asked yet.
func New(o Options) *Store {
	o.Address = strings.TrimRight(o.Address, "/")
	o.Mount = cmp.Or(strings.Trim(o.Mount, "/"), "secret")
	o.Path = cmp.Or(o.Path, "{scope}")
	o.Field = cmp.Or(o.Field, "{name}")
	if o.HTTP == nil {
		o.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Store{o: o}
}

// Get reads one field of a secret's newest version.
func (s *Store) Get(ctx context.Context, ref secret.Ref) (string, error) {
	template := s.o.Path
	if ref.Owner != "" {
		if template = s.o.Own; template == "" {
			return "", secret.NoOwn(ref, "Vault", "own_path")
		}
	}
	path, err := template.Path(ref)
	if err != nil {
		return "", err
	}
	field, err := s.o.Field.Word(ref)
	if err != nil {
		return "", err
	}
	path = s.o.Mount + "/data/" + path
	var answer struct {
		Data struct {
			Data map[string]any `json:"data"`
		} `json:"data"`
	}
	switch err := s.read(ctx, path, &answer); {
	case toolroom.CodeOf(err) == toolroom.CodeNotFound:
		return "", secret.Unset(ref, path+" in Vault, field "+field)
	case err != nil:
		return "", fmt.Errorf("%s cannot be read: %w", ref, err)
	}
	switch value := answer.Data.Data[field].(type) {
	case string:
		return value, nil
	case nil:
		return "", secret.Unset(ref, path+" in Vault, field "+field)
	default:
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "%s is no text in Vault", ref).WithHint("keep the field %s of %s as a string", field, path)
	}
}

// read asks with the token of the last login, and logs in anew when that is
// refused: a token ends without notice.
func (s *Store) read(ctx context.Context, path string, into any) error {
	token, cached, err := s.login(ctx, "")
	if err != nil {
		return err
	}
	err = s.do(ctx, http.MethodGet, path, token, nil, into)
	if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || !cached {
		return err
	}
	if token, _, err = s.login(ctx, token); err != nil {
		return err
	}
	return s.do(ctx, http.MethodGet, path, token, nil, into)
}

// login gives a token other than the refused one. cached says that it is from
// an earlier login.
func (s *Store) login(ctx context.Context, refused string) (token string, cached bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && s.token != refused {
		return s.token, true, nil
	}
	switch {
	case s.o.Token != nil:
		token, err = s.o.Token(ctx)
	case s.o.AppRole != nil:
		token, err = s.appRole(ctx, s.o.AppRole)
	default:
		token, err = s.kubernetes(ctx, s.o.Kubernetes)
	}
	if err != nil {
		return "", false, fmt.Errorf("log in to Vault: %w", err)
	}
	s.token = token
	return token, false, nil
}

func (s *Store) appRole(ctx context.Context, a *AppRole) (string, error) {
	id, err := a.Secret(ctx)
	if err != nil {
		return "", err
	}
	return s.exchange(ctx, cmp.Or(a.Mount, "approle"), map[string]string{"role_id": a.Role, "secret_id": id})
}

func (s *Store) kubernetes(ctx context.Context, k *Kubernetes) (string, error) {
	jwt, err := os.ReadFile(k.TokenFile)
	if err != nil {
		return "", err
	}
	return s.exchange(ctx, cmp.Or(k.Mount, "kubernetes"), map[string]string{"role": k.Role, "jwt": strings.TrimSpace(string(jwt))})
}

func (s *Store) exchange(ctx context.Context, mount string, credentials map[string]string) (string, error) {
	body, err := json.Marshal(credentials)
	if err != nil {
		return "", err
	}
	var answer struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	if err := s.do(ctx, http.MethodPost, "auth/"+strings.Trim(mount, "/")+"/login", "", body, &answer); err != nil {
		return "", err
	}
	if answer.Auth.Token == "" {
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "Vault gave no token")
	}
	return answer.Auth.Token, nil
}

func (s *Store) do(ctx context.Context, method, path, token string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.o.Address+"/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the address of Vault is no URL")
	}
	request.Header.Set("X-Vault-Request", "true")
	if token != "" {
		request.Header.Set("X-Vault-Token", token)
	}
	if s.o.Namespace != "" {
		request.Header.Set("X-Vault-Namespace", s.o.Namespace)
	}
	response, err := s.o.HTTP.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Vault at %s cannot be reached: %w", host(s.o.Address), err)
		e.Retryable = true
		return e.WithHint("look at the address and the network")
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the answer of Vault broke off: %w", err)
	}
	if len(text) > maxAnswer {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the answer of Vault has more than %d bytes", maxAnswer)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response.StatusCode, path)
	}
	if err := json.Unmarshal(text, into); err != nil {
		// The error would quote the answer.
		return toolroom.Errorf(toolroom.CodeUpstreamError, "the answer of Vault is not what its API promises")
	}
	return nil
}

// refusal is the error of a status. Vault answers 403 to a token that is not
// known, or over, as to one that may not read the path.
func refusal(status int, path string) error {
	switch {
	case status == http.StatusNotFound:
		return toolroom.Errorf(toolroom.CodeNotFound, "there is nothing at %s", path)
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "Vault refuses %s", path).
			WithHint("see that the login's policy may read it: path %q { capabilities = [\"read\"] }", path)
	case status == http.StatusBadRequest && strings.HasPrefix(path, "auth/"):
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "Vault refuses the login at %s", path).WithHint("look at the role and its credentials")
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Vault answers with status %d", status)
		e.Retryable = true
		return e.WithHint("see whether it is sealed")
	default:
		return toolroom.Errorf(toolroom.CodeUpstreamError, "Vault answers with status %d to %s", status, path)
	}
}

// host is what of an address may be shown.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "its address"
	}
	return u.Host
}
