package config

import (
	"net/url"

	"github.com/toolroom/toolroom/internal/secret"
)

// Remote configures a runner, which `toolroom runner serve` starts.
type Remote struct {
	// URL is https://HOST:PORT; empty means no runner.
	URL string `yaml:"url,omitempty"`
	// Secret is a reference to one of the secrets in the runner's --secret-file.
	Secret string `yaml:"secret,omitempty"`
	// CA is a file with the certificates that must have signed the runner's (default: the
	// system's). Cert and Key are the files of the client certificate, if the runner
	// requires one.
	CA   string `yaml:"ca,omitempty"`
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name in the runner's certificate, if it differs from the host of
	// URL.
	ServerName string `yaml:"server_name,omitempty"`
	// Plain permits http:// to another machine.
	Plain bool `yaml:"plain,omitempty"`
}

func (c checker) checkRemote(path string, r Remote) {
	if r == (Remote{}) {
		return
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.addProblem(path+".url", "the runner's URL must begin with https:// or http://", "write https://HOST:7071")
	}
	c.requireSecretRef(path+".secret", r.Secret)
	if (r.Cert == "") != (r.Key == "") {
		c.addProblem(path+".cert", "cert and key must be set together", "set both cert and key")
	}
}

// requireSecretRef requires a secret reference instead of plaintext.
func (c checker) requireSecretRef(path, value string) {
	if _, err := secret.ParseRef(value); err != nil {
		c.addProblem(path, "a runner's secret must be a secret reference", "toolroom secret set runner/key, and write secret://runner/key")
	}
}
