package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxDocument is the largest metadata document, in bytes.
const maxDocument = 1 << 20

// servers is the result of discovery: the resource, by its own name, and its
// authorization server.
type servers struct {
	Resource string   // for the parameter "resource"
	Scopes   []string // that the resource supports
	Auth     authServer
}

// resourceMetadata is RFC 9728, 2.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
}

// authServer is RFC 8414, 2, with the members that MCP adds.
type authServer struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	TokenMethods  []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	MetadataURLs  bool     `json:"client_id_metadata_document_supported"`
	NamesIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
	DPoP          []string `json:"dpop_signing_alg_values_supported"`
	// assumed means that there was no document, so the endpoints are those of MCP
	// revision 2025-03-26.
	assumed bool
	// configured means that the config names the endpoints.
	configured bool
}

// discover finds the authorization server of the resource. Metadata is the URL of the
// resource metadata in the server's challenge, or empty.
func (c *Client) discover(ctx context.Context, metadata string) (*servers, error) {
	resource, err := c.resource(ctx, metadata)
	if err != nil {
		return nil, err
	}
	auth, err := c.authServer(ctx, resource.AuthorizationServers[0])
	if err != nil {
		return nil, err
	}
	return &servers{Resource: resource.Resource, Scopes: resource.Scopes, Auth: *auth}, nil
}

func (c *Client) resource(ctx context.Context, metadata string) (*resourceMetadata, error) {
	server, err := url.Parse(c.config.Resource)
	if err != nil {
		return nil, err
	}
	at := func(path string) string {
		return (&url.URL{Scheme: server.Scheme, Host: server.Host, Path: path}).String()
	}
	const known = "/.well-known/oauth-protected-resource"
	places := []string{metadata, at(known + strings.TrimSuffix(server.Path, "/")), at(known)}
	for _, place := range slices.Compact(places) {
		if place == "" {
			continue
		}
		var m resourceMetadata
		found, err := c.document(ctx, place, &m)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if !covers(m.Resource, server) {
			return nil, fmt.Errorf("the resource metadata at %s is of %q, not of %s", place, m.Resource, c.config.Resource)
		}
		if len(m.AuthorizationServers) == 0 {
			return nil, fmt.Errorf("the resource metadata at %s names no authorization server", place)
		}
		return &m, nil
	}
	// Revision 2025-03-26: the server's origin is its authorization server.
	return &resourceMetadata{Resource: c.config.Resource, AuthorizationServers: []string{at("")}}, nil
}

// covers reports whether a resource is the server, or a part of its host that contains
// the server.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Scheme != server.Scheme || !strings.EqualFold(r.Host, server.Host) {
		return false
	}
	path := strings.TrimSuffix(r.Path, "/")
	return server.Path == path || strings.HasPrefix(server.Path, path+"/") || path == ""
}

func (c *Client) authServer(ctx context.Context, issuer string) (*authServer, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("the authorization server %q: %w", issuer, err)
	}
	at := func(path string) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}).String() }
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	path := strings.TrimSuffix(u.Path, "/")
	places := []string{at(oauth + path), at(openid + path)}
	if path != "" {
		places = append(places, at(path+openid))
	}
	for _, place := range places {
		var m authServer
		found, err := c.document(ctx, place, &m)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if m.Issuer != issuer && m.Issuer+"/" != issuer && m.Issuer != issuer+"/" {
			return nil, fmt.Errorf("the metadata at %s is of the issuer %q, not of %q", place, m.Issuer, issuer)
		}
		for _, endpoint := range []string{m.Authorization, m.Token, m.Registration} {
			if endpoint != "" {
				if err := checkSafe(endpoint); err != nil {
					return nil, fmt.Errorf("the metadata at %s: %w", place, err)
				}
			}
		}
		return &m, nil
	}
	base := strings.TrimSuffix(issuer, "/")
	return &authServer{
		Issuer: issuer, Authorization: base + "/authorize", Token: base + "/token", Registration: base + "/register",
		assumed: true,
	}, nil
}

// document reads a metadata document. A status of 4xx means that there is none.
func (c *Client) document(ctx context.Context, place string, into any) (found bool, err error) {
	if err := checkSafe(place); err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 && resp.StatusCode < 500 {
		return false, nil
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s answered with status %d", place, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s is not a metadata document: %w", place, err)
	}
	return true, nil
}

// checkSafe returns an error for URLs to which credentials must not be sent: those with plain
// HTTP, except on this machine.
func checkSafe(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return nil
	}
	return errors.New(address + " is not HTTPS")
}
