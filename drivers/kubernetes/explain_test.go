package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

func guestState(s corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: container, Image: "img:1", State: s}}}
}

func waiting(reason, message string) corev1.PodStatus {
	return guestState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func ending(code int32, reason, message string) corev1.PodStatus {
	return guestState(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

func TestAPodThatWillNotRunSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want, hint string // want is empty if the Pod may still run
		status           corev1.PodStatus
	}{
		{"nothing is known yet", "", "", corev1.PodStatus{Phase: corev1.PodPending}},
		{"it is being made", "", "", waiting("ContainerCreating", "")},
		{"the first try to pull failed", "", "", waiting("ErrImagePull", "timeout")},
		{"pulling failed again", "ImagePullBackOff: no such host", "registry", waiting("ImagePullBackOff", "no such host")},
		{"no image", "does not have the image img:1", "images import", waiting("ErrImageNeverPull", "")},
		{"a broken config", "CreateContainerConfigError: secret", "describe pod", waiting("CreateContainerConfigError", "secret")},
		{"no guest", "ended with code 128 (StartError): exec: \"g\": executable file not found", "guest_image", ending(128, "StartError", `exec: "g": executable file not found`)},
		{"a guest that crashed", "ended with code 139 (Error)", "another processor", ending(139, "Error", "")},
		{"out of memory", "OOMKilled", "more memory", ending(137, "OOMKilled", "")},
		{"evicted", "was evicted: The node was low on resource: memory", "request less", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory"}},
		{"its deadline", "ended at its deadline", "longer wall time", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}},
		{"a lost node", "lost with its node", "get nodes", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeLost"}},
		{"refused by the node", "OutOfmemory it is full", "", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfmemory", Message: "it is full"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := startError(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: tt.status})
			if tt.want == "" {
				if err != nil {
					t.Errorf("the Pod was given up: %v", err)
				}
				return
			}
			if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), tt.want) || !strings.Contains(toolroom.AsError(err).Hints(), tt.hint) {
				t.Errorf("got %v (%s)", err, toolroom.AsError(err).Hints())
			}
		})
	}
}

func TestAPendingPodReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory",
	}}}
	for want, p := range map[string]*corev1.Pod{
		"the Job made no Pod in time; events: E": nil,
		"unschedulable: 0/3 nodes are available": {Status: unschedulable},
		"was not assigned to a node; events: E":  {},
		"did not run in time; events: E":         {Spec: corev1.PodSpec{NodeName: "n"}},
	} {
		if err := pendingError(p, "E"); !strings.Contains(err.Error(), want) || toolroom.AsError(err).Hints() == "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestEnforcementIsDerivedFromTheInspections(t *testing.T) {
	t.Parallel()
	eth := []string{"eth0"}
	for _, tt := range []struct {
		name, lack   string
		closed, open guest.PodInspection
		enforced     bool
		text         string
	}{
		{"no interfaces", "", guest.PodInspection{}, guest.PodInspection{}, true, "Pods have no network"},
		{"a policy that is kept", "", guest.PodInspection{Interfaces: eth}, guest.PodInspection{Interfaces: eth, Reached: []string{"a:1"}}, true, "did not reach"},
		{"one that refuses", "", guest.PodInspection{Interfaces: eth, Refused: []string{"a:1"}}, guest.PodInspection{Interfaces: eth, Reached: []string{"a:1"}}, true, "did not reach"},
		{"none that is kept", "", guest.PodInspection{Interfaces: eth, Reached: []string{"a:1"}}, guest.PodInspection{Interfaces: eth, Reached: []string{"a:1"}}, false, "reached a:1"},
		{"only refusals", "", guest.PodInspection{Interfaces: eth, Refused: []string{"a:1"}}, guest.PodInspection{Interfaces: eth, Refused: []string{"a:1"}}, false, "an answer from a:1"},
		{"no refusal more", "", guest.PodInspection{Interfaces: eth}, guest.PodInspection{Interfaces: eth, Refused: []string{"a:1"}}, true, "got no answer"},
		{"nothing to be seen", "", guest.PodInspection{Interfaces: eth}, guest.PodInspection{Interfaces: eth}, false, "cannot tell"},
		{"no policy", "may not make", guest.PodInspection{Interfaces: eth}, guest.PodInspection{Interfaces: eth, Reached: []string{"a:1"}}, false, "may not make"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			enforced, text := enforcement(tt.lack, tt.closed, tt.open)
			if enforced != tt.enforced || !strings.Contains(text, tt.text) {
				t.Errorf("got %v, %s", enforced, text)
			}
			if _, held := findingsOf(tt.lack, tt.closed, tt.open).holds[sandbox.LimitNetwork]; held != enforced {
				t.Errorf("without a filter, the network is reported as closed: %v", held)
			}
			tt.closed.Offline = true
			if _, held := findingsOf(tt.lack, tt.closed, tt.open).holds[sandbox.LimitNetwork]; !held {
				t.Error("the filter closes the network, but it is not reported as closed")
			}
		})
	}
}

func TestALimitOfProcessesBelowTheNodesIsRefused(t *testing.T) {
	t.Parallel()
	node := findingsOf("", guest.PodInspection{Processes: 100}, guest.PodInspection{})
	unlimited := findingsOf("", guest.PodInspection{}, guest.PodInspection{})
	for _, tt := range []struct {
		findings *findings
		spec     sandbox.Spec
		want     toolroom.Code
	}{
		{node, sandbox.Spec{}, ""},
		{node, sandbox.Spec{Limits: sandbox.Limits{PIDs: 100}}, ""},
		{node, sandbox.Spec{Limits: sandbox.Limits{PIDs: 99}}, toolroom.CodeLimitNotEnforceable},
		{node, sandbox.Spec{Limits: sandbox.Limits{PIDs: 99}, BestEffort: true}, ""},
		{unlimited, sandbox.Spec{Limits: sandbox.Limits{PIDs: 2000}}, toolroom.CodeLimitNotEnforceable},
		{nil, sandbox.Spec{Limits: sandbox.Limits{PIDs: 2000}}, toolroom.CodeLimitNotEnforceable},
	} {
		err := tt.findings.check(tt.spec)
		if (err == nil) != (tt.want == "") || err != nil && toolroom.CodeOf(err) != tt.want {
			t.Errorf("%+v: got %v", tt.spec, err)
		}
		if _, held := tt.findings.held(tt.spec)[sandbox.LimitPIDs]; held && tt.spec.BestEffort {
			t.Error("best effort reports a limit as held that is not")
		}
	}
}

func TestLabelsContainOnlyAllowedCharacters(t *testing.T) {
	t.Parallel()
	labels := labelsFor("run/1 ü:"+strings.Repeat("x", 80), "toolroom-a")
	if got, want := labels["toolroom.run"], "run-1-"+strings.Repeat("x", 57); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff("toolroom-a", labels[instanceLabel]); diff != "" {
		t.Error(diff)
	}
}

// kubeconfig writes a kubeconfig for a server and returns its path.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
users: [{name: c, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnAPIServerThatCannotBeReachedIsExplained(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); hangs.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) }))
	t.Cleanup(busy.Close)
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }))
	t.Cleanup(login.Close)
	for _, tt := range []struct {
		name, server, want string
		state              sandbox.State
	}{
		{"it hangs", hangs.URL, "does not answer", sandbox.Inconclusive},
		{"it is off", "http://" + closed.Addr().String(), "nothing listens", sandbox.Inconclusive},
		{"it is overloaded", busy.URL, "overloaded", sandbox.Inconclusive},
		{"it does not know us", login.URL, "log in to the cluster", sandbox.Unsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, done := context.WithTimeout(t.Context(), time.Second)
			defer done()
			d := New(Options{Kubeconfig: kubeconfig(t, tt.server), Namespace: "n"})
			p := d.Probe(ctx)
			if p.State != tt.state || !strings.Contains(p.Reason+p.Fix, tt.want) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
			starting, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err := d.Start(starting, sandbox.Spec{})
			e := toolroom.AsError(err)
			if e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message+e.Hints(), tt.want) || e.Hints() == "" || e.Retryable != (tt.state == sandbox.Inconclusive) {
				t.Errorf("the start said %+v", e)
			}
		})
	}
}
