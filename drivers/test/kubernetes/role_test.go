//go:build integration

package kubernetes

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/sandbox"
)

// The Role of the docs has what the driver uses and nothing else.
func TestTheRoleOfTheDocsIsWhatTheDriverUses(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	var mu sync.Mutex
	used := map[string]bool{
		"pods/exec create": true, // by SPDY, before Kubernetes 1.31; newer ones demand it for a WebSocket, too
		"pods/log get":     true, // if a container has ended before its guest came up
	}
	api := regexp.MustCompile(`^/apis?/.*/namespaces/[^/]+/([a-z]+)(?:/[^/]+(/[a-z]+)?)?$`)
	target, err := url.Parse("https://127.0.0.1:16443")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // the node's own certificate
	}
	between := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := api.FindStringSubmatch(r.URL.Path); m != nil {
			verb := map[string]string{"GET": "get", "POST": "create", "DELETE": "delete"}[r.Method]
			if strings.HasSuffix(r.URL.Path, "/"+m[1]) && r.Method == "GET" {
				verb = "list"
				if r.URL.Query().Get("watch") == "true" {
					verb = "watch"
				}
			}
			mu.Lock()
			used[m[1]+m[2]+" "+verb] = true
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	defer between.Close()
	text, err := os.ReadFile(o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	through := strings.Replace(string(text), target.String(), between.URL, 1)
	if err := os.WriteFile(o.Kubeconfig, []byte(through), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, job := range []bool{false, true} {
		o := o
		o.Job = job
		d := kubernetes.New(o)
		if p := d.Probe(t.Context()); p.State != sandbox.Available {
			t.Fatalf("%+v", p)
		}
		python(t, o, sandbox.Standard, "1")
		// What is asked when a Pod does not run.
		for _, broken := range []func(*kubernetes.Options){
			func(o *kubernetes.Options) { o.Image = "localhost/pause:test" },
			func(o *kubernetes.Options) {
				o.NodeSelector, o.StartTimeout = map[string]string{"no": "node"}, 2*time.Second
			},
		} {
			o := o
			broken(&o)
			if s, err := kubernetes.New(o).Start(t.Context(), sandbox.Spec{}); err == nil {
				t.Fatalf("it started: %v", s.Kill(t.Context()))
			}
		}
		if _, err := d.Clean(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	role, err := node.client.RbacV1().Roles(o.Namespace).Get(context.WithoutCancel(t.Context()), "toolroom", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	permitted := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				permitted[resource+" "+verb] = true
			}
		}
	}
	sorted := func(set map[string]bool) (list []string) {
		for one := range set {
			list = append(list, one)
		}
		slices.Sort(list)
		return list
	}
	if diff := cmp.Diff(sorted(used), sorted(permitted)); diff != "" {
		t.Errorf("-used +permitted:\n%s", diff)
	}
}
