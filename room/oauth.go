package room

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

// authorisation gives the tokens of an identity for a remote MCP server, nil
// where the config sends credentials of its own. forAll says that all callers
// use the same.
func (r *Room) authorisation(name string, m *config.MCP, guard *egress.Guard) (auth func(who string) *oauth.Client, forAll bool) {
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
		Resolve: r.expand,
	}
	named := []string{m.URL, o.Issuer, o.MetadataURL}
	if o.IDP != nil {
		c.IDP = oauth.IDP(*o.IDP)
		named = append(named, o.IDP.Issuer, o.IDP.TokenEndpoint)
	}
	if o.Token != "" || o.TokenFile != "" {
		c.Assertion = func(ctx context.Context) (string, error) { return r.assertion(ctx, o) }
	}
	forAll = o.Shared || c.Grant != "" && c.Grant != oauth.AuthorizationCode
	// What a server says of where to log in is not believed further than the
	// guard goes; what the config names is the operator's own.
	client := guard.WithOwn(own(named)...).Client()
	client.Timeout = oauthTimeout
	return func(who string) *oauth.Client {
		return oauth.New(c, &loginStore{secrets: r.secrets, ref: loginRef(name, who)}, client)
	}, forAll
}

// oauthTimeout bounds one request to an authorization server.
const oauthTimeout = time.Minute

// own are the addresses that the config names.
func own(addresses []string) []*url.URL {
	var urls []*url.URL
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// expand gives a text with references to secrets replaced.
func (r *Room) expand(ctx context.Context, text string) (string, error) {
	values, err := r.keeper.ExpandAll(shared(ctx), map[string]string{"": text})
	return values[""], err
}

func (r *Room) assertion(ctx context.Context, o config.OAuthClient) (string, error) {
	if o.TokenFile == "" {
		return r.expand(ctx, o.Token)
	}
	data, err := os.ReadFile(r.folder(o.TokenFile))
	if err != nil {
		return "", fmt.Errorf("the token to exchange: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// loginStore keeps the logins of one source and one identity among the secrets.
type loginStore struct {
	secrets *secret.Store
	ref     secret.Ref
}

// loginRef names the secret; who may hold anything, and is empty for what all
// share.
func loginRef(name, who string) secret.Ref {
	owner := "shared"
	if who != "" {
		sum := sha256.Sum256([]byte(who))
		owner = hex.EncodeToString(sum[:8])
	}
	return secret.Ref{Scope: name, Name: "oauth." + owner}
}

// Load reads the logins.
func (s *loginStore) Load(ctx context.Context) ([]byte, error) {
	text, err := s.secrets.Get(ctx, s.ref)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return nil, nil
	}
	return []byte(text), err
}

// Save keeps the logins. Their tokens are masked from then on.
func (s *loginStore) Save(ctx context.Context, data []byte, secrets []string) error {
	s.Learn(secrets)
	return s.secrets.Set(ctx, s.ref, string(data))
}

// Learn has values masked.
func (s *loginStore) Learn(secrets []string) {
	for _, value := range secrets {
		s.secrets.Masker().Learn(map[secret.Ref]string{s.ref: value})
	}
}

// Visit shows a person the address to log in at, and gives the address that the
// browser was sent back to.
type Visit = func(ctx context.Context, address string) (back string, err error)

// Login lets a person log in to a source for an identity. Redirect is where the
// browser comes back to. The tokens are kept among the secrets; a server that
// runs meanwhile finds them with its next call. The error is not_found for a
// source that is not configured, unsupported for one that takes no login.
func (r *Room) Login(ctx context.Context, name string, who toolroom.Identity, redirect string, visit Visit) error {
	h := r.host(name)
	if h == nil {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no source %q", name).
			WithHint("see what there is: toolroom sources list")
	}
	type loginer interface {
		Login(context.Context, toolroom.Identity, string, oauth.Visit) error
	}
	src := h.src
	for {
		if l, ok := src.(loginer); ok {
			return l.Login(ctx, who, redirect, visit)
		}
		inner, ok := src.(interface{ Unwrap() source.Source })
		if !ok {
			return toolroom.Errorf(toolroom.CodeUnsupported, "the source %s takes no login", name).
				WithHint("keep a token for it: toolroom sources login --token %s", name)
		}
		src = inner.Unwrap()
	}
}
