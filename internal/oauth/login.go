package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Visit shows a person the login URL, and returns the URL to which the browser was
// redirected. That URL begins with redirect.
type Visit func(ctx context.Context, address string) (back string, err error)

// Login lets a person log in. It finds the authorization server, registers the client
// there, has the person visit it, and stores the token. The authorization server sends
// the browser back to redirect.
func (c *Client) Login(ctx context.Context, redirect string, visit Visit) error {
	if c.unresolved.Grant != AuthorizationCode {
		return fmt.Errorf("the grant %s does not use a login", c.unresolved.Grant)
	}
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	if err := c.load(ctx); err != nil {
		return err
	}
	needed := c.record.Needed
	if needed == nil && c.config.Endpoints == nil {
		var err error
		if needed, err = c.probe(ctx); err != nil {
			return err
		}
	}
	s, err := c.find(ctx, needed)
	if err != nil {
		return err
	}
	if needed == nil {
		needed = &Needed{Scopes: c.config.Scopes, Issuer: s.Auth.Issuer}
	}
	if !s.Auth.assumed && !slices.Contains(s.Auth.Challenges, "S256") {
		return &Refused{"the authorization server " + s.Auth.Issuer + " does not support PKCE"}
	}
	if needed.Issuer != s.Auth.Issuer || len(needed.Scopes) == 0 {
		needed.Scopes = c.scopes(s, c.record.Grants[s.Auth.Issuer], needed.Scopes)
	}
	client, err := c.register(ctx, s, redirect)
	if err != nil {
		return err
	}
	answer, key, err := c.authorize(ctx, s, client, redirect, needed.Scopes, visit)
	if err != nil {
		return err
	}
	end, err := c.lockStored(ctx) // not before: the login may have taken minutes
	if err != nil {
		return err
	}
	defer end()
	_, err = c.storeToken(ctx, s, client, key, needed.Scopes, answer)
	return err
}

// find returns the authorization server that the config names, or that the service names.
func (c *Client) find(ctx context.Context, needed *Needed) (*servers, error) {
	if e := c.config.Endpoints; e != nil {
		return &servers{Auth: authServer{Issuer: c.config.Issuer, Authorization: e.Authorization, Token: e.Token, Challenges: []string{"S256"}, configured: true}}, nil
	}
	return c.discover(ctx, needed.Metadata)
}

// AccessToken returns a token to use now, which it renews if necessary. The error is a
// [*Needed] if a person must log in first.
func (c *Client) AccessToken(ctx context.Context) (string, error) {
	g, err := c.currentGrant(ctx)
	if err != nil {
		return "", err
	}
	if g == nil {
		return "", &Needed{Issuer: c.unresolved.Issuer, Scopes: c.unresolved.Scopes, Reason: "nobody has logged in, or the login has ended"}
	}
	return g.AccessToken, nil
}

// Logout deletes all tokens.
func (c *Client) Logout(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	end, err := c.store.Lock(ctx)
	if err != nil {
		return err
	}
	defer end()
	c.record = &record{Grants: map[string]*grant{}}
	return c.save(ctx)
}

// probe obtains the server's challenge, with a request without a token.
func (c *Client) probe(ctx context.Context) (*Needed, error) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.Resource, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	ch := readChallenge(resp)
	return &Needed{Scopes: ch.scopes, Metadata: ch.metadata}, nil
}

// authorize has the person visit the authorization server and exchanges the returned
// code for a token (RFC 6749, 4.1; RFC 7636; RFC 9207).
func (c *Client) authorize(ctx context.Context, s *servers, client registration, redirect string, scopes []string, visit Visit) (*tokenResponse, string, error) {
	state, verifier := rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {redirect}, "state": {state},
		"code_challenge": {encode(sum[:])}, "code_challenge_method": {"S256"}, "resource": {s.Resource},
	}
	if s.Resource == "" {
		query.Del("resource")
	}
	if len(scopes) > 0 {
		query.Set("scope", strings.Join(scopes, " "))
	}
	if slices.Contains(scopes, "offline_access") {
		query.Set("prompt", "consent") // OpenID Connect Core, 11
	}
	address, err := url.Parse(s.Auth.Authorization)
	if err != nil {
		return nil, "", err
	}
	for name, values := range address.Query() {
		if !query.Has(name) {
			query[name] = values
		}
	}
	address.RawQuery = query.Encode()
	back, err := visit(ctx, address.String())
	if err != nil {
		return nil, "", err
	}
	code, err := s.readReturn(back, state)
	if err != nil {
		return nil, "", err
	}
	key, text, err := s.newBoundKey()
	if err != nil {
		return nil, "", err
	}
	answer, err := c.exchange(ctx, tokenRequest{
		endpoint: s.Auth.Token, audience: s.Auth.Issuer, client: client, key: key,
		form: url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect},
			"code_verifier": {verifier}, "resource": {s.Resource},
		},
	})
	return answer, text, err
}

// readReturn reads the code from the URL to which the browser was redirected, and
// checks that it comes from the authorization server that was visited.
func (s *servers) readReturn(back, state string) (code string, err error) {
	u, err := url.Parse(strings.TrimSpace(back))
	if err != nil {
		return "", errors.New("the redirect is not a valid URL")
	}
	q := u.Query()
	if q.Get("state") != state {
		return "", errors.New("the redirect belongs to another login: its state differs from the one that was sent")
	}
	issuer := q.Get("iss")
	switch {
	case s.Auth.NamesIssuer && issuer == "":
		return "", errors.New("the redirect does not name its issuer, although the authorization server promised it")
	case issuer != "" && issuer != s.Auth.Issuer:
		return "", fmt.Errorf("the redirect is from the issuer %q, not from %q", issuer, s.Auth.Issuer)
	case issuer != "" && !s.Auth.NamesIssuer && !s.Auth.configured:
		return "", fmt.Errorf("the redirect names the issuer %q, although the authorization server declares none", issuer)
	}
	if refused := q.Get("error"); refused != "" {
		return "", &tokenError{Code: refused, Text: q.Get("error_description")}
	}
	if code = q.Get("code"); code == "" {
		return "", errors.New("the redirect has no code")
	}
	return code, nil
}

// register returns the client's registration at the authorization server: the
// operator's credentials, the client's metadata document, or a new registration.
func (c *Client) register(ctx context.Context, s *servers, redirect string) (registration, error) {
	if c.config.ClientID != "" {
		if c.config.Issuer != "" || c.config.ClientSecret != "" || c.config.PrivateKey != "" {
			if err := c.checkIssuer(s); err != nil {
				return registration{}, err
			}
		}
		return registration{ID: c.config.ClientID, Secret: c.config.ClientSecret, Method: authMethod(c.config.ClientSecret, c.config.PrivateKey, s.Auth.TokenMethods)}, nil
	}
	if c.config.MetadataURL != "" && s.Auth.MetadataURLs {
		return registration{ID: c.config.MetadataURL, Method: byNone}, nil
	}
	if g := c.record.Grants[s.Auth.Issuer]; g != nil && g.Client.Redirect == redirect && g.Client.ID != "" {
		return g.Client, nil
	}
	if s.Auth.Registration == "" {
		return registration{}, &Refused{"the authorization server " + s.Auth.Issuer + " registers no clients: have its operator give you a client id"}
	}
	return c.registerAt(ctx, s, redirect)
}

// registerAt registers the client (RFC 7591).
func (c *Client) registerAt(ctx context.Context, s *servers, redirect string) (registration, error) {
	wanted := byNone
	if len(s.Auth.TokenMethods) > 0 && !slices.Contains(s.Auth.TokenMethods, byNone) {
		wanted = authMethod("a secret to come", "", s.Auth.TokenMethods)
	}
	body, err := json.Marshal(map[string]any{
		"client_name": "Toolroom", "application_type": "native", "redirect_uris": []string{redirect},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": wanted,
	})
	if err != nil {
		return registration{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Auth.Registration, bytes.NewReader(body))
	if err != nil {
		return registration{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return registration{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return registration{}, err
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		refused := &tokenError{}
		if json.Unmarshal(data, refused) == nil && refused.Code != "" {
			return registration{}, refused
		}
		return registration{}, fmt.Errorf("the registration at %s answered with status %d", s.Auth.Registration, resp.StatusCode)
	}
	var got struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	if err := json.Unmarshal(data, &got); err != nil || got.ID == "" {
		return registration{}, fmt.Errorf("the registration at %s returned no client id", s.Auth.Registration)
	}
	if got.Method == "" {
		got.Method = authMethod(got.Secret, "", s.Auth.TokenMethods)
	}
	return registration{ID: got.ID, Secret: got.Secret, Method: got.Method, Redirect: redirect}, nil
}
