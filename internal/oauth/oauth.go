// Package oauth gets the tokens that a remote server wants to see, keeps them
// for each identity and issuer, and sends them. [New] makes a [Client] for one
// server and one identity; [Client.Transport] puts its tokens into requests and
// renews them; what needs a person fails with [*Needed] and is done by
// [Client.Login].
//
// It follows the authorization chapter of MCP 2026-07-28: RFC 9728, RFC 8414
// and OpenID discovery, PKCE, RFC 8707, RFC 9207, client ID metadata documents,
// RFC 7591, and the extensions for client credentials, enterprise-managed
// authorization, workload identity and DPoP.
package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Grant is how tokens are got.
type Grant string

// The grants. All but the first work without a person.
const (
	// AuthorizationCode is a login in a browser.
	AuthorizationCode Grant = "authorization_code"
	// ClientCredentials are the client's own: a secret, or a private key
	// (RFC 7523).
	ClientCredentials Grant = "client_credentials"
	// Workload exchanges a token of the platform that this process runs on
	// (RFC 7523, jwt-bearer).
	Workload Grant = "workload"
	// Enterprise exchanges an ID token of the company's identity provider for
	// an ID-JAG, and that for an access token.
	Enterprise Grant = "enterprise"
)

// Config says how to get tokens for one server.
type Config struct {
	// Resource is the server's URL.
	Resource string
	// Grant is AuthorizationCode when empty.
	Grant Grant
	// ClientID and ClientSecret were given by the operator of the authorization
	// server, whose issuer is Issuer; without an Issuer they go to whichever
	// server the resource names.
	ClientID, ClientSecret, Issuer string
	// PrivateKey, in PEM, proves the client in place of a secret; KeyID names it
	// in the assertion's header, if set.
	PrivateKey, KeyID string
	// MetadataURL is where the client's metadata document lies.
	MetadataURL string
	// Scopes are asked for besides what the server wants.
	Scopes []string
	// Assertion gives the platform's token for Workload, the ID token for
	// Enterprise. It is asked each time, for such tokens are short-lived.
	Assertion func(context.Context) (string, error)
	// IDP is the company's identity provider, for Enterprise.
	IDP IDP
	// Resolve gives the value of a secret that stands above as a reference; nil
	// takes them as they stand. It is asked again whenever tokens are got, so
	// that secrets can rotate.
	Resolve func(ctx context.Context, text string) (string, error)
}

// IDP is where an ID token is exchanged.
type IDP struct {
	Issuer, TokenEndpoint  string
	ClientID, ClientSecret string
}

// Store keeps what a client knows, for one server and one identity.
type Store interface {
	// Load gives what was kept last, nil for nothing.
	Load(ctx context.Context) ([]byte, error)
	// Save keeps data. Secrets names the values in it that nobody may see.
	Save(ctx context.Context, data []byte, secrets []string) error
	// Learn names values that were read and that nobody may see.
	Learn(secrets []string)
}

// Needed says that a person must log in.
type Needed struct {
	// Issuer is the authorization server, empty where it is not known.
	Issuer string   `json:"issuer,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Metadata is where the server says that its resource metadata is.
	Metadata string `json:"metadata,omitempty"`
	// StepUp says that there is a login, which does not go far enough for this
	// request.
	StepUp bool `json:"step_up,omitempty"`
	// Reason says why.
	Reason string `json:"reason"`
}

// Error says why a login is needed.
func (n *Needed) Error() string {
	text := "it needs a login: " + n.Reason
	if len(n.Scopes) > 0 {
		text += " (" + strings.Join(n.Scopes, " ") + ")"
	}
	return text
}

// Refused says that the server refuses what the authorization server granted:
// asking again would not help.
type Refused struct{ Reason string }

// Error says what was refused.
func (r *Refused) Error() string { return "it refuses the authorisation: " + r.Reason }

// Client gets, keeps and renews the tokens of one identity for one server. Its
// methods are safe for concurrent use.
type Client struct {
	given  Config
	c      Config   // given, with secrets resolved
	server *url.URL // that the tokens are for, nil where its address is none
	store  Store
	http   *http.Client
	now    func() time.Time
	dpop   nonces

	busy   chan struct{} // held while tokens are got or looked up: one at a time
	record *record       // nil before it was loaded
}

// record is what is kept. Credentials belong to the issuer that gave them: one
// server may come to name another.
type record struct {
	Issuer string            `json:"issuer,omitempty"`
	Grants map[string]*grant `json:"grants,omitempty"`
	// Needed is what a login is waited for.
	Needed *Needed `json:"needed,omitempty"`
}

// grant is what one issuer gave.
type grant struct {
	Client       registration `json:"client"`
	Resource     string       `json:"resource,omitempty"`
	AccessToken  string       `json:"access_token,omitempty"`
	TokenType    string       `json:"token_type,omitempty"`
	RefreshToken string       `json:"refresh_token,omitempty"`
	Expires      time.Time    `json:"expires,omitzero"`
	Scopes       []string     `json:"scopes,omitempty"`
	// Key is the private key that the token is bound to, in PEM.
	Key string `json:"key,omitempty"`
	// TokenEndpoint is where it is renewed.
	TokenEndpoint string `json:"token_endpoint,omitempty"`
}

// early is how long before its end a token is renewed.
const early = 30 * time.Second

func (g *grant) usable(now time.Time) bool {
	return g != nil && g.AccessToken != "" && (g.Expires.IsZero() || now.Before(g.Expires.Add(-early)))
}

// New makes a client. Base carries its requests to authorization servers; nil
// is a transport of its own.
func New(c Config, store Store, base *http.Client) *Client {
	if c.Grant == "" {
		c.Grant = AuthorizationCode
	}
	if base == nil {
		base = &http.Client{Timeout: time.Minute}
	}
	server, _ := url.Parse(c.Resource) // nil for what is no address
	return &Client{given: c, c: c, server: server, store: store, http: base, now: time.Now, busy: make(chan struct{}, 1)}
}

// Waiting is the login that is waited for, nil when none is. It asks the store
// alone, so that a login in another process is noticed.
func (c *Client) Waiting(ctx context.Context) (*Needed, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	return c.record.Needed, nil
}

func (c *Client) lock(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) unlock() { <-c.busy }

// load reads what is kept, and the secrets of the config, anew.
func (c *Client) load(ctx context.Context) error {
	if err := c.resolve(ctx); err != nil {
		return err
	}
	data, err := c.store.Load(ctx)
	if err != nil {
		return err
	}
	r := &record{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, r); err != nil {
			return fmt.Errorf("what is kept of the logins cannot be read: %w", err)
		}
	}
	if r.Grants == nil {
		r.Grants = map[string]*grant{}
	}
	c.record = r
	c.store.Learn(r.secrets())
	return nil
}

func (c *Client) resolve(ctx context.Context) error {
	c.c = c.given
	if c.given.Resolve == nil {
		return nil
	}
	for _, text := range []*string{&c.c.ClientSecret, &c.c.PrivateKey, &c.c.IDP.ClientSecret} {
		value, err := c.given.Resolve(ctx, *text)
		if err != nil {
			return err
		}
		*text = value
	}
	return nil
}

func (c *Client) save(ctx context.Context) error {
	data, err := json.Marshal(c.record)
	if err != nil {
		return err
	}
	return c.store.Save(ctx, data, c.record.secrets())
}

func (r *record) secrets() []string {
	var all []string
	for _, g := range r.Grants {
		for _, s := range []string{g.AccessToken, g.RefreshToken, g.Client.Secret, g.Key} {
			if s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// current is the grant of the issuer that was used last.
func (r *record) current() *grant { return r.Grants[r.Issuer] }
