package config

import "strings"

// OAuthClient says how to get tokens for an MCP server. Without it a person logs in:
// toolroom sources login NAME. ClientSecret, PrivateKey, Token and those of IDP
// may be references to secrets.
type OAuthClient struct {
	// Grant is authorization_code (the default, a login in a browser),
	// client_credentials, workload or enterprise.
	Grant string `yaml:"grant,omitempty"`
	// ClientID and ClientSecret were given by the operator of the authorization
	// server whose issuer is Issuer.
	ClientID     string `yaml:"client_id,omitempty"`
	ClientSecret string `yaml:"client_secret,omitempty"`
	Issuer       string `yaml:"issuer,omitempty"`
	// PrivateKey, in PEM, proves the client in place of a secret.
	PrivateKey string `yaml:"private_key,omitempty"`
	KeyID      string `yaml:"key_id,omitempty"`
	// MetadataURL is where the client's metadata document lies, which stands in
	// for a registration.
	MetadataURL string `yaml:"metadata_url,omitempty"`
	// Scopes are asked for besides what the server wants.
	Scopes []string `yaml:"scopes,omitempty"`
	// Token is what workload and enterprise exchange; TokenFile is read each
	// time in its place.
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token_file,omitempty"`
	// IDP is the company's identity provider, for enterprise.
	IDP *IDP `yaml:"idp,omitempty"`
	// Shared lets all callers use the login of those who run Toolroom. Without
	// it each caller needs a login of its own. Grants other than
	// authorization_code are shared in any case.
	Shared bool `yaml:"shared,omitempty"`
}

// IDP is an identity provider that exchanges ID tokens.
type IDP struct {
	Issuer        string `yaml:"issuer,omitempty"`
	TokenEndpoint string `yaml:"token_endpoint,omitempty"`
	ClientID      string `yaml:"client_id,omitempty"`
	ClientSecret  string `yaml:"client_secret,omitempty"`
}

func (c check) oauthClient(key string, o *OAuthClient) {
	if o.Grant != "" {
		c.oneOf(key+".grant", o.Grant, "authorization_code", "client_credentials", "workload", "enterprise")
	}
	if o.MetadataURL != "" && !strings.HasPrefix(o.MetadataURL, "https://") {
		c.problem(key+".metadata_url", "a client's metadata document lies at an https URL", "for example https://example.com/client.json")
	}
	if o.ClientID == "" && (o.Grant == "client_credentials" || o.ClientSecret != "" || o.PrivateKey != "") {
		c.problem(key, "client_id is missing", "the operator of the authorization server gives it to you")
	}
	exchanges := o.Grant == "workload" || o.Grant == "enterprise"
	if exchanges == (o.Token == "" && o.TokenFile == "") {
		if exchanges {
			c.problem(key, "token and token_file are missing: there is nothing to exchange", "for example token_file: /var/run/secrets/tokens/toolroom")
		} else {
			c.problem(key, "token and token_file have a meaning with the grants workload and enterprise only", "remove them")
		}
	}
	if (o.Grant == "enterprise") != (o.IDP != nil) {
		c.problem(key+".idp", "the identity provider belongs to the grant enterprise", "for example grant: enterprise, idp: {issuer: \"https://idp.example.com\", client_id: toolroom}")
	}
	for name, text := range map[string]string{"client_secret": o.ClientSecret, "private_key": o.PrivateKey, "token": o.Token} {
		c.reference(key+"."+name, text)
	}
	if o.IDP != nil {
		c.reference(key+".idp.client_secret", o.IDP.ClientSecret)
	}
}
