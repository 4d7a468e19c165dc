package backend

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

// VaultOptions configure a [Vault]. Exactly one of Token, AppRole and Kubernetes is
// set.
type VaultOptions struct {
	// Address is the server's URL.
	Address string
	// Namespace is a namespace of Vault Enterprise or OpenBao. The default is the root.
	Namespace string
	// Mount is the path at which the engine is mounted. The default is secret.
	Mount string
	// Path is the template of a secret's path, by default {scope}. Field is that
	// of the field within it, by default {name}. Own is the template of the path
	// for callers' own values; if it is empty, callers have none.
	Path, Own, Field secret.Template

	// Token returns the token. It is called again after the server has refused one.
	Token      func(context.Context) (string, error)
	AppRole    *AppRole
	Kubernetes *VaultKubernetes

	// HTTP makes the requests. The default is a client that follows no redirects.
	HTTP *http.Client
}

// AppRole logs in as a role; see
// https://developer.hashicorp.com/vault/api-docs/auth/approle.
type AppRole struct {
	// Mount is the path of the method. The default is approle.
	Mount string
	Role  string
	// Secret returns the secret id.
	Secret func(context.Context) (string, error)
}

// VaultKubernetes logs in with the token of a service account; see
// https://developer.hashicorp.com/vault/api-docs/auth/kubernetes.
type VaultKubernetes struct {
	// Mount is the path of the method. The default is kubernetes.
	Mount string
	Role  string
	// TokenFile contains the token. It is read at each login, because the cluster
	// renews it.
	TokenFile string
}

// Vault reads secrets from the KV engine, version 2, of HashiCorp Vault or OpenBao.
// See https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2.
type Vault struct {
	o VaultOptions

	busy  chan struct{} // held during a login, which others wait for
	mu    sync.Mutex
	token string // of the last login
}

// NewVault returns a Vault with these options. It sends no request yet.
func NewVault(o VaultOptions) *Vault {
	o.Address = strings.TrimRight(o.Address, "/")
	o.Mount = cmp.Or(strings.Trim(o.Mount, "/"), "secret")
	o.Path = cmp.Or(o.Path, "{scope}")
	o.Field = cmp.Or(o.Field, "{name}")
	if o.HTTP == nil {
		o.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Vault{o: o, busy: make(chan struct{}, 1)}
}

// Get returns one field of the newest version of a secret.
func (s *Vault) Get(ctx context.Context, ref secret.Ref) (string, error) {
	template := s.o.Path
	if ref.Owner != "" {
		if template = s.o.Own; template == "" {
			return "", secret.SharedOnlyError(ref, "Vault", "own_path")
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
		return "", secret.NotSetError(ref, path+" in Vault, field "+field)
	case err != nil:
		return "", fmt.Errorf("%s cannot be read: %w", ref, err)
	}
	switch value := answer.Data.Data[field].(type) {
	case string:
		return value, nil
	case nil:
		return "", secret.NotSetError(ref, path+" in Vault, field "+field)
	default:
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "%s is not a string in Vault", ref).WithHint("keep the field %s of %s as a string", field, path)
	}
}

// read uses the token of the last login, and logs in again if the server refuses
// it: a token expires without notice.
func (s *Vault) read(ctx context.Context, path string, into any) error {
	token, cached, err := s.login(ctx, "")
	if err != nil {
		return err
	}
	err = s.do(ctx, http.MethodGet, path, token, nil, into)
	if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || !cached {
		return err
	}
	// Vault refuses a path and an expired token in the same way. A login for each read of
	// a path that is denied would make as many tokens, and use up secret ids.
	if s.do(ctx, http.MethodGet, "auth/token/lookup-self", token, nil, &struct{}{}) == nil {
		return err
	}
	if token, _, err = s.login(ctx, token); err != nil {
		return err
	}
	return s.do(ctx, http.MethodGet, path, token, nil, into)
}

// login returns a token other than the refused one. cached reports whether it comes
// from an earlier login.
func (s *Vault) login(ctx context.Context, refused string) (token string, cached bool, err error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	s.mu.Lock()
	token = s.token
	s.mu.Unlock()
	if token != "" && token != refused {
		return token, true, nil
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
	s.mu.Lock()
	s.token = token
	s.mu.Unlock()
	return token, false, nil
}

func (s *Vault) appRole(ctx context.Context, a *AppRole) (string, error) {
	id, err := a.Secret(ctx)
	if err != nil {
		return "", err
	}
	return s.exchange(ctx, cmp.Or(a.Mount, "approle"), map[string]string{"role_id": a.Role, "secret_id": id})
}

func (s *Vault) kubernetes(ctx context.Context, k *VaultKubernetes) (string, error) {
	jwt, err := os.ReadFile(k.TokenFile)
	if err != nil {
		return "", err
	}
	return s.exchange(ctx, cmp.Or(k.Mount, "kubernetes"), map[string]string{"role": k.Role, "jwt": strings.TrimSpace(string(jwt))})
}

func (s *Vault) exchange(ctx context.Context, mount string, credentials map[string]string) (string, error) {
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
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "Vault returned no token")
	}
	return answer.Auth.Token, nil
}

func (s *Vault) do(ctx context.Context, method, path, token string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.o.Address+"/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the address of Vault is not a URL")
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
		return e.WithHint("check the address and the network")
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the response of Vault broke off: %w", err)
	}
	if len(text) > maxResponse {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the response of Vault has more than %d bytes", maxResponse)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response.StatusCode, path)
	}
	if err := json.Unmarshal(text, into); err != nil {
		// The error would quote the response.
		return toolroom.Errorf(toolroom.CodeUpstreamError, "the response of Vault is not what its API promises")
	}
	return nil
}

// refusal returns the error for a status. Vault responds with 403 to a token that is
// unknown, that has expired, and that may not read the path.
func refusal(status int, path string) error {
	switch {
	case status == http.StatusNotFound:
		return toolroom.Errorf(toolroom.CodeNotFound, "Vault has nothing at %s", path)
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "Vault refuses %s", path).
			WithHint("let the policy of the login read it: path %q { capabilities = [\"read\"] }", path)
	case status == http.StatusBadRequest && strings.HasPrefix(path, "auth/"):
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "Vault refuses the login at %s", path).WithHint("check the role and its credentials")
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Vault responded with status %d", status)
		e.Retryable = true
		return e.WithHint("check whether it is sealed")
	default:
		return toolroom.Errorf(toolroom.CodeUpstreamError, "Vault responded with status %d to %s", status, path)
	}
}

// host returns the part of an address that may be shown.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "its address"
	}
	return u.Host
}
