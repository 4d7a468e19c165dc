package k8s

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
)

// kubeconfig is the part of a kubeconfig file that describes how to reach a cluster.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

type cluster struct {
	Server     string `yaml:"server"`
	CAFile     string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
}

type user struct {
	CertFile  string    `yaml:"client-certificate"`
	CertData  string    `yaml:"client-certificate-data"`
	KeyFile   string    `yaml:"client-key"`
	KeyData   string    `yaml:"client-key-data"`
	Token     string    `yaml:"token"`
	TokenFile string    `yaml:"tokenFile"`
	Username  string    `yaml:"username"`
	Password  string    `yaml:"password"`
	Exec      yaml.Node `yaml:"exec"`
	Provider  yaml.Node `yaml:"auth-provider"`
}

// access is the address of a cluster with the credentials of a user.
type access struct {
	server    *url.URL
	namespace string
	tls       *tls.Config
	token     func() (string, error)
	user      user
}

// maxKubeconfig is the maximum size of a kubeconfig, in bytes.
const maxKubeconfig = 1 << 20

// parseKubeconfig parses a kubeconfig. Paths in it are relative to dir. If dir is empty, the
// kubeconfig comes from a caller, who must not read files of this machine, so it cannot name
// files.
func parseKubeconfig(text []byte, contextName, dir string) (*access, error) {
	var k kubeconfig
	if len(text) > maxKubeconfig {
		return nil, kubeconfigError("it is larger than %d bytes", maxKubeconfig)
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, kubeconfigError("%w", err)
	}
	name := cmp.Or(contextName, k.CurrentContext)
	a := &access{}
	var c *cluster
	for _, one := range k.Contexts {
		if one.Name != name {
			continue
		}
		a.namespace = one.Context.Namespace
		for i := range k.Clusters {
			if k.Clusters[i].Name == one.Context.Cluster {
				c = &k.Clusters[i].Cluster
			}
		}
		for i := range k.Users {
			if k.Users[i].Name == one.Context.User {
				a.user = k.Users[i].User
			}
		}
	}
	if c == nil {
		return nil, kubeconfigError("it has no cluster for the context %q", name)
	}
	if c.Proxy != "" {
		return nil, kubeconfigError("proxy-url is not supported; set egress.proxy in toolroom.yaml")
	}
	if !a.user.Exec.IsZero() || !a.user.Provider.IsZero() {
		return nil, kubeconfigError("its user logs in with a program (exec or auth-provider), which is not run").
			WithHint("use a service account: kubectl create serviceaccount toolroom, a role binding for it, and its token (kubectl create token toolroom --duration 720h) as users[].user.token")
	}
	return a, a.complete(*c, dir)
}

// complete sets the address, the certificates and the token.
func (a *access) complete(c cluster, dir string) error {
	var err error
	if a.server, err = url.Parse(c.Server); err != nil || a.server.Host == "" || a.server.Scheme != "https" && a.server.Scheme != "http" {
		return kubeconfigError("%q is not the address of a cluster", c.Server)
	}
	a.tls = &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure, MinVersion: tls.VersionTLS12} // as the kubeconfig says
	authorities, err := readPart("certificate-authority", c.CAFile, c.CAData, dir)
	if err != nil {
		return err
	}
	if len(authorities) > 0 {
		a.tls.RootCAs = x509.NewCertPool()
		if !a.tls.RootCAs.AppendCertsFromPEM(authorities) {
			return kubeconfigError("certificate-authority holds no certificate")
		}
	}
	cert, err := readPart("client-certificate", a.user.CertFile, a.user.CertData, dir)
	if err != nil {
		return err
	}
	key, err := readPart("client-key", a.user.KeyFile, a.user.KeyData, dir)
	if err != nil {
		return err
	}
	if len(cert) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return kubeconfigError("the client certificate and its key: %w", err)
		}
		a.tls.Certificates = []tls.Certificate{pair}
	}
	a.token = func() (string, error) { return a.user.Token, nil }
	if a.user.TokenFile != "" && a.user.Token == "" {
		if _, err := readPart("tokenFile", a.user.TokenFile, "", dir); err != nil {
			return err
		}
		// Read for each request, because tokens of service accounts are replaced.
		a.token = func() (string, error) {
			text, err := readPart("tokenFile", a.user.TokenFile, "", dir)
			return strings.TrimSpace(string(text)), err
		}
	}
	return nil
}

// readPart returns data that a kubeconfig contains in base64 or names as a file.
func readPart(name, path, data, dir string) ([]byte, error) {
	switch {
	case data != "":
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, kubeconfigError("%s-data is not base64", name)
		}
		return text, nil
	case path == "":
		return nil, nil
	case dir == "":
		return nil, kubeconfigError("%s names a file, but a kubeconfig from a secret must hold everything itself", name).WithHint("store the output of: kubectl config view --minify --flatten --raw")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, kubeconfigError("%s: %w", name, err)
	}
	return text, nil
}

func kubeconfigError(format string, args ...any) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "the kubeconfig cannot be used: "+format, args...).
		WithHint("check it with kubectl, and builtin.k8s in toolroom.yaml")
}

// Files are the places where the pack searches for a cluster if the config names none.
type Files struct {
	// Kubeconfig is the file of the environment variable KUBECONFIG, or of the user.
	Kubeconfig string
	// Host and Port are those of the API server inside a Pod, and Account is the folder of
	// the Pod's service account.
	Host, Port, Account string
}

// find returns access to the cluster of this machine's user or of this Pod.
func (f Files) find(contextName string) (*access, error) {
	text, err := os.ReadFile(f.Kubeconfig)
	if err == nil {
		return parseKubeconfig(text, contextName, filepath.Dir(f.Kubeconfig))
	}
	if !errors.Is(err, os.ErrNotExist) && f.Kubeconfig != "" {
		return nil, kubeconfigError("%w", err)
	}
	if f.Host == "" {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "no cluster is configured: there is no kubeconfig, and this is no Pod").
			WithHint(`name one in toolroom.yaml: builtin: {k8s: {kubeconfig: /home/ann/.kube/config}}; or each caller's own: builtin: {k8s: {kubeconfig: "secret://k8s/config"}}`)
	}
	a := &access{user: user{TokenFile: filepath.Join(f.Account, "token")}}
	if namespace, err := os.ReadFile(filepath.Join(f.Account, "namespace")); err == nil {
		a.namespace = strings.TrimSpace(string(namespace))
	}
	return a, a.complete(cluster{Server: "https://" + net.JoinHostPort(f.Host, f.Port), CAFile: filepath.Join(f.Account, "ca.crt")}, f.Account)
}

// transport returns a transport to the cluster.
func (a *access) transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: dial, TLSClientConfig: a.tls, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConns: 4,
	}
}

// authorize adds the user's token or password to a request, and returns all credentials of the
// user.
func (a *access) authorize(r *http.Request) (secrets []string, err error) {
	token, err := a.token()
	switch {
	case err != nil:
		return nil, err
	case token != "":
		r.Header.Set("Authorization", "Bearer "+token)
	case a.user.Username != "":
		r.SetBasicAuth(a.user.Username, a.user.Password)
	}
	return []string{token, a.user.Password, a.user.KeyData}, nil
}

// address returns the URL of a request.
func (a *access) address(path string, query url.Values) string {
	u := *a.server
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	u.RawQuery = query.Encode()
	return u.String()
}

func (a *access) String() string { return fmt.Sprintf("the cluster at %s", a.server.Host) }
