//go:build integration

// Package kubernetes runs the suite of sandbox drivers against a real Kubernetes
// node, which scripts/kubernetes.sh starts: `make kubernetes`.
package kubernetes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/image"
	driver "github.com/toolroom/toolroom/drivers/kubernetes"
)

// node is what all tests share.
var node struct {
	folder string // of scripts/kubernetes.sh
	guest  string
	client *kubernetes.Clientset // of the administrator
}

func TestMain(m *testing.M) {
	// The suite's secret of the host machine, which guests must not see.
	os.Setenv("TOOLROOM_SUITE_CANARY", "the server's secret")
	if text := os.Getenv(victimEnv); text != "" {
		if err := live(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "toolroom-kubernetes-")
		if err == nil {
			defer os.RemoveAll(folder)
			err = prepare(context.Background(), folder)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// prepare installs the default image on the node.
func prepare(ctx context.Context, folder string) error {
	node.folder = os.Getenv("TOOLROOM_TEST_KUBERNETES")
	if node.folder == "" {
		return fmt.Errorf("TOOLROOM_TEST_KUBERNETES names no node: run `make kubernetes`")
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(node.folder, "kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	if node.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	node.guest = filepath.Join(folder, "toolroom-guest")
	compile := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", node.guest, "github.com/toolroom/toolroom/sandbox/sandboxtest/escape/guest")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest: %w: %s", err, out)
	}
	archive, err := os.Create(filepath.Join(folder, "image.tar"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := image.Build(ctx, image.Options{Guest: node.guest, Log: os.Stderr}, func(tree *image.Tree) error { return tree.Write(archive) }); err != nil {
		return err
	}
	if _, err := archive.Seek(0, 0); err != nil {
		return err
	}
	// The kubelet uses containerd's images in this namespace.
	return containerd.New(containerd.Options{Address: filepath.Join(node.folder, "containerd.sock"), Namespace: "k8s.io"}).LoadImage(ctx, archive)
}

// namespace creates a namespace as in docs/kubernetes.md for the user toolroom, which has no
// other rights, and returns the options of a driver in it.
func namespace(t testing.TB) driver.Options {
	t.Helper()
	name := "t-" + strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, t.Name()))
	name = strings.TrimRight(name[:min(len(name), 60)], "-")
	manifest, err := os.Open("../../../docs/examples/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	apply(t, name, yaml.NewYAMLOrJSONDecoder(manifest, 4096))
	// The default service account of a namespace is created a moment later, and no Pod can
	// be created before it.
	for {
		_, err := node.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	return driver.Options{Kubeconfig: filepath.Join(node.folder, "kubeconfig-toolroom"), Namespace: name}
}

// apply creates the objects of the manifest, with another name of the namespace.
func apply(t testing.TB, name string, documents *yaml.YAMLOrJSONDecoder) {
	t.Helper()
	ctx := t.Context()
	for {
		var raw struct {
			Kind string `json:"kind"`
			corev1.Namespace
			Rules    []rbacv1.PolicyRule      `json:"rules"`
			RoleRef  rbacv1.RoleRef           `json:"roleRef"`
			Subjects []rbacv1.Subject         `json:"subjects"`
			Quota    corev1.ResourceQuotaSpec `json:"spec"`
		}
		if err := documents.Decode(&raw); err != nil {
			return // the end
		}
		meta := metav1.ObjectMeta{Name: raw.Name, Namespace: name, Labels: raw.Labels}
		var err error
		switch raw.Kind {
		case "Namespace":
			meta.Name, meta.Namespace = name, ""
			_, err = node.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
			t.Cleanup(func() {
				_ = node.client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
			})
		case "Role":
			_, err = node.client.RbacV1().Roles(name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: raw.Rules}, metav1.CreateOptions{})
		case "RoleBinding":
			_, err = node.client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: raw.RoleRef, Subjects: raw.Subjects}, metav1.CreateOptions{})
		case "ResourceQuota":
			_, err = node.client.CoreV1().ResourceQuotas(name).Create(ctx, &corev1.ResourceQuota{ObjectMeta: meta, Spec: raw.Quota}, metav1.CreateOptions{})
		default:
			t.Fatalf("the manifest has a %q, which this test does not know", raw.Kind)
		}
		if err != nil {
			t.Fatalf("%s %s: %v", raw.Kind, raw.Name, err)
		}
	}
}

// leftovers returns the Pods and Jobs of a namespace, and their containers on the node.
// (The kubelet keeps empty folders for their logs for a while.)
func leftovers(t *testing.T, namespace string) []string {
	t.Helper()
	var left []string
	pods, err := node.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		left = append(left, "Pod "+p.Name)
	}
	jobs, err := node.client.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		left = append(left, "Job "+j.Name)
	}
	for _, line := range ctr(t, "containers", "list") {
		if strings.Contains(line, namespace) {
			left = append(left, "container "+line)
		}
	}
	return left
}

// ctr runs a command of ctr on the node's containerd and returns its lines.
func ctr(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"-a", filepath.Join(node.folder, "containerd.sock"), "-n", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
