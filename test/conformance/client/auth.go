package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
)

// metadataURL is the address of a client's metadata document in the suite.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// credentials are the credentials that a scenario passes to its client.
type credentials struct {
	ClientID         string `json:"client_id"`
	ClientSecret     string `json:"client_secret"`
	Issuer           string `json:"issuer"`
	PrivateKey       string `json:"private_key_pem"`
	IDPClientID      string `json:"idp_client_id"`
	IDToken          string `json:"idp_id_token"`
	IDPIssuer        string `json:"idp_issuer"`
	IDPTokenEndpoint string `json:"idp_token_endpoint"`
	WorkloadJWT      string `json:"valid_jwt"`
}

// config returns the config that an operator would write for the scenario.
func (c credentials) config(address, scenario string) oauth.Config {
	o := oauth.Config{
		Resource: address, MetadataURL: metadataURL,
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Issuer: c.Issuer, PrivateKey: c.PrivateKey,
	}
	switch {
	case strings.HasPrefix(scenario, "auth/client-credentials"):
		o.Grant = oauth.ClientCredentials
	case scenario == "auth/wif-jwt-bearer":
		o.Grant, o.Assertion = oauth.Workload, fixedToken(c.WorkloadJWT)
	case scenario == "auth/enterprise-managed-authorization":
		o.Grant, o.Assertion = oauth.Enterprise, fixedToken(c.IDToken)
		o.IDP = oauth.IDP{Issuer: c.IDPIssuer, TokenEndpoint: c.IDPTokenEndpoint, ClientID: c.IDPClientID}
	}
	if o.Issuer == "" && (o.ClientSecret != "" || o.PrivateKey != "" || o.Grant != "") {
		o.Issuer = issuerOf(address)
	}
	return o
}

// issuerOf returns the authorization server of an MCP server, which an operator would look
// up before trusting it with credentials.
func issuerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	origin := u.Scheme + "://" + u.Host
	const known = "/.well-known/oauth-protected-resource"
	for _, place := range []string{origin + known + u.Path, origin + known} {
		var m struct {
			Servers []string `json:"authorization_servers"`
		}
		resp, err := http.Get(place)
		if err != nil {
			continue
		}
		err = json.NewDecoder(resp.Body).Decode(&m)
		resp.Body.Close()
		if err == nil && len(m.Servers) > 0 {
			return m.Servers[0]
		}
	}
	return origin
}

func fixedToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// memory stores tokens for the duration of a scenario.
type memory struct {
	mu   sync.Mutex
	data []byte
}

func (m *memory) Load(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data, nil
}

func (m *memory) Save(_ context.Context, data []byte, _ []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = data
	return nil
}

func (m *memory) Learn([]string) {}

// Lock does nothing: a scenario has one client.
func (m *memory) Lock(context.Context) (func(), error) { return func() {}, nil }

// withLogin acts as an operator does: it logs in when the source requires it, and tries
// again, as often as the source requires it.
func withLogin(ctx context.Context, s *mcp.Source, do func() error) error {
	for {
		err := do()
		if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
			return err
		}
		if err := login(ctx, s); err != nil {
			return err
		}
	}
}

// login visits the authorization server like a browser whose user agrees.
func login(ctx context.Context, s *mcp.Source) error {
	back, err := oauth.NewLoopback(0)
	if err != nil {
		return err
	}
	defer back.Close()
	return s.Login(ctx, toolroom.Identity{}, back.Redirect(), func(ctx context.Context, address string) (string, error) {
		if err := back.Expect(address); err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return back.Wait(ctx)
	})
}
