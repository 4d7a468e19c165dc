package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Methods by which a client authenticates at the token endpoint (RFC 7591, 2).
const (
	byBasic = "client_secret_basic"
	byPost  = "client_secret_post"
	byKey   = "private_key_jwt"
	byNone  = "none"
)

// registration is a client's registration at an authorization server.
type registration struct {
	ID     string `json:"id,omitempty"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method,omitempty"`
	// Redirect is the redirect URL of a registered client.
	Redirect string `json:"redirect,omitempty"`
}

// tokenError is the error response of a token endpoint (RFC 6749, 5.2).
type tokenError struct {
	Code string `json:"error"`
	Text string `json:"error_description"`
}

// Error returns the code and the server's description.
func (e *tokenError) Error() string {
	text := "the authorization server refused: " + e.Code
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// tokenResponse is RFC 6749, 5.1.
type tokenResponse struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    float64 `json:"expires_in"`
	RefreshToken string  `json:"refresh_token"`
	Scope        *string `json:"scope"`
	// IssuedType is the type of an exchanged token (RFC 8693, 2.2.1).
	IssuedType string `json:"issued_token_type"`
}

// tokenRequest is one request to a token endpoint.
type tokenRequest struct {
	endpoint string
	audience string // of a client's assertion: the issuer
	client   registration
	key      *signer // to which the token is bound; may be nil
	form     url.Values
}

// exchange requests a token. It repeats the request once if the server requires a nonce
// in the proof.
func (c *Client) exchange(ctx context.Context, r tokenRequest) (*tokenResponse, error) {
	for again := true; ; again = false {
		resp, err := c.post(ctx, r)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			var answer tokenResponse
			if err := json.Unmarshal(data, &answer); err != nil || answer.AccessToken == "" {
				return nil, fmt.Errorf("the token endpoint %s answered without a token", r.endpoint)
			}
			return &answer, nil
		}
		refused := &tokenError{}
		if json.Unmarshal(data, refused) != nil || refused.Code == "" {
			return nil, fmt.Errorf("the token endpoint %s answered with status %d", r.endpoint, resp.StatusCode)
		}
		if !again || refused.Code != "use_dpop_nonce" || !c.dpop.store(resp) {
			return nil, refused
		}
	}
}

func (c *Client) post(ctx context.Context, r tokenRequest) (*http.Response, error) {
	if r.form.Get("resource") == "" {
		r.form.Del("resource") // of a service without discovery
	}
	if err := checkSafe(r.endpoint); err != nil {
		return nil, err
	}
	form := url.Values{}
	maps.Copy(form, r.form)
	basic := false
	switch r.client.Method {
	case byBasic:
		basic = true
	case byKey:
		key, err := readKey(c.config.PrivateKey)
		if err != nil {
			return nil, err
		}
		assertion, err := key.assertion(r.client.ID, r.audience, c.config.KeyID, c.now())
		if err != nil {
			return nil, err
		}
		form.Set("client_id", r.client.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case byPost:
		form.Set("client_id", r.client.ID)
		form.Set("client_secret", r.client.Secret)
	default:
		if r.client.ID != "" {
			form.Set("client_id", r.client.ID)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		// RFC 6749, 2.3.1: both are encoded as in a form first.
		req.SetBasicAuth(url.QueryEscape(r.client.ID), url.QueryEscape(r.client.Secret))
	}
	if r.key != nil {
		proof, err := r.key.proof(req, "", c.dpop.get(req.URL), c.now())
		if err != nil {
			return nil, err
		}
		req.Header.Set("DPoP", proof)
	}
	// Do not follow redirects: they would carry the secrets to another URL.
	client := *c.http
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client.Do(req)
}

// authMethod returns the authentication method for these credentials.
func authMethod(secret, key string, supported []string) string {
	switch {
	case key != "":
		return byKey
	case secret == "":
		return byNone
	case slices.Contains(supported, byPost) && !slices.Contains(supported, byBasic):
		return byPost
	default:
		return byBasic
	}
}

// maxSeconds is the longest accepted lifetime of a token: a year.
const maxSeconds = 366 * 24 * 3600

// storeToken stores a token in the record, under its issuer and with the requested scopes.
func (c *Client) storeToken(ctx context.Context, s *servers, client registration, key string, asked []string, a *tokenResponse) (*grant, error) {
	g := &grant{
		Client: client, Resource: s.Resource, TokenEndpoint: s.Auth.Token,
		AccessToken: a.AccessToken, TokenType: cmp.Or(a.TokenType, "Bearer"), RefreshToken: a.RefreshToken,
		Scopes: asked, Key: key,
	}
	if a.Scope != nil && strings.TrimSpace(*a.Scope) != "" {
		g.Scopes = strings.Fields(*a.Scope)
	}
	if a.ExpiresIn > 0 {
		g.Expires = c.now().Add(time.Duration(min(a.ExpiresIn, maxSeconds)) * time.Second)
	}
	if before := c.record.Grants[s.Auth.Issuer]; before != nil && g.RefreshToken == "" && before.Client.ID == client.ID {
		g.RefreshToken = before.RefreshToken // it stays valid if there is no new one
	}
	c.record.Grants[s.Auth.Issuer] = g
	c.record.Issuer, c.record.Needed = s.Auth.Issuer, nil
	return g, c.save(ctx)
}

// union returns the elements of both lists in order, without repetition.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func isSubset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}
