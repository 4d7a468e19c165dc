package config

import (
	"net/url"

	"github.com/toolroom/toolroom/internal/secret"
)

// Remote says where a runner is, which `toolroom runner serve` starts.
type Remote struct {
	// URL is https://HOST:PORT; empty is no runner.
	URL string `yaml:"url,omitempty"`
	// Secret is a reference to a secret of the runner's --secret-file.
	Secret string `yaml:"secret,omitempty"`
	// CA is a file with the certificates that the runner's must be signed by (the
	// system's). Cert and Key are the files of ours, where it asks for one.
	CA   string `yaml:"ca,omitempty"`
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name in the runner's certificate, where that is not the
	// host of URL.
	ServerName string `yaml:"server_name,omitempty"`
	// Plain permits http:// to another machine.
	Plain bool `yaml:"plain,omitempty"`
}

func (c check) remote(path string, r Remote) {
	if r == (Remote{}) {
		return
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.problem(path+".url", "a runner has a URL with https:// or http://", "write https://HOST:7071")
	}
	c.runnerSecret(path+".secret", r.Secret)
	if (r.Cert == "") != (r.Key == "") {
		c.problem(path+".cert", "a certificate and its key go together", "give both cert and key")
	}
}

// runnerSecret checks a secret that must be a reference: it is never written in
// plain.
func (c check) runnerSecret(path, value string) {
	if _, err := secret.ParseRef(value); err != nil {
		c.problem(path, "a runner's secret is a reference", "toolroom secret set runner/key, and write secret://runner/key")
	}
}
