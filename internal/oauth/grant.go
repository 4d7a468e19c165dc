package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const (
	jwtBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	idToken       = "urn:ietf:params:oauth:token-type:id_token"
	idJAG         = "urn:ietf:params:oauth:token-type:id-jag"
)

// currentGrant returns the grant to use now, or nil. It first renews a grant that expires
// soon. Concurrent callers wait and share the result.
func (c *Client) currentGrant(ctx context.Context) (*grant, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if c.record == nil {
		if err := c.load(ctx); err != nil {
			return nil, err
		}
	}
	g := c.record.current()
	if g == nil || g.isUsable(c.now()) {
		return g, nil
	}
	end, err := c.lockStored(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	// Another client may have renewed it.
	if g = c.record.current(); g.isUsable(c.now()) {
		return g, nil
	}
	if g != nil && g.RefreshToken != "" {
		renewed, err := c.renew(ctx, g)
		if renewed != nil || err != nil {
			return renewed, err
		}
	}
	return nil, nil // send the request without a token: the server's challenge decides
}

// renew uses the refresh token. It returns nil if that is no longer valid.
func (c *Client) renew(ctx context.Context, g *grant) (*grant, error) {
	key, err := g.signer()
	if err != nil {
		return nil, err
	}
	issuer := c.record.Issuer
	answer, err := c.exchange(ctx, tokenRequest{
		endpoint: g.TokenEndpoint, audience: issuer, client: g.Client, key: key,
		form: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.RefreshToken}, "resource": {g.Resource}},
	})
	if refused := (*tokenError)(nil); errors.As(err, &refused) {
		return c.forgetRefreshToken(ctx, issuer, g.RefreshToken)
	}
	if err != nil {
		return nil, err
	}
	s := &servers{Resource: g.Resource, Auth: authServer{Issuer: issuer, Token: g.TokenEndpoint}}
	return c.storeToken(ctx, s, g.Client, g.Key, g.Scopes, answer)
}

// forgetRefreshToken removes a refresh token that its issuer refused. If another client, which
// does not share the lock, has stored a newer one, it returns that client's grant.
func (c *Client) forgetRefreshToken(ctx context.Context, issuer, sent string) (*grant, error) {
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	g := c.record.Grants[issuer]
	switch {
	case g == nil:
		return nil, nil
	case g.RefreshToken == sent:
		g.RefreshToken = ""
		return nil, c.save(ctx)
	case g.isUsable(c.now()):
		return g, nil
	default:
		return nil, nil
	}
}

func (g *grant) signer() (*signer, error) {
	if g.Key == "" {
		return nil, nil
	}
	return readKey(g.Key)
}

// handleChallenge returns the grant to use after the server refused the one that was used,
// which is nil for a request without one.
func (c *Client) handleChallenge(ctx context.Context, used *grant, ch challenge) (*grant, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	end, err := c.lockStored(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	// Another caller or process may have logged in or renewed it.
	if g := c.record.current(); g.isUsable(c.now()) && (used == nil || g.AccessToken != used.AccessToken) {
		return g, nil
	}
	s, err := c.discover(ctx, ch.metadata)
	if err != nil {
		return nil, err
	}
	mine := c.record.Grants[s.Auth.Issuer]
	if ch.insufficient && mine != nil && len(ch.scopes) > 0 && isSubset(ch.scopes, mine.Scopes) {
		return nil, &Refused{fmt.Sprintf("the token has the scope that it asks for (%s)", strings.Join(ch.scopes, " "))}
	}
	scopes := c.scopes(s, mine, ch.scopes)
	if c.config.Grant != AuthorizationCode {
		return c.obtainWithoutPerson(ctx, s, scopes)
	}
	if !ch.insufficient && mine != nil && mine.RefreshToken != "" && c.record.Issuer == s.Auth.Issuer {
		if g, err := c.renew(ctx, mine); g != nil || err != nil {
			return g, err
		}
	}
	return nil, c.requireLogin(ctx, s, scopes, ch, used != nil)
}

// requireLogin records that a person must log in.
func (c *Client) requireLogin(ctx context.Context, s *servers, scopes []string, ch challenge, had bool) error {
	n := &Needed{Issuer: s.Auth.Issuer, Scopes: scopes, Metadata: ch.metadata, StepUp: ch.insufficient, Reason: "nobody has logged in"}
	switch {
	case ch.insufficient:
		n.Reason = "the login does not go far enough"
	case had || c.record.Grants[s.Auth.Issuer] != nil:
		n.Reason = "the login has run out"
	}
	c.record.Needed = n
	if err := c.save(ctx); err != nil {
		return err
	}
	return n
}

// refusedAgain returns the error of a request whose new token the server refused as well. Another
// token would not help, so a person must act.
func (c *Client) refusedAgain(ctx context.Context, g *grant, ch challenge) error {
	const reason = "the server refuses tokens that were given just now"
	if c.unresolved.Grant != AuthorizationCode {
		return &Refused{reason}
	}
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	end, err := c.lockStored(ctx)
	if err != nil {
		return err
	}
	defer end()
	n := &Needed{Issuer: c.record.Issuer, Scopes: union(g.Scopes, ch.scopes), Metadata: ch.metadata, Reason: reason}
	c.record.Needed = n
	if err := c.save(ctx); err != nil {
		return err
	}
	return n
}

// scopes returns the scopes to request: those of the challenge, or if it has none those that the
// resource supports, and in addition those granted before and those in the config.
func (c *Client) scopes(s *servers, before *grant, challenged []string) []string {
	scopes := challenged
	if len(scopes) == 0 {
		scopes = s.Scopes
	}
	if before != nil {
		scopes = union(before.Scopes, scopes)
	}
	scopes = union(scopes, c.config.Scopes)
	if c.config.Grant == AuthorizationCode && slices.Contains(s.Auth.Scopes, "offline_access") {
		scopes = union(scopes, []string{"offline_access"})
	}
	return scopes
}

// obtainWithoutPerson obtains a token without a person.
func (c *Client) obtainWithoutPerson(ctx context.Context, s *servers, scopes []string) (*grant, error) {
	if err := c.checkIssuer(s); err != nil {
		return nil, err
	}
	client := registration{ID: c.config.ClientID, Secret: c.config.ClientSecret, Method: authMethod(c.config.ClientSecret, c.config.PrivateKey, s.Auth.TokenMethods)}
	form := url.Values{"resource": {s.Resource}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	switch c.config.Grant {
	case ClientCredentials:
		form.Set("grant_type", "client_credentials")
	default:
		assertion, err := c.assertion(ctx, s)
		if err != nil {
			return nil, err
		}
		form.Set("grant_type", jwtBearer)
		form.Set("assertion", assertion)
	}
	key, text, err := s.newBoundKey()
	if err != nil {
		return nil, err
	}
	answer, err := c.exchange(ctx, tokenRequest{endpoint: s.Auth.Token, audience: s.Auth.Issuer, client: client, key: key, form: form})
	if refused := (*tokenError)(nil); errors.As(err, &refused) {
		return nil, &Refused{refused.Error()}
	}
	if err != nil {
		return nil, err
	}
	return c.storeToken(ctx, s, client, text, scopes, answer)
}

// checkIssuer returns an error unless s is the authorization server that the config names.
func (c *Client) checkIssuer(s *servers) error {
	switch {
	case c.config.Issuer == "":
		return &Refused{fmt.Sprintf("it names the authorization server %s, but the config names none: credentials are sent only to oauth.issuer", s.Auth.Issuer)}
	case strings.TrimSuffix(c.config.Issuer, "/") != strings.TrimSuffix(s.Auth.Issuer, "/"):
		return &Refused{fmt.Sprintf("its credentials are of the issuer %s, but it names %s", c.config.Issuer, s.Auth.Issuer)}
	default:
		return nil
	}
}

// newBoundKey creates a key for DPoP, to which a token will be bound. It returns nil if the
// authorization server does not support DPoP.
func (s *servers) newBoundKey() (*signer, string, error) {
	if !slices.Contains(s.Auth.DPoP, "ES256") {
		return nil, "", nil
	}
	return newKey()
}

// assertion returns the assertion of a workload or enterprise login for the
// authorization server.
func (c *Client) assertion(ctx context.Context, s *servers) (string, error) {
	if c.config.Assertion == nil {
		return "", &Refused{"no token to exchange is configured"}
	}
	token, err := c.config.Assertion(ctx)
	if err != nil || c.config.Grant == Workload {
		return token, err
	}
	idp := c.config.IDP
	endpoint := idp.TokenEndpoint
	if endpoint == "" {
		found, err := c.authServer(ctx, idp.Issuer)
		if err != nil {
			return "", err
		}
		endpoint = found.Token
	}
	answer, err := c.exchange(ctx, tokenRequest{
		endpoint: endpoint, audience: idp.Issuer,
		client: registration{ID: idp.ClientID, Secret: idp.ClientSecret, Method: authMethod(idp.ClientSecret, "", nil)},
		form: url.Values{
			"grant_type": {tokenExchange}, "requested_token_type": {idJAG},
			"subject_token": {token}, "subject_token_type": {idToken},
			"audience": {s.Auth.Issuer}, "resource": {s.Resource},
		},
	})
	if err != nil {
		return "", fmt.Errorf("the identity provider: %w", err)
	}
	if answer.IssuedType != idJAG {
		// A provider that ignores what was requested answers with a token for its own
		// services, which nobody else may see.
		return "", &Refused{fmt.Sprintf("the identity provider issued a token of type %q, not %s", answer.IssuedType, idJAG)}
	}
	return answer.AccessToken, nil
}
