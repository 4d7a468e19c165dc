package server

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// newLogin returns the handler that signs people in to the page. verify verifies tokens.
func newLogin(r *app.App, c config.Server, verify func(context.Context, string) (toolroom.Identity, error), log *slog.Logger) (*auth.Login, error) {
	state, err := r.StateKey()
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, state, nil, "toolroom page sessions", 32)
	if err != nil {
		return nil, err
	}
	https := strings.HasPrefix(c.URL, "https://")
	o := auth.LoginOptions{
		Key: key, Verify: verify, Sessions: r.Parts().Tokens, Log: cmp.Or(log, slog.New(slog.DiscardHandler)),
		Secure: func(req *http.Request) bool { return req.TLS != nil || https },
	}
	if l := c.Auth.Login; l != nil {
		o.OIDC = provider(*l, c.URL, r.Parts().Resolve)
	}
	return auth.NewLogin(o)
}

// provider returns the OpenID Connect provider of the config.
func provider(l config.Login, at string, resolve func(context.Context, string) (string, error)) *auth.OIDC {
	client := &http.Client{Timeout: 10 * time.Second}
	v := auth.NewVerifier(auth.VerifierOptions{Issuers: []string{l.Issuer}, Resource: l.ClientID, GroupsClaim: l.GroupsClaim, Client: client})
	name := l.Issuer
	if u, err := url.Parse(l.Issuer); err == nil {
		name = u.Host
	}
	return &auth.OIDC{
		Name: name, ClientID: l.ClientID, Redirect: strings.TrimSuffix(at, "/") + auth.LoginCallbackPath,
		Scopes: l.Scopes, Client: client, Verify: v.VerifyLogin,
		Endpoints: func(ctx context.Context) (auth.Endpoints, error) { return v.Endpoints(ctx, l.Issuer) },
		Secret: func(ctx context.Context) (string, error) {
			if l.ClientSecret == "" {
				return "", nil
			}
			return resolve(ctx, l.ClientSecret)
		},
	}
}
