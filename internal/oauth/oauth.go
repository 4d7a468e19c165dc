// Package oauth obtains the tokens that a remote server requires, stores them for each
// identity and issuer, and sends them. [New] returns a [Client] for one server and one
// identity. [Client.Transport] adds its tokens to requests and renews them. Requests
// that need a person fail with [*Needed]; [Client.Login] lets the person log in.
//
// It follows the authorization chapter of MCP 2026-07-28: RFC 9728, RFC 8414
// and OpenID discovery, PKCE, RFC 8707, RFC 9207, client ID metadata documents,
// RFC 7591, and the extensions for client credentials, enterprise-managed
// authorization, workload identity and DPoP.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Grant is a way to obtain tokens.
type Grant string

// Grants. All except the first work without a person.
const (
	// AuthorizationCode is a login in a browser.
	AuthorizationCode Grant = "authorization_code"
	// ClientCredentials uses the client's own credentials: a secret, or a private
	// key (RFC 7523).
	ClientCredentials Grant = "client_credentials"
	// Workload exchanges a token of the platform on which this process runs
	// (RFC 7523, jwt-bearer).
	Workload Grant = "workload"
	// Enterprise exchanges an ID token of the company's identity provider for
	// an ID-JAG, and that for an access token.
	Enterprise Grant = "enterprise"
)

// Config says how to obtain tokens for one server.
type Config struct {
	// Resource is the server's URL.
	Resource string
	// Grant defaults to AuthorizationCode.
	Grant Grant
	// ClientID and ClientSecret were issued by the authorization server whose issuer
	// is Issuer. Credentials (a secret, an assertion) are sent to that server only:
	// without Issuer the resource could name any server to get them.
	ClientID, ClientSecret, Issuer string
	// PrivateKey, in PEM, authenticates the client in place of a secret. KeyID, if
	// set, names it in the assertion's header.
	PrivateKey, KeyID string
	// MetadataURL is the URL of the client's metadata document.
	MetadataURL string
	// Scopes are requested in addition to those that the server requires.
	Scopes []string
	// Assertion returns the platform's token for Workload, or the ID token for
	// Enterprise. It is called each time, because such tokens are short-lived.
	Assertion func(context.Context) (string, error)
	// IDP is the company's identity provider, for Enterprise.
	IDP IDP
	// Endpoints are those of Issuer, for a service that is not discovered because it does
	// not name its authorization server. Resource is then not sent, and the tokens are used
	// with [Client.AccessToken].
	Endpoints *Endpoints
	// Resolve returns the value of a secret reference in the fields above. If it is
	// nil, they hold values. It is called whenever tokens are obtained, so that
	// secrets can rotate.
	Resolve func(ctx context.Context, text string) (string, error)
}

// Endpoints are the addresses of an authorization server. The query of Authorization is kept.
type Endpoints struct{ Authorization, Token string }

// IDP is the identity provider that exchanges an ID token.
type IDP struct {
	Issuer, TokenEndpoint  string
	ClientID, ClientSecret string
}

// Store stores the data of a client, for one server and one identity.
type Store interface {
	// Load returns the data that was saved last, or nil.
	Load(ctx context.Context) ([]byte, error)
	// Save stores data. Secrets lists the secret values in it.
	Save(ctx context.Context, data []byte, secrets []string) error
	// Learn lists secret values that were read, so that they can be redacted.
	Learn(secrets []string)
	// Lock waits until no other client of the same data, also in another process, holds
	// the lock, and takes it.
	Lock(ctx context.Context) (unlock func(), err error)
}

// Needed is the error of a request that needs a person to log in.
type Needed struct {
	// Issuer is the authorization server, or empty if it is unknown.
	Issuer string   `json:"issuer,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Metadata is the URL of the server's resource metadata, from its challenge.
	Metadata string `json:"metadata,omitempty"`
	// StepUp means that there is a login, but without enough scopes for this request.
	StepUp bool `json:"step_up,omitempty"`
	// Reason says why a login is needed.
	Reason string `json:"reason"`
}

// Error returns a clause without a subject, which is the server's name: needs a login, and why.
func (n *Needed) Error() string {
	text := "needs a login: " + n.Reason
	if len(n.Scopes) > 0 {
		text += " (" + strings.Join(n.Scopes, " ") + ")"
	}
	return text
}

// Refused is the error of a request whose newly granted token the server refused.
// Repeating it would not help.
type Refused struct{ Reason string }

// Error returns a description of the refusal.
func (r *Refused) Error() string { return "it refuses the authorisation: " + r.Reason }

// Client obtains, stores and renews the tokens of one identity for one server. Its
// methods are safe for concurrent use.
type Client struct {
	unresolved Config
	config     Config   // with secrets resolved
	server     *url.URL // that the tokens are for; nil if its URL is invalid
	store      Store
	http       *http.Client
	now        func() time.Time
	dpop       nonces

	sem    chan struct{} // a lock, held while tokens are obtained or looked up
	record *record       // nil until it is loaded
}

// record is the stored data. It holds credentials by issuer, because a server may change
// its authorization server.
type record struct {
	Issuer string            `json:"issuer,omitempty"`
	Grants map[string]*grant `json:"grants,omitempty"`
	// Needed describes the login that is required.
	Needed *Needed `json:"needed,omitempty"`
}

// grant holds the tokens of one issuer.
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
	// TokenEndpoint is the URL at which it is renewed.
	TokenEndpoint string `json:"token_endpoint,omitempty"`
}

// renewBefore is the time before its expiry from which a token is renewed.
const renewBefore = 30 * time.Second

func (g *grant) isUsable(now time.Time) bool {
	return g != nil && g.AccessToken != "" && (g.Expires.IsZero() || now.Before(g.Expires.Add(-renewBefore)))
}

// New returns a client. Base carries its requests to authorization servers; if it is
// nil, the client creates a transport.
func New(c Config, store Store, base *http.Client) *Client {
	c.Grant = cmp.Or(c.Grant, AuthorizationCode)
	if base == nil {
		base = &http.Client{Timeout: time.Minute}
	}
	server, _ := url.Parse(c.Resource) // nil if it is not a URL
	return &Client{unresolved: c, config: c, server: server, store: store, http: base, now: time.Now, sem: make(chan struct{}, 1)}
}

// RequiredLogin returns the login that is required, or nil. It asks only the store, so it
// notices a login in another process.
func (c *Client) RequiredLogin(ctx context.Context) (*Needed, error) {
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
	case c.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) unlock() { <-c.sem }

// lockStored locks the stored data and reads it again. An authorization server accepts a refresh
// token only once, so only one client at a time may use it.
func (c *Client) lockStored(ctx context.Context) (end func(), err error) {
	if end, err = c.store.Lock(ctx); err != nil {
		return nil, err
	}
	if err = c.load(ctx); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// load reads the stored data, and the secrets of the config, again.
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
			return fmt.Errorf("stored logins cannot be read: %w", err)
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
	c.config = c.unresolved
	if c.unresolved.Resolve == nil {
		return nil
	}
	for _, text := range []*string{&c.config.ClientSecret, &c.config.PrivateKey, &c.config.IDP.ClientSecret} {
		value, err := c.unresolved.Resolve(ctx, *text)
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

// current returns the grant of the issuer that was used last.
func (r *record) current() *grant { return r.Grants[r.Issuer] }
