package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/google"
	"github.com/toolroom/toolroom/internal/builtin/k8s"
	"github.com/toolroom/toolroom/internal/builtin/media"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/builtin/storage"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// overridableNamespaces are the namespaces of built-in tools that a source of the config
// may use too. The source takes precedence.
var overridableNamespaces = []string{"git", "image", "audio", "screen", "camera", "gmail", "calendar", "docs", "drive", "tasks"}

// serviceNamespaces maps the namespaces of tools to the packs that servicePacks makes.
var serviceNamespaces = map[string]string{
	"minio": "storage", "k8s": "k8s", "media": "media", "image": "media", "audio": "media", "screen": "media", "camera": "media",
	"gmail": "google", "calendar": "google", "docs": "google", "drive": "google", "tasks": "google",
}

// offHint returns the hint about a namespace without tools: how to turn on its pack.
func offHint(namespace string) string {
	pack := serviceNamespaces[namespace]
	if pack == "" {
		return ""
	}
	return fmt.Sprintf("the tools of %s are built in and off: turn them on in toolroom.yaml: builtin: {%s: {}}", namespace, pack)
}

// servicePacks creates the packs that are off unless the config has a section for them.
func (a *App) servicePacks(c *config.Config, on func(pack string) bool, folders *folder.Folders) ([]*builtin.Pack, error) {
	var list []*builtin.Pack
	for _, service := range []struct {
		name string
		pack func() (*builtin.Pack, error)
	}{
		{"storage", func() (*builtin.Pack, error) { return a.storagePack(c, folders) }},
		{"k8s", func() (*builtin.Pack, error) { return a.k8sPack(c) }},
		{"media", func() (*builtin.Pack, error) { return a.mediaPack(c, folders) }},
		{"google", func() (*builtin.Pack, error) { return a.googlePack(c) }},
	} {
		if !on(service.name) {
			continue
		}
		p, err := service.pack()
		if err != nil {
			return nil, err
		}
		p.Tools = slices.DeleteFunc(p.Tools, func(t builtin.Tool) bool {
			_, taken := c.Sources[t.ID.Namespace]
			if taken {
				a.log.Info("a built-in tool is off: a source has the name of its namespace", "tool", t.ID.String())
			}
			return taken
		})
		list = append(list, p)
	}
	return list, nil
}

// serviceTransport returns a transport that follows the egress rules of the config and also
// permits the service at an address that the config names, and the parsed address.
func (a *App) serviceTransport(c *config.Config, service string) (http.RoundTripper, *url.URL, error) {
	address, err := url.Parse(service)
	if err != nil {
		return nil, nil, err
	}
	guard, err := egress.New(c.Egress.Policy(config.Egress{}))
	if err != nil {
		return nil, nil, err
	}
	return guard.WithOwn(address).Transport(), address, nil
}

// OpenArtifact opens an artifact of a caller.
func (a *App) OpenArtifact(ctx context.Context, who toolroom.Identity, handle string) (*os.File, toolroom.Artifact, error) {
	return a.artifacts.Open(ctx, identity.Owner(who), handle)
}

func (a *App) storagePack(c *config.Config, folders *folder.Folders) (*builtin.Pack, error) {
	s := *c.Builtin.Storage
	transport, address, err := a.serviceTransport(c, s.URL)
	if err != nil {
		return nil, err
	}
	if s.VirtualHosts {
		guard, err := egress.New(c.Egress.Policy(config.Egress{}))
		if err != nil {
			return nil, err
		}
		var hosts []*url.URL
		for _, bucket := range append([]string{s.Bucket}, s.Buckets...) {
			host := *address
			host.Host = bucket + "." + address.Host
			hosts = append(hosts, &host)
		}
		transport = guard.WithOwn(hosts...).Transport()
	}
	notes := memory.Open(a.packFolder("memory"))
	return storage.Pack(storage.Options{
		Client: &storage.Client{
			Endpoint: address, Region: cmp.Or(s.Region, "us-east-1"), VirtualHosts: s.VirtualHosts, Transport: transport,
			Keys: func(ctx context.Context) (storage.Keys, error) {
				values, err := a.resolver.ExpandAll(forAllCallers(ctx), map[string]string{"secret": s.SecretKey, "token": s.SessionToken})
				return storage.Keys{Access: s.AccessKey, Secret: values["secret"], Token: values["token"]}, err
			},
		},
		Bucket: s.Bucket, Buckets: s.Buckets, MaxExpiry: s.MaxExpiry, Folders: folders, Artifact: a.OpenArtifact,
		Save: notes.Save, Has: notes.Has, State: a.packFolder("storage"),
	}), nil
}

func (a *App) k8sPack(c *config.Config) (*builtin.Pack, error) {
	s := *c.Builtin.K8s
	guard, err := egress.New(c.Egress.Policy(config.Egress{}))
	if err != nil {
		return nil, err
	}
	env := func(name string) string { value, _ := a.lookupEnv(name); return value }
	o := k8s.Options{
		Context: s.Context, Namespace: s.Namespace, CallerDial: guard.WithOwn().DialContext,
		OperatorDial: func(server *url.URL) func(context.Context, string, string) (net.Conn, error) {
			return guard.WithOwn(server).DialContext
		},
		Learn: func(who toolroom.Identity, secrets []string) {
			a.redactor.LearnAll(secret.Ref{Scope: "k8s", Name: "kubeconfig", Owner: who.Key()}, secrets)
		},
		Files: k8s.Files{
			Kubeconfig: k8s.FindKubeconfig(env("KUBECONFIG"), env("HOME")),
			Host:       env("KUBERNETES_SERVICE_HOST"), Port: env("KUBERNETES_SERVICE_PORT"), Account: "/var/run/secrets/kubernetes.io/serviceaccount",
		},
	}
	switch {
	case len(secret.References(s.Kubeconfig)) > 0:
		o.Secret = func(ctx context.Context, who toolroom.Identity) (string, error) {
			values, err := a.resolver.ExpandAll(secretref.WithCaller(ctx, who.Key()), map[string]string{"kubeconfig": s.Kubeconfig})
			return values["kubeconfig"], err
		}
	case s.Kubeconfig != "":
		o.Kubeconfig = a.resolvePath(s.Kubeconfig)
	}
	return k8s.Pack(o), nil
}

func (a *App) mediaPack(c *config.Config, folders *folder.Folders) (*builtin.Pack, error) {
	s := *c.Builtin.Media
	channels, err := a.messageChannels(c)
	if err != nil {
		return nil, err
	}
	o := media.Options{Channels: channels, Folders: folders, Artifact: a.OpenArtifact, Put: a.artifacts.Put, MaxBytes: s.MaxBytes, Environ: a.o.Environ}
	if o.Vision, err = a.mediaModel(c, s.Vision, "builtin.media.vision"); err != nil {
		return nil, err
	}
	o.Speech, err = a.mediaModel(c, s.Speech, "builtin.media.speech")
	return media.Pack(o), err
}

// mediaModel returns the model that a section of the config names, or nil.
func (a *App) mediaModel(c *config.Config, s *config.BuiltinModel, section string) (*media.Provider, error) {
	if s == nil {
		return nil, nil
	}
	p := &media.Provider{Kind: s.Provider, URL: media.Address(s.Provider, s.URL), Model: s.Model, Section: section}
	if s.Key != "" {
		p.Key = a.expander(s.Key)
	}
	var err error
	p.Transport, _, err = a.serviceTransport(c, p.URL)
	return p, err
}

// googleName is the name of the pack google, and of its logins.
const googleName = "google"

// googleLogin returns the OAuth client for a caller's login.
func (a *App) googleLogin(c *config.Config, who toolroom.Identity) (*oauth.Client, error) {
	s := *c.Builtin.Google
	e := oauth.Endpoints{Authorization: "https://accounts.google.com/o/oauth2/v2/auth", Token: "https://oauth2.googleapis.com/token"}
	issuer := "https://accounts.google.com"
	if s.URL != "" {
		issuer = strings.TrimSuffix(s.URL, "/")
		e = oauth.Endpoints{Authorization: issuer + "/o/oauth2/v2/auth", Token: issuer + "/token"}
	}
	transport, _, err := a.serviceTransport(c, e.Token)
	if err != nil {
		return nil, err
	}
	e.Authorization += "?access_type=offline&prompt=consent" // so that the token can be renewed
	owner := ""
	if !s.Shared {
		owner = identity.Owner(who)
	}
	return oauth.New(oauth.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, Issuer: issuer, Endpoints: &e, Resolve: a.expandSecrets,
		Scopes: google.Options{Services: s.Services}.Scopes(),
	}, &loginStore{secrets: a.secrets, ref: loginRef(googleName, owner)}, &http.Client{Transport: transport, Timeout: oauthTimeout}), nil
}

func (a *App) googlePack(c *config.Config) (*builtin.Pack, error) {
	s := *c.Builtin.Google
	guard, err := egress.New(c.Egress.Policy(config.Egress{}))
	if err != nil {
		return nil, err
	}
	return google.Pack(google.Options{
		Services: s.Services, URL: s.URL, Transport: guard.WithOwn(parseAddresses([]string{s.URL})...).Transport(), Configured: s.ClientID != "",
		Token: func(ctx context.Context, who toolroom.Identity) (string, error) {
			login, err := a.googleLogin(c, who)
			if err != nil {
				return "", err
			}
			return login.AccessToken(ctx)
		},
	}), nil
}

// PackHasLogin reports whether name is that of a built-in pack that has a login and is on.
func (a *App) PackHasLogin(name string) bool {
	c := a.Config()
	return name == googleName && c.Builtin.On(googleName, false) && c.Builtin.Google.ClientID != ""
}
