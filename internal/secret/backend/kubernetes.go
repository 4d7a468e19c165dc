package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// account is the folder of a pod's service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// TokenFile is the path of a pod's token.
const TokenFile = account + "token"

// KubernetesOptions configure a [Kubernetes]. The defaults are right inside a pod.
type KubernetesOptions struct {
	// Address is the URL of the API server. The default is
	// https://kubernetes.default.svc.
	Address string
	// Namespace is the namespace of the secrets. The default is the pod's own.
	Namespace string
	// Secret is the template of a Kubernetes secret's name, by default {scope}.
	// Key is that of the key within it, by default {name}. Own is the template of
	// the name for callers' own values; if it is empty, callers have none.
	Secret, Own, Key secret.Template
	// TokenFile and CAFile belong to the service account. Both are read for each
	// request, because the cluster renews them.
	TokenFile, CAFile string
}

// Kubernetes reads secrets of a cluster over the Kubernetes API, with the service
// account of the pod. See
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/.
type Kubernetes struct{ o KubernetesOptions }

// NewKubernetes returns a Kubernetes with these options. It sends no request yet.
func NewKubernetes(o KubernetesOptions) *Kubernetes {
	o.Address = strings.TrimRight(cmp.Or(o.Address, "https://kubernetes.default.svc"), "/")
	o.Secret = cmp.Or(o.Secret, "{scope}")
	o.Key = cmp.Or(o.Key, "{name}")
	o.TokenFile = cmp.Or(o.TokenFile, TokenFile)
	o.CAFile = cmp.Or(o.CAFile, account+"ca.crt")
	return &Kubernetes{o: o}
}

// Get returns the value of one key of a secret.
func (s *Kubernetes) Get(ctx context.Context, ref secret.Ref) (string, error) {
	template := s.o.Secret
	if ref.Owner != "" {
		if template = s.o.Own; template == "" {
			return "", secret.SharedOnlyError(ref, "cluster", "own_secret")
		}
	}
	name, err := template.Path(ref)
	if err != nil {
		return "", err
	}
	key, err := s.o.Key.Word(ref)
	if err != nil {
		return "", err
	}
	namespace, err := s.namespace()
	if err != nil {
		return "", err
	}
	var answer struct {
		// Data is in base64.
		Data map[string][]byte `json:"data"`
	}
	where := "secret " + name + " in namespace " + namespace + ", key " + key
	if err := s.get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/secrets/"+name, ref, &answer); err != nil {
		if toolroom.CodeOf(err) == toolroom.CodeNotFound {
			return "", secret.NotSetError(ref, where)
		}
		return "", err
	}
	value, ok := answer.Data[key]
	if !ok {
		return "", secret.NotSetError(ref, where)
	}
	return string(value), nil
}

func (s *Kubernetes) namespace() (string, error) {
	if s.o.Namespace != "" {
		return s.o.Namespace, nil
	}
	text, err := os.ReadFile(account + "namespace")
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "this process does not run in a pod: %w", err).
			WithHint("set address, namespace, token_file and ca_file")
	}
	return strings.TrimSpace(string(text)), nil
}

func (s *Kubernetes) get(ctx context.Context, path string, ref secret.Ref, into any) error {
	token, err := os.ReadFile(s.o.TokenFile)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s: the service account's token cannot be read: %w", ref, err)
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.Address+path, nil)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the address of the cluster is not a URL")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s: the cluster cannot be reached: %w", ref, err)
		e.Retryable = true
		return e
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	switch {
	case err != nil:
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s: the cluster's response broke off: %w", ref, err)
	case response.StatusCode == http.StatusNotFound:
		return toolroom.Errorf(toolroom.CodeNotFound, "no such secret")
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "%s: the cluster does not let the service account read it", ref).
			WithHint(`give the service account a Role with resources ["secrets"], verbs ["get"]`)
	case response.StatusCode != http.StatusOK:
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s: the cluster responded with status %d", ref, response.StatusCode)
	case json.Unmarshal(text, into) != nil:
		// The error would quote the response.
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s: the cluster's response is not a Kubernetes secret", ref)
	}
	return nil
}

// client returns a client that trusts only the cluster's certificate authority.
func (s *Kubernetes) client() (*http.Client, error) {
	pem, err := os.ReadFile(s.o.CAFile)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the cluster's certificate authority cannot be read: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s contains no certificate", s.o.CAFile)
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
