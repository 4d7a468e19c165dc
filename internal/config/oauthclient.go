package config

import "strings"

// OAuthClient configures how to get tokens for an MCP server. Without it a person logs in:
// toolroom sources login NAME. ClientSecret, PrivateKey, Token and those of IDP may be
// secret references.
type OAuthClient struct {
	// Grant is authorization_code (the default, a login in a browser),
	// client_credentials, workload or enterprise.
	Grant string `yaml:"grant,omitempty"`
	// ClientID and ClientSecret are issued by the operator of the authorization server
	// Issuer. Credentials are sent only to Issuer.
	ClientID     string `yaml:"client_id,omitempty"`
	ClientSecret string `yaml:"client_secret,omitempty"`
	Issuer       string `yaml:"issuer,omitempty"`
	// PrivateKey, in PEM, authenticates the client instead of a secret.
	PrivateKey string `yaml:"private_key,omitempty"`
	KeyID      string `yaml:"key_id,omitempty"`
	// MetadataURL is the address of the client's metadata document, which replaces a
	// registration.
	MetadataURL string `yaml:"metadata_url,omitempty"`
	// Scopes are requested in addition to those that the server demands.
	Scopes []string `yaml:"scopes,omitempty"`
	// Token is exchanged by the grants workload and enterprise. TokenFile is a file that is
	// read each time instead.
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token_file,omitempty"`
	// IDP is the company's identity provider, for enterprise.
	IDP *IDP `yaml:"idp,omitempty"`
	// Shared lets all callers use the operator's login. Without it each caller needs their
	// own login. Grants other than authorization_code are always shared.
	Shared bool `yaml:"shared,omitempty"`
}

// IDP is an identity provider that exchanges ID tokens.
type IDP struct {
	Issuer        string `yaml:"issuer,omitempty"`
	TokenEndpoint string `yaml:"token_endpoint,omitempty"`
	ClientID      string `yaml:"client_id,omitempty"`
	ClientSecret  string `yaml:"client_secret,omitempty"`
}

func (c checker) checkOAuthClient(key string, o *OAuthClient) {
	c.requireOneOfOrEmpty(key+".grant", o.Grant, "authorization_code", "client_credentials", "workload", "enterprise")
	if o.MetadataURL != "" && !strings.HasPrefix(o.MetadataURL, "https://") {
		c.addProblem(key+".metadata_url", "the client's metadata document must have an https URL", "for example https://example.com/client.json")
	}
	if o.ClientID == "" && (o.Grant == "client_credentials" || o.ClientSecret != "" || o.PrivateKey != "") {
		c.addProblem(key, "client_id is missing", "ask the operator of the authorization server for it")
	}
	if o.Issuer == "" && (o.Grant != "" && o.Grant != "authorization_code" || o.ClientSecret != "" || o.PrivateKey != "") {
		c.addProblem(key+".issuer", "issuer is missing: credentials are sent only to an authorization server that the config names",
			"ask the operator of the authorization server for its issuer, for example https://login.example.com")
	}
	exchanges := o.Grant == "workload" || o.Grant == "enterprise"
	if exchanges == (o.Token == "" && o.TokenFile == "") {
		if exchanges {
			c.addProblem(key, "token and token_file are missing: there is nothing to exchange", "for example token_file: /var/run/secrets/tokens/toolroom")
		} else {
			c.addProblem(key, "token and token_file are only for the grants workload and enterprise", "remove them")
		}
	}
	if (o.Grant == "enterprise") != (o.IDP != nil) {
		c.addProblem(key+".idp", "idp is only for the grant enterprise", "for example grant: enterprise, idp: {issuer: \"https://idp.example.com\", client_id: toolroom}")
	}
	for name, text := range map[string]string{"client_secret": o.ClientSecret, "private_key": o.PrivateKey, "token": o.Token} {
		c.checkReference(key+"."+name, text)
	}
	if o.IDP != nil {
		c.checkReference(key+".idp.client_secret", o.IDP.ClientSecret)
	}
}
