// Package kubernetes reads secrets of a cluster over the Kubernetes API, with
// the service account of the pod. See
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/.
package kubernetes

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

// account is where a pod finds its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// TokenFile is where a pod finds its token.
const TokenFile = account + "token"

// Options say which secrets; the defaults are those within a pod.
type Options struct {
	// Address is the API server's URL (https://kubernetes.default.svc).
	Address string
	// Namespace is that of the secrets; empty is the pod's own.
	Namespace string
	// Secret is the name of the Kubernetes secret ({scope}), Own that of a
	// caller's own values, empty to keep none, and Key the key within it
	// ({name}).
	Secret, Own, Key secret.Template
	// TokenFile and CAFile are of the service account. Both are read at each
	// request: the cluster renews them.
	TokenFile, CAFile string
}

// maxAnswer bounds what is read of an answer, in bytes: a secret has at most 1
// MiB, in base64.
const maxAnswer = 4 << 20

// Store is a [secret.Backend].
type Store struct{ o Options }

// New makes a store. Nothing is asked yet.
func New(o Options) *Store {
	o.Address = strings.TrimRight(cmp.Or(o.Address, "https://kubernetes.default.svc"), "/")
	o.Secret = cmp.Or(o.Secret, "{scope}")
	o.Key = cmp.Or(o.Key, "{name}")
	o.TokenFile = cmp.Or(o.TokenFile, TokenFile)
	o.CAFile = cmp.Or(o.CAFile, account+"ca.crt")
	return &Store{o: o}
}

// Get reads one key of a secret.
func (s *Store) Get(ctx context.Context, ref secret.Ref) (string, error) {
	template := s.o.Secret
	if ref.Owner != "" {
		if template = s.o.Own; template == "" {
			return "", secret.NoOwn(ref, "cluster", "own_secret")
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
			return "", secret.Unset(ref, where)
		}
		return "", err
	}
	value, ok := answer.Data[key]
	if !ok {
		return "", secret.Unset(ref, where)
	}
	return string(value), nil
}

func (s *Store) namespace() (string, error) {
	if s.o.Namespace != "" {
		return s.o.Namespace, nil
	}
	text, err := os.ReadFile(account + "namespace")
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "this is no pod of a cluster: %w", err).
			WithHint("set address, namespace, token_file and ca_file")
	}
	return strings.TrimSpace(string(text)), nil
}

func (s *Store) get(ctx context.Context, path string, ref secret.Ref, into any) error {
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
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the address of the cluster is no URL")
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
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s: the cluster's answer broke off: %w", ref, err)
	case response.StatusCode == http.StatusNotFound:
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no such secret")
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "%s: the cluster refuses it to the service account", ref).
			WithHint(`give the service account a Role with resources ["secrets"], verbs ["get"]`)
	case response.StatusCode != http.StatusOK:
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s: the cluster answers with status %d", ref, response.StatusCode)
	case json.Unmarshal(text, into) != nil:
		// The error would quote the answer.
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s: the cluster's answer is not what its API promises", ref)
	}
	return nil
}

// client trusts the cluster's own authority and nobody else.
func (s *Store) client() (*http.Client, error) {
	pem, err := os.ReadFile(s.o.CAFile)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the cluster's certificate authority cannot be read: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s holds no certificate", s.o.CAFile)
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
