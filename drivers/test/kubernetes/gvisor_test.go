//go:build integration

package kubernetes

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// shown is a call handler that records output and has one tool.
type shown struct {
	bridge.Handler
	text strings.Builder
}

func (s *shown) Print(_, text string) { s.text.WriteString(text) }

func (s *shown) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	return arguments.Int("a") + arguments.Int("b"), nil
}

func TestARuntimeClassPutsGVisorAroundAPod(t *testing.T) {
	t.Parallel()
	if pids, _ := strconv.Atoi(os.Getenv("TOOLROOM_TEST_KUBERNETES_PIDS")); pids < 256 {
		t.Skip("gVisor's own threads need more processes than this node gives a Pod: scripts/kubernetes.sh gvisor")
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
	if _, err := node.client.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.client.NodeV1().RuntimeClasses().Delete(context.WithoutCancel(t.Context()), class.Name, metav1.DeleteOptions{})
	})
	o := namespace(t)
	o.RuntimeClass = class.Name
	d := kubernetes.New(o)
	p := d.Probe(t.Context())
	if p.State != sandbox.Available || p.Isolation != "kubernetes(gvisor)+seccomp" {
		t.Fatalf("%+v", p)
	}
	h := &shown{}
	result, err := hosted.New(d).Run(t.Context(), engine.Job{
		Run: "run-gvisor", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Standard, Guest: node.guest},
		Program: bridge.Program{Language: "python", Name: "main.py", Source: "print(open('/proc/version').read())\ntools.math.add(a=40, b=2)"},
	}, h)
	if err != nil || result.Outcome.Failure != nil || result.Outcome.Value != int64(42) {
		t.Fatalf("%v, %+v", err, result)
	}
	here, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	if inside := strings.TrimSpace(h.text.String()); inside == "" || inside == strings.TrimSpace(string(here)) {
		t.Errorf("the kernel inside is %q, as outside", inside)
	}
	if left := leftovers(t, o.Namespace); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
