package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	mcpsource "github.com/toolroom/toolroom/internal/source/mcp"
)

// metadataURL is where the suite says that a client's metadata document lies.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// credentials are what a scenario gives its client.
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

// config is what an operator would write for the scenario.
func (c credentials) config(url, scenario string) oauth.Config {
	o := oauth.Config{
		Resource: url, MetadataURL: metadataURL,
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Issuer: c.Issuer, PrivateKey: c.PrivateKey,
	}
	switch {
	case strings.HasPrefix(scenario, "auth/client-credentials"):
		o.Grant = oauth.ClientCredentials
	case scenario == "auth/wif-jwt-bearer":
		o.Grant, o.Assertion = oauth.Workload, fixed(c.WorkloadJWT)
	case scenario == "auth/enterprise-managed-authorization":
		o.Grant, o.Assertion = oauth.Enterprise, fixed(c.IDToken)
		o.IDP = oauth.IDP{Issuer: c.IDPIssuer, TokenEndpoint: c.IDPTokenEndpoint, ClientID: c.IDPClientID}
	}
	return o
}

func fixed(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// memory keeps tokens for the time of a scenario.
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

// withLogin does what an operator does: log in when the source says so, and
// try again. How often that makes sense is the source's to say.
func withLogin(ctx context.Context, s *mcpsource.Source, do func() error) error {
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

// login visits the authorization server as a browser would whose user agrees.
func login(ctx context.Context, s *mcpsource.Source) error {
	back, err := oauth.NewLoopback(0)
	if err != nil {
		return err
	}
	defer back.Close()
	return s.Login(ctx, toolroom.Identity{}, back.Redirect(), func(ctx context.Context, address string) (string, error) {
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
