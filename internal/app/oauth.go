package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// authorisation returns the function that returns the OAuth client of an identity for a
// remote MCP server. It returns nil if the config sends its own credentials. forAll reports
// that all callers use the same tokens.
func (a *App) authorisation(name string, m *config.MCP, guard *egress.Guard) (auth func(who string) *oauth.Client, forAll bool) {
	if m.URL == "" {
		return nil, false
	}
	for header := range m.Headers {
		if strings.EqualFold(header, "Authorization") {
			return nil, false
		}
	}
	o := config.OAuthClient{}
	if m.OAuth != nil {
		o = *m.OAuth
	}
	c := oauth.Config{
		Resource: m.URL, Grant: oauth.Grant(o.Grant), ClientID: o.ClientID, ClientSecret: o.ClientSecret,
		Issuer: o.Issuer, PrivateKey: o.PrivateKey, KeyID: o.KeyID, MetadataURL: o.MetadataURL, Scopes: o.Scopes,
		Resolve: a.expandSecrets,
	}
	named := []string{m.URL, o.Issuer, o.MetadataURL}
	if o.IDP != nil {
		c.IDP = oauth.IDP(*o.IDP)
		named = append(named, o.IDP.Issuer, o.IDP.TokenEndpoint)
	}
	if o.Token != "" || o.TokenFile != "" {
		c.Assertion = func(ctx context.Context) (string, error) { return a.clientAssertion(ctx, o) }
	}
	forAll = o.Shared || c.Grant != "" && c.Grant != oauth.AuthorizationCode
	// The server's own statements about where to log in are subject to the guard. Addresses
	// in the config are the operator's own and are trusted.
	client := guard.WithOwn(parseAddresses(named)...).Client()
	client.Timeout = oauthTimeout
	return func(who string) *oauth.Client {
		return oauth.New(c, &loginStore{secrets: a.secrets, ref: loginRef(name, who)}, client)
	}, forAll
}

// oauthTimeout limits one request to an authorization server.
const oauthTimeout = time.Minute

// parseAddresses parses addresses of the config.
func parseAddresses(addresses []string) []*url.URL {
	var urls []*url.URL
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// expandSecrets replaces the secret references in a text.
func (a *App) expandSecrets(ctx context.Context, text string) (string, error) {
	values, err := a.resolver.ExpandAll(forAllCallers(ctx), map[string]string{"": text})
	return values[""], err
}

func (a *App) clientAssertion(ctx context.Context, o config.OAuthClient) (string, error) {
	if o.TokenFile == "" {
		return a.expandSecrets(ctx, o.Token)
	}
	data, err := os.ReadFile(a.resolvePath(o.TokenFile))
	if err != nil {
		return "", fmt.Errorf("the token to exchange: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// loginStore stores the logins of one source and one identity as a secret.
type loginStore struct {
	secrets *secret.Store
	ref     secret.Ref
}

// loginRef returns the reference of the secret that holds a login. who is any text, or
// empty for a shared login.
func loginRef(name, who string) secret.Ref {
	owner := "shared"
	if who != "" {
		sum := sha256.Sum256([]byte(who))
		owner = hex.EncodeToString(sum[:8])
	}
	return secret.Ref{Scope: name, Name: secret.RecordPrefix + owner}
}

// Load reads the logins.
func (s *loginStore) Load(ctx context.Context) ([]byte, error) {
	text, err := s.secrets.Get(ctx, s.ref)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return nil, nil
	}
	return []byte(text), err
}

// Save stores the logins. Their tokens are redacted from then on.
func (s *loginStore) Save(ctx context.Context, data []byte, secrets []string) error {
	return s.secrets.SetRecord(ctx, s.ref, string(data), secrets)
}

// Learn adds values to redact.
func (s *loginStore) Learn(secrets []string) { s.secrets.Redactor().LearnAll(s.ref, secrets) }

// Lock waits for other users of the same logins, also in other processes.
func (s *loginStore) Lock(ctx context.Context) (func(), error) {
	return s.secrets.LockRecord(ctx, s.ref)
}

// Visit opens the address where a person logs in, and returns the address that the browser
// was redirected to.
type Visit = func(ctx context.Context, address string) (back string, err error)

// Login lets a person log in to a source for an identity. redirect is the address that the
// browser is redirected to. The tokens are stored as a secret; a running server uses them
// from its next call on. The error is not_found if the source is not configured, and
// unsupported if it has no login.
func (a *App) Login(ctx context.Context, name string, who toolroom.Identity, redirect string, visit Visit) error {
	h := a.manager(name)
	if h == nil && a.PackHasLogin(name) {
		login, err := a.googleLogin(a.Config(), who)
		if err != nil {
			return err
		}
		return login.Login(ctx, redirect, visit)
	}
	if h == nil {
		return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).
			WithCLIHint("list the sources: toolroom sources list")
	}
	type loginer interface {
		Login(context.Context, toolroom.Identity, string, oauth.Visit) error
	}
	if l, ok := source.As[loginer](h.src); ok {
		return l.Login(ctx, who, redirect, visit)
	}
	return toolroom.Errorf(toolroom.CodeUnsupported, "source %s has no login", name).
		WithCLIHint("store a token for it: toolroom sources login --token %s", name)
}
