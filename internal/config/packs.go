package config

import (
	"fmt"
	"time"

	"github.com/toolroom/toolroom/internal/secret"
)

// BuiltinStorage configures the pack storage: buckets of MinIO, Amazon S3 or another server
// with the S3 protocol. The pack is off unless it has a section.
type BuiltinStorage struct {
	Off bool `yaml:"off,omitempty"`
	// URL is the address of the server, without a bucket.
	URL string `yaml:"url,omitempty"`
	// Region is that of the server (us-east-1).
	Region string `yaml:"region,omitempty"`
	// Bucket is the default bucket. Buckets are others that the tools may use; "*" is any.
	Bucket  string   `yaml:"bucket,omitempty"`
	Buckets []string `yaml:"buckets,omitempty"`
	// AccessKey is the id of the key, which is part of shared links and so no secret.
	// SecretKey and SessionToken are usually references to secrets.
	AccessKey    string `yaml:"access_key,omitempty"`
	SecretKey    string `yaml:"secret_key,omitempty"`
	SessionToken string `yaml:"session_token,omitempty"`
	// VirtualHosts puts the bucket into the host name, as some servers want it.
	VirtualHosts bool `yaml:"virtual_hosts,omitempty"`
	// MaxExpiry limits how long shared links work (24 h; at most 7 days).
	MaxExpiry time.Duration `yaml:"max_expiry,omitempty"`
}

// BuiltinK8s configures the pack k8s. The pack is off unless it has a section.
type BuiltinK8s struct {
	Off bool `yaml:"off,omitempty"`
	// Kubeconfig is a file, relative to the config file, or a reference to a secret that
	// holds one, which may be each caller's own. The default is the file that kubectl
	// reads, and in a Pod its service account.
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	// Context selects one of its contexts (the current one), and Namespace is the default
	// namespace (that of the context).
	Context   string `yaml:"context,omitempty"`
	Namespace string `yaml:"namespace,omitempty"`
}

// BuiltinMedia configures the pack media. The pack is off unless it has a section.
type BuiltinMedia struct {
	Off bool `yaml:"off,omitempty"`
	// Vision is the model of image:analyze, and Speech that of audio:transcribe.
	Vision *BuiltinModel `yaml:"vision,omitempty"`
	Speech *BuiltinModel `yaml:"speech,omitempty"`
	// MaxBytes is the maximum size of one image or sound (20 MiB).
	MaxBytes int64 `yaml:"max_bytes,omitempty"`
}

// BuiltinModel is a model of a provider.
type BuiltinModel struct {
	// Provider is openai (the default, and whatever speaks like it) or anthropic.
	Provider string `yaml:"provider,omitempty"`
	// URL is the address of the API with its version; that of the provider is the default.
	URL   string `yaml:"url,omitempty"`
	Model string `yaml:"model,omitempty"`
	// Key is the key of the provider, usually a reference to a secret.
	Key string `yaml:"key,omitempty"`
}

func (c checker) checkMedia(m *BuiltinMedia) {
	if m == nil {
		return
	}
	for key, p := range map[string]*BuiltinModel{"builtin.media.speech": m.Speech, "builtin.media.vision": m.Vision} {
		if p == nil {
			continue
		}
		c.checkReference(key+".key", p.Key)
		if p.Model == "" {
			c.addProblem(key+".model", "it is missing", "write the name of a model of the provider")
		}
		if p.URL != "" {
			c.checkWebURL(key+".url", p.URL)
		}
		switch {
		case p.Provider == "":
		case key == "builtin.media.vision":
			c.requireOneOf(key+".provider", p.Provider, "openai", "anthropic")
		default:
			c.requireOneOf(key+".provider", p.Provider, "openai")
		}
	}
}

// BuiltinGoogle configures the pack google. The pack is off unless it has a section.
type BuiltinGoogle struct {
	Off bool `yaml:"off,omitempty"`
	// ClientID and ClientSecret are those of an OAuth client for desktop programs.
	ClientID     string `yaml:"client_id,omitempty"`
	ClientSecret string `yaml:"client_secret,omitempty"`
	// Services are those to offer: gmail, calendar, docs, drive, tasks (all).
	Services []string `yaml:"services,omitempty"`
	// Shared makes all callers use one login.
	Shared bool `yaml:"shared,omitempty"`
	// URL is the address of all APIs and of the login, in place of Google's.
	URL string `yaml:"url,omitempty"`
}

func (c checker) checkGoogle(g *BuiltinGoogle) {
	if g == nil {
		return
	}
	for i, s := range g.Services {
		c.requireOneOf(fmt.Sprintf("builtin.google.services[%d]", i), s, "gmail", "calendar", "docs", "drive", "tasks")
	}
	c.checkReference("builtin.google.client_secret", g.ClientSecret)
	if g.URL != "" {
		c.checkWebURL("builtin.google.url", g.URL)
	}
}

func (c checker) checkStorage(s *BuiltinStorage) {
	if s == nil || s.Off {
		return
	}
	const key = "builtin.storage"
	if s.URL == "" {
		c.addProblem(key+".url", "it is missing", "write the address of the server, such as https://s3.example.com")
	} else {
		c.checkWebURL(key+".url", s.URL)
	}
	if s.AccessKey == "" {
		c.addProblem(key+".access_key", "it is missing", "write the id of the access key")
	} else if len(secret.References(s.AccessKey)) > 0 {
		c.addProblem(key+".access_key", "it names a secret, and so shared links, of which it is a part, would be redacted", "write the id itself: it is no secret")
	}
	if s.SecretKey == "" {
		c.addProblem(key+".secret_key", "it is missing", "write secret://s3/key, and store the key")
	}
	c.checkReference(key+".secret_key", s.SecretKey)
	c.checkReference(key+".session_token", s.SessionToken)
	if s.MaxExpiry > 7*24*time.Hour {
		c.addProblem(key+".max_expiry", "links work at most 7 days", "write a time up to 168h")
	}
}
