// Package k8s provides the built-in tools that show the Pods, Deployments and logs of a
// Kubernetes cluster. They only read, with the permissions of a kubeconfig or a service
// account.
package k8s

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
)

// Options configure the pack.
type Options struct {
	// Kubeconfig is a file of the operator; if it is empty, Files are searched. Secret returns
	// the caller's own kubeconfig, which replaces both.
	Kubeconfig string
	Secret     func(ctx context.Context, who toolroom.Identity) (string, error)
	Files      Files
	// Context selects one of the kubeconfig's contexts, and Namespace is the default one.
	Context, Namespace string
	// OperatorDial returns the dial function for a cluster that the operator has chosen.
	// CallerDial connects to clusters of callers.
	OperatorDial func(server *url.URL) func(ctx context.Context, network, address string) (net.Conn, error)
	CallerDial   func(ctx context.Context, network, address string) (net.Conn, error)
	// Learn, if not nil, is called with the credentials that are used for a caller, so that
	// they are redacted. A server may repeat them in an error, and a program in its log.
	Learn func(who toolroom.Identity, secrets []string)
}

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	k := &k8s{o}
	return &builtin.Pack{Name: "k8s", Tools: []builtin.Tool{k.pods(), k.deployments(), k.logs()}, Check: k.check}
}

type k8s struct{ Options }

// client is a connection to a cluster as one user.
type client struct {
	*access
	http  *http.Client
	learn func(secrets []string)
}

func (k *k8s) access(ctx context.Context, who toolroom.Identity) (*access, error) {
	if k.Secret != nil {
		text, err := k.Secret(ctx, who)
		if err != nil {
			return nil, err
		}
		return parseKubeconfig([]byte(text), k.Context, "")
	}
	return k.operatorAccess()
}

// operatorAccess returns access to the cluster that the operator has chosen.
func (k *k8s) operatorAccess() (*access, error) {
	files := k.Files
	if k.Kubeconfig != "" {
		files = Files{Kubeconfig: k.Kubeconfig}
	}
	a, err := files.find(k.Context)
	if err != nil && k.Kubeconfig != "" && toolroom.CodeOf(err) == toolroom.CodeUnsupported && files.Host == "" {
		if known, ok := errors.AsType[*toolroom.Error](err); ok && strings.HasPrefix(known.Message, "no cluster") {
			return nil, kubeconfigError("there is no file %s", k.Kubeconfig)
		}
	}
	return a, err
}

func (k *k8s) connect(ctx context.Context, who toolroom.Identity) (*client, error) {
	a, err := k.access(ctx, who)
	if err != nil {
		return nil, err
	}
	dial := k.CallerDial
	if k.Secret == nil {
		dial = k.OperatorDial(a.server)
	}
	c := &client{access: a, learn: func([]string) {}}
	if k.Learn != nil {
		c.learn = func(secrets []string) { k.Learn(who, secrets) }
	}
	c.http = &http.Client{Transport: a.transport(dial), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// check returns an error if the operator's cluster does not list its Pods.
func (k *k8s) check(ctx context.Context) *toolroom.Error {
	if k.Secret != nil {
		return nil // each caller has another
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := k.connect(ctx, toolroom.Identity{})
	if err != nil {
		return toolroom.AsError(err)
	}
	defer c.close()
	if _, err := c.table(ctx, "/api/v1"+c.namespacePath(k.namespace(c, ""))+"/pods", "", 1); err != nil {
		return toolroom.AsError(c.connectionError(ctx, err))
	}
	return nil
}

// namespace returns the namespace of a call: the one asked for, else the default.
func (k *k8s) namespace(c *client, asked string) string {
	return cmp.Or(asked, k.Namespace, c.namespace, "default")
}

// namespacePath returns the part of a path that names a namespace; "*" is all of them.
func (c *client) namespacePath(namespace string) string {
	if namespace == "*" {
		return ""
	}
	return "/namespaces/" + url.PathEscape(namespace)
}

// get sends a request. The caller must close the body.
func (c *client) get(ctx context.Context, path string, query url.Values, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(path, query), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	secrets, err := c.authorize(r)
	if err != nil {
		return nil, err
	}
	c.learn(secrets)
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what is missing is missing in the message
	return nil, c.responseError(response.StatusCode, text)
}

// forbidden matches the message of a denial by RBAC.
var forbidden = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?`)

// plain matches text that is safe in a command that a person is told to run. Text from a server
// is untrusted.
var plain = regexp.MustCompile(`^[A-Za-z0-9@:._/-]*$`)

// responseError returns the error for a failed request to the API server.
func (c *client) responseError(status int, text []byte) error {
	var told struct{ Message, Reason string }
	if json.Unmarshal(text, &told) != nil || told.Message == "" {
		told.Message = strings.TrimSpace(string(text[:min(len(text), 300)]))
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "%s answered %d: %.500s", c, status, told.Message)
	switch {
	case status == http.StatusUnauthorized:
		e.Code = toolroom.CodeUnauthenticated
		return e.WithHint("the credentials of the kubeconfig are wrong or have expired; make new ones")
	case status == http.StatusForbidden:
		return c.deniedError(told.Message, e)
	case status == http.StatusNotFound:
		e.Code, e.Message = toolroom.CodeNotFound, told.Message
		return e.WithHint("list the Pods: k8s:pods, with namespace=* for all namespaces")
	case status == http.StatusBadRequest:
		e.Code, e.Message = toolroom.CodeInvalidArguments, told.Message
	case status == http.StatusTooManyRequests || status >= 500:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

// deniedError returns the error for a denial by RBAC, with the command that would permit the
// call.
func (c *client) deniedError(message string, e *toolroom.Error) error {
	e.Code = toolroom.CodeDenied
	m := forbidden.FindStringSubmatch(message)
	if m == nil {
		return e.WithHint("ask an administrator of the cluster for the permission")
	}
	who, verb, resource, group, namespace := m[1], m[2], m[3], m[4], m[5]
	for _, part := range m[1:] {
		if !plain.MatchString(part) {
			return e.WithHint("ask an administrator of the cluster for the permission")
		}
	}
	where, kind, flag := "in all namespaces", "clusterrole", ""
	if namespace != "" {
		where, kind, flag = "in the namespace "+namespace, "role", " -n "+namespace
	}
	e.Message = fmt.Sprintf("%s does not let %s %s %s %s", c, who, verb, resource, where)
	subject := "--user=" + who
	if account, ok := strings.CutPrefix(who, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + account
	}
	name := "toolroom-" + strings.ReplaceAll(resource, "/", "-") // a second refusal needs a second role
	if group != "" {
		resource += "." + group
	}
	return e.WithHint("an administrator of the cluster can permit it: kubectl create %s %s --verb=get,list --resource=%s%s; kubectl create %sbinding %s --%s=%s %s%s",
		kind, name, resource, flag, kind, name, kind, name, subject, flag)
}

// connectionError converts an error of a connection to one for the caller.
func (c *client) connectionError(ctx context.Context, err error) error {
	if _, known := errors.AsType[*toolroom.Error](err); known || ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s cannot be reached: %w", c, err).WithHint("check that kubectl reaches it from this machine")
	e.Retryable = true
	return e
}

// row is an object as kubectl prints it. cells are indexed by column name.
type row struct {
	name, namespace string
	cells           map[string]string
}

// tableType asks the API server to print objects as kubectl shows them.
const tableType = "application/json;as=Table;v=v1;g=meta.k8s.io"

const maxTable = 16 << 20

// table returns at most limit objects.
func (c *client) table(ctx context.Context, path, selector string, limit int) (rows []row, err error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	response, err := c.get(ctx, path, query, tableType)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var list struct {
		Kind              string
		ColumnDefinitions []struct{ Name string }
		Rows              []struct {
			Cells  []any
			Object struct {
				Metadata struct{ Name, Namespace string }
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxTable)).Decode(&list); err != nil || list.Kind != "Table" {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "%s did not answer with a table: %w", c, err).WithHint("it must be Kubernetes 1.15 or newer")
	}
	for _, one := range list.Rows {
		r := row{one.Object.Metadata.Name, one.Object.Metadata.Namespace, map[string]string{}}
		for i, cell := range one.Cells {
			if i < len(list.ColumnDefinitions) {
				r.cells[list.ColumnDefinitions[i].Name] = fmt.Sprint(cell)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func definition(name, title, description string, example map[string]any) toolroom.Tool {
	return builtin.Define("k8s:"+name, "k8s", title, description, builtin.Hints(true, false, true), example)
}

// readEffects returns the predicted effect of a call.
func (k *k8s) readEffects() []toolroom.Effect {
	effect := toolroom.Effect{Kind: toolroom.EffectHost, Mode: "get"}
	if k.Secret == nil {
		if a, err := k.operatorAccess(); err == nil {
			effect.Target = a.server.String()
		}
	}
	return []toolroom.Effect{effect}
}

func properties() map[string]builtin.Property {
	return map[string]builtin.Property{
		"namespace": {"pattern": `^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$`}, "selector": {"maxLength": 500}, "limit": {"minimum": 1, "maximum": 1000, "default": 200},
	}
}

// FindKubeconfig returns the file that kubectl would read, given KUBECONFIG and the user's
// home.
func FindKubeconfig(fromEnvironment, home string) string {
	if first, _, _ := strings.Cut(fromEnvironment, string(filepath.ListSeparator)); first != "" {
		return first
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".kube", "config")
}
