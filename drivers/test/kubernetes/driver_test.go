//go:build integration

package kubernetes

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

func TestKubernetesPassesTheSuite(t *testing.T) {
	for _, job := range []bool{false, true} {
		name := map[bool]string{false: "Pod", true: "Job"}[job]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := namespace(t)
			o.Job = job
			d := kubernetes.New(o)
			sandboxtest.Documented(t, "../../../docs/runtimes.md", "kubernetes", d.Probe(t.Context()))
			sandboxtest.Run(t, sandboxtest.Options{
				Lacks:     []sandbox.Limit{sandbox.LimitEgress},
				New:       func(*testing.T) sandbox.Driver { return d },
				Guest:     node.guest,
				Languages: []string{"python", "shell"},
				Leftovers: func(t *testing.T) []string { return leftovers(t, o.Namespace) },
			})
		})
	}
}

func TestNoProgramEscapesFromAPod(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	sandboxtest.Escape(t, sandboxtest.Options{
		Lacks: []sandbox.Limit{sandbox.LimitEgress},
		New:   func(*testing.T) sandbox.Driver { return kubernetes.New(o) }, Guest: node.guest, GuestInside: image.GuestPath,
		Leftovers: func(t *testing.T) []string { return leftovers(t, o.Namespace) },
	}, map[string]string{
		"see /var":            "the image's own folder, which has nothing of this machine",
		"read /proc/kallsyms": "a Pod cannot hide it; it has the names of the kernel's symbols, and zeros for their addresses",
	})
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	d := kubernetes.New(o)
	sandboxtest.Rogue(t, sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return d }, Guest: node.guest,
		Leftovers: func(t *testing.T) []string { return leftovers(t, o.Namespace) },
	})
}

// begin starts a sandbox whose guest has said hello.
func begin(t *testing.T, d sandbox.Driver, s sandbox.Spec) (sandbox.Sandbox, *bridge.Conn) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	s.Guest = node.guest
	instance, err := d.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.Kill(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	conn, err := bridge.Accept(ctx, instance.Stream(), bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return instance, conn
}

// pods returns the Pods of a namespace.
func pods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	list, err := node.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestTheReasonWhyAPodDoesNotRunIsReported(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	with := func(change func(*kubernetes.Options)) *kubernetes.Driver {
		o := o
		change(&o)
		return kubernetes.New(o)
	}
	for _, tt := range []struct {
		name, want, hint string
		driver           *kubernetes.Driver
		spec             sandbox.Spec
	}{
		{"a selector of no node", "unschedulable: 0/1 nodes are available", "node_selector", with(func(o *kubernetes.Options) {
			o.StartTimeout = 5 * time.Second
			o.NodeSelector = map[string]string{"no": "node"}
		}), sandbox.Spec{}},
		{"no image", "does not have the image localhost/none:1", "images import", with(func(o *kubernetes.Options) { o.Image = "localhost/none:1" }), sandbox.Spec{}},
		{"no registry", "localhost/none:1", "reach its registry", with(func(o *kubernetes.Options) { o.Image, o.Pull = "localhost/none:1", "missing" }), sandbox.Spec{}},
		{"an image without a guest", "toolroom-guest", "guest_image", with(func(o *kubernetes.Options) { o.Image = "localhost/pause:test" }), sandbox.Spec{}},
		{"no such RuntimeClass", `RuntimeClass "nothing" not found`, "runtimeclasses", with(func(o *kubernetes.Options) { o.RuntimeClass = "nothing" }), sandbox.Spec{}},
		{"more than the quota", "exceeded quota", "quota", with(func(*kubernetes.Options) {}), sandbox.Spec{Limits: sandbox.Limits{Memory: 17 << 30}}},
		{"more than the namespace permits", "violates PodSecurity", "profile standard", with(func(*kubernetes.Options) {}), sandbox.Spec{Profile: sandbox.Dev}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.spec.Guest = node.guest
			instance, err := tt.driver.Start(t.Context(), tt.spec)
			if err == nil {
				t.Fatalf("it started: %v", instance.Kill(t.Context()))
			}
			for _, p := range pods(t, o.Namespace) {
				if p.Name == podOf(err) {
					t.Errorf("the Pod %s is left", p.Name)
				}
			}
			if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), tt.want) || !strings.Contains(toolroom.AsError(err).Hints(), tt.hint) {
				t.Errorf("the start said %v (%s)", err, toolroom.AsError(err).Hints())
			}
		})
	}
}

// podOf returns the Pod that an error names.
func podOf(err error) string {
	for _, word := range strings.Fields(err.Error()) {
		if name := strings.Trim(word, `:";,`); strings.HasPrefix(name, "toolroom-") && len(name) > 30 {
			return name
		}
	}
	return ""
}

func TestAClusterThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	good := filepath.Join(node.folder, "kubeconfig-toolroom")
	for _, tt := range []struct {
		name, reason string
		options      kubernetes.Options
	}{
		{"no namespace", "no namespace is configured", kubernetes.Options{Kubeconfig: good}},
		{"no kubeconfig", "no-such-file", kubernetes.Options{Kubeconfig: "/no-such-file", Namespace: "n"}},
		{"no context", `context "none" does not exist`, kubernetes.Options{Kubeconfig: good, Context: "none", Namespace: "n"}},
		{"no right", "forbidden", kubernetes.Options{Kubeconfig: good, Namespace: "kube-system"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := kubernetes.New(tt.options).Probe(t.Context())
			if p.State != sandbox.Unsupported || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
		})
	}
}

func TestAnEvictedPodIsReported(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	instance, _ := begin(t, kubernetes.New(o), sandbox.Spec{})
	for _, p := range pods(t, o.Namespace) {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}}
		if err := node.client.PolicyV1().Evictions(o.Namespace).Evict(t.Context(), eviction); err != nil {
			t.Fatal(err)
		}
	}
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	if _, err := instance.Wait(ctx); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "was deleted while its program ran") || !strings.Contains(toolroom.AsError(err).Hints(), "get events") {
		t.Errorf("it ended with %v", err)
	}
}

func TestRemainsOfADeadProcessInAClusterAreRemoved(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	own := proc.Labels("run")
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("%d-1", gone.Process.Pid)
	for name, owner := range map[string]string{"alive": own[proc.LabelOwner], "dead": dead, "elsewhere": dead} {
		machine := own[proc.LabelMachine]
		if name == "elsewhere" {
			machine = "another"
		}
		few := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi"), corev1.ResourceCPU: resource.MustParse("1m")}
		_, err := node.client.CoreV1().Pods(o.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{proc.LabelOwner: owner, proc.LabelMachine: machine}},
			Spec: corev1.PodSpec{
				NodeSelector:    map[string]string{"no": "node"},
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{
					Name: "c", Image: "localhost/none:1", Resources: corev1.ResourceRequirements{Requests: few},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if p := kubernetes.New(o).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	var left []string
	for _, p := range pods(t, o.Namespace) {
		if !strings.HasPrefix(p.Name, "toolroom-") { // of the probe
			left = append(left, p.Name)
		}
	}
	if diff := cmp.Diff([]string{"alive", "elsewhere"}, left); diff != "" {
		t.Errorf("the Pods differ (-want +got):\n%s", diff)
	}
}
