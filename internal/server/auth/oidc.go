package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// OIDC is an OpenID Connect provider.
type OIDC struct {
	// Name is the name that people read, usually the host of the issuer.
	Name string
	// Endpoints returns the provider's addresses.
	Endpoints func(ctx context.Context) (Endpoints, error)
	// Verify returns the identity of an ID token with a nonce. It is [Verifier.VerifyLogin].
	Verify func(ctx context.Context, token, nonce string, userInfo UserInfo) (toolroom.Identity, error)
	// ClientID is the id of Toolroom's registration as a client, and Secret returns its secret,
	// which is empty for a public client.
	ClientID string
	Secret   func(ctx context.Context) (string, error)
	// Redirect is the address of [LoginCallbackPath] as the provider knows it.
	Redirect string
	Scopes   []string
	// Client sends requests to the provider.
	Client *http.Client
}

const (
	attemptCookie = "toolroom_login"
	attemptTime   = 10 * time.Minute
	// maxAnswer is the largest answer of a provider, in bytes.
	maxAnswer = 1 << 20
)

// attempt is the content of the cookie of a login in progress at the provider.
type attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // of PKCE
	Expires  time.Time `json:"expires"`
}

// beginOIDC redirects the browser to the provider.
func (l *Login) beginOIDC(w http.ResponseWriter, r *http.Request) {
	endpoints, err := l.o.OIDC.Endpoints(r.Context())
	var to *url.URL
	if err == nil {
		to, err = url.Parse(endpoints.Authorize)
	}
	if err != nil {
		l.oidcFailed(w, r, "begin", err)
		return
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Expires: time.Now().Add(attemptTime)}
	if err := l.setCookie(w, r, attemptCookie, a, attemptTime); err != nil {
		l.oidcFailed(w, r, "begin", err)
		return
	}
	challenge := sha256.Sum256([]byte(a.Verifier))
	query := to.Query()
	for key, value := range map[string]string{
		"response_type": "code", "client_id": l.o.OIDC.ClientID, "redirect_uri": l.o.OIDC.Redirect,
		"scope": strings.Join(append([]string{"openid"}, l.o.OIDC.Scopes...), " "), "state": a.State, "nonce": a.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(key, value)
	}
	to.RawQuery = query.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// callback handles the browser's redirect from the provider.
func (l *Login) callback(w http.ResponseWriter, r *http.Request) {
	var a attempt
	known := l.openCookie(r, attemptCookie, &a)
	l.clearCookie(w, r, attemptCookie)
	q := r.URL.Query()
	switch {
	case !known || time.Now().After(a.Expires) || q.Get("state") != a.State:
		l.writeForm(w, r, http.StatusBadRequest, "This sign-in is not one that this browser began within the last 10 minutes. Begin it again.")
		return
	case q.Get("error") != "":
		l.writeForm(w, r, http.StatusForbidden, "The provider refused: "+strings.TrimSpace(q.Get("error")+" "+q.Get("error_description")))
		return
	}
	who, err := l.redeem(r.Context(), q.Get("code"), a)
	if err != nil {
		l.oidcFailed(w, r, "redeem the code", err)
		return
	}
	l.startSession(w, r, session{Who: &who})
}

// redeem exchanges a code for an ID token, and returns the identity in it, with the scopes that
// the provider granted.
func (l *Login) redeem(ctx context.Context, code string, a attempt) (toolroom.Identity, error) {
	o := l.o.OIDC
	endpoints, err := o.Endpoints(ctx)
	if err != nil {
		return toolroom.Identity{}, err
	}
	secret, err := o.Secret(ctx)
	if err != nil {
		return toolroom.Identity{}, err
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {o.Redirect}, "code_verifier": {a.Verifier},
	}
	if secret == "" {
		form.Set("client_id", o.ClientID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoints.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return toolroom.Identity{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" { // RFC 6749, 2.3.1: both are encoded
		req.SetBasicAuth(url.QueryEscape(o.ClientID), url.QueryEscape(secret))
	}
	// Do not follow redirects: they would carry the code and the secret to another URL.
	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return toolroom.Identity{}, err
	}
	defer resp.Body.Close()
	var answer struct {
		IDToken     string  `json:"id_token"`
		AccessToken string  `json:"access_token"`
		Scope       *string `json:"scope"`
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer)
	switch {
	case answer.Error != "":
		return toolroom.Identity{}, fmt.Errorf("%s: %s", answer.Error, answer.Description)
	case resp.StatusCode != http.StatusOK:
		return toolroom.Identity{}, fmt.Errorf("%s responded with %s", endpoints.Token, resp.Status)
	case err != nil:
		return toolroom.Identity{}, fmt.Errorf("%s: %w", endpoints.Token, err)
	case answer.IDToken == "":
		return toolroom.Identity{}, fmt.Errorf("%s returned no ID token", endpoints.Token)
	}
	var userInfo UserInfo
	if endpoints.UserInfo != "" && answer.AccessToken != "" {
		userInfo = func(ctx context.Context) (map[string]any, error) {
			var claims map[string]any
			err := getJSON(ctx, o.Client, endpoints.UserInfo, answer.AccessToken, &claims)
			return claims, err
		}
	}
	who, err := o.Verify(ctx, answer.IDToken, a.Nonce, userInfo)
	if err != nil {
		return toolroom.Identity{}, err
	}
	// Without the member, all requested scopes were granted (RFC 6749, 5.1).
	who.Scopes = append([]string{}, o.Scopes...)
	if answer.Scope != nil {
		who.Scopes = strings.Fields(*answer.Scope)
	}
	return who, nil
}

// oidcFailed responds with the form and an error about the provider. The details are logged.
func (l *Login) oidcFailed(w http.ResponseWriter, r *http.Request, what string, err error) {
	l.o.Log.Warn("a sign-in at the OpenID Connect provider failed", "step", what, "error", err)
	l.writeForm(w, r, http.StatusBadGateway, "Signing in at "+l.o.OIDC.Name+" failed. The server's log says why.")
}
