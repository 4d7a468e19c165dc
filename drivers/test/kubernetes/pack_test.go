//go:build integration

package kubernetes

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/k8s"
	"github.com/toolroom/toolroom/source"
)

// The built-in pack k8s shows a real cluster, and what RBAC refuses in words.
func TestBuiltinToolsOnARealNode(t *testing.T) {
	in := namespace(t).Namespace
	labels := map[string]string{"app": "none"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}}}
	none := int32(0)
	if _, err := node.client.AppsV1().Deployments(in).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	call := func(config, tool, arguments string) (string, error) {
		p := k8s.Pack(k8s.Options{
			Kubeconfig: filepath.Join(node.folder, config), Namespace: in,
			Own: func(*url.URL) func(context.Context, string, string) (net.Conn, error) {
				return new(net.Dialer).DialContext
			},
		})
		out, err := p.Source().Call(t.Context(), &source.Request{Tool: toolroom.MustParseID(tool), Arguments: []byte(arguments), Emit: func(toolroom.Event) {}})
		if err != nil {
			return "", err
		}
		return out.Content[0].Text, nil
	}
	if text, err := call("kubeconfig-toolroom", "k8s:pods", "{}"); err != nil || text != "There are no Pods." {
		t.Errorf("%q %v", text, err)
	}
	if text, err := call("kubeconfig", "k8s:deployments", "{}"); err != nil || !strings.Contains(text, "0/0") || !strings.Contains(text, "localhost/none:1") {
		t.Errorf("%q %v", text, err)
	}
	for tool, want := range map[string]string{"k8s:deployments": "does not let toolroom list deployments in the namespace " + in, "k8s:logs": "not found"} {
		_, err := call("kubeconfig-toolroom", tool, map[string]string{"k8s:deployments": "{}", "k8s:logs": `{"pod":"none"}`}[tool])
		var known *toolroom.Error
		if !errors.As(err, &known) || !strings.Contains(known.Message, want) {
			t.Errorf("%s: %v", tool, err)
		}
	}
}
