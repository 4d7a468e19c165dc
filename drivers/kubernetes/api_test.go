package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// answering returns an API whose server gives the same answer to all requests, and a
// pointer to the last request that the server received.
func answering(t *testing.T, status int, answer string) (*api, *string) {
	var last string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL, body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	a, err := newAPI(&rest.Config{Host: server.URL, QPS: 100, Burst: 200}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	return a, &last
}

func TestRequestsNameTheirGroupNamespaceAndObject(t *testing.T) {
	t.Parallel()
	ours := metav1.ListOptions{LabelSelector: "a=b"}
	named := metav1.ObjectMeta{Name: "n"}
	for _, tt := range []struct {
		want string
		do   func(context.Context, *api) error
	}{
		{`POST /api/v1/namespaces/ns/pods {"kind":"Pod","apiVersion":"v1","metadata":{"name":"n"},"spec":{"containers":null},"status":{}}`, func(ctx context.Context, a *api) error {
			return a.pods.create(ctx, &corev1.Pod{ObjectMeta: named}, &corev1.Pod{})
		}},
		{`GET /api/v1/namespaces/ns/pods?labelSelector=a%3Db`, func(ctx context.Context, a *api) error {
			return a.pods.list(ctx, ours, &corev1.PodList{})
		}},
		{`GET /api/v1/namespaces/ns/pods?labelSelector=a%3Db&watch=true`, func(ctx context.Context, a *api) error {
			w, err := a.pods.watch(ctx, ours)
			if err == nil {
				w.Stop()
			}
			return err
		}},
		{`DELETE /api/v1/namespaces/ns/pods/n {"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":1,"propagationPolicy":"Foreground"}`, func(ctx context.Context, a *api) error {
			return a.pods.delete(ctx, "n")
		}},
		{`GET /api/v1/namespaces/ns/pods/n/log?container=c&limitBytes=9`, func(ctx context.Context, a *api) error {
			_, err := a.pods.part("GET", "n", "log", &corev1.PodLogOptions{Container: "c", LimitBytes: new(int64(9))}).DoRaw(ctx)
			return err
		}},
		{`POST /api/v1/namespaces/ns/pods/n/exec?command=a&command=b&container=c&stdin=true&stdout=true`, func(ctx context.Context, a *api) error {
			_, err := a.pods.part("POST", "n", "exec", &corev1.PodExecOptions{Container: "c", Command: []string{"a", "b"}, Stdin: true, Stdout: true}).DoRaw(ctx)
			return err
		}},
		{`GET /api/v1/namespaces/ns/events?fieldSelector=type%3DWarning`, func(ctx context.Context, a *api) error {
			return a.events.list(ctx, metav1.ListOptions{FieldSelector: "type=Warning"}, &corev1.EventList{})
		}},
		{`GET /apis/batch/v1/namespaces/ns/jobs/n`, func(ctx context.Context, a *api) error {
			return a.jobs.get(ctx, "n", &batchv1.Job{})
		}},
		{`DELETE /apis/batch/v1/namespaces/ns/jobs/n {"kind":"DeleteOptions","apiVersion":"batch/v1","gracePeriodSeconds":1,"propagationPolicy":"Foreground"}`, func(ctx context.Context, a *api) error {
			return a.jobs.delete(ctx, "n")
		}},
		{`POST /apis/networking.k8s.io/v1/namespaces/ns/networkpolicies {"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1","metadata":{"name":"n"},"spec":{"podSelector":{}}}`, func(ctx context.Context, a *api) error {
			return a.policies.create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: named}, &networkingv1.NetworkPolicy{})
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			a, last := answering(t, http.StatusOK, "{}")
			if err := tt.do(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *last); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAWatchReportsItsOwnPod(t *testing.T) {
	t.Parallel()
	a, _ := answering(t, http.StatusOK, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a-stranger","labels":{"toolroom.box":"one"}},"status":{"phase":"Running"}}}
{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"one"},"status":{"phase":"Running"}}}
{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"one"}}}
`)
	w, err := a.pods.watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var seen []string
	(&instance{id: "one"}).drain(w, func(p *corev1.Pod) bool {
		if p == nil {
			seen = append(seen, "gone")
			return true
		}
		seen = append(seen, p.Name+" "+string(p.Status.Phase))
		return false
	})
	if diff := cmp.Diff([]string{"one Running", "gone"}, seen); diff != "" {
		t.Error(diff)
	}
}

// Whoever may make Pods in the namespace may give one the label of another, and would get
// the program and its calls.
func TestAPodWithTheLabelOfAnotherIsNotItsGuest(t *testing.T) {
	t.Parallel()
	a, _ := answering(t, http.StatusOK, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a-stranger","labels":{"toolroom.box":"one"}}},{"metadata":{"name":"one"}},{"metadata":{"name":"z-stranger"}}]}`)
	b := &instance{id: "one", cluster: &cluster{api: a}}
	var seen []string
	if err := b.follow(t.Context(), func(p *corev1.Pod) bool { seen = append(seen, p.Name); return true }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one"}, seen); diff != "" {
		t.Error(diff)
	}
	of := func(kind string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one", OwnerReferences: []metav1.OwnerReference{{Kind: kind, UID: uid, Controller: new(true)}}}}
	}
	j := &instance{id: "one", job: true, jobUID: "u"}
	for _, tt := range []struct {
		p    *corev1.Pod
		want bool
	}{
		{of("Job", "u"), true}, {of("Job", "other"), false}, {of("ReplicaSet", "u"), false}, {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, false},
	} {
		if got := j.owns(tt.p); got != tt.want {
			t.Errorf("%+v: %v", tt.p.ObjectMeta, got)
		}
	}
}

// A stranger can name the Job as the owner of a Pod, but the Job has made another one.
func TestTheProgramGoesToNoneOfTwoPodsOfAJob(t *testing.T) {
	t.Parallel()
	const pod = `{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"one","uid":"u","controller":true}]},"status":{"containerStatuses":[{"name":"guest","state":{%s}}]}}`
	list := func(pods ...string) string {
		return `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(pods, ",") + `]}`
	}
	waiting, stranger := fmt.Sprintf(pod, "one-abcde", `"waiting":{"reason":"ContainerCreating"}`), fmt.Sprintf(pod, "one-zzzzz", `"running":{}`)
	running := fmt.Sprintf(pod, "one-abcde", `"running":{}`)
	for _, tt := range []struct{ answer, pod, err string }{
		{list(waiting, stranger), "", "both the Pod one-abcde and the Pod one-zzzzz say that they are the one of the Job one"},
		{list(running), "one-abcde", ""},
	} {
		a, _ := answering(t, http.StatusOK, tt.answer)
		b := &instance{id: "one", job: true, jobUID: "u", cluster: &cluster{api: a, namespace: "ns"}}
		err := b.awaitRunning(t.Context())
		if tt.err == "" && (err != nil || b.pod != tt.pod) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("the Pod %s: %v", b.pod, err)
		}
	}
}

func TestARefusalKeepsItsReason(t *testing.T) {
	t.Parallel()
	a, _ := answering(t, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: exceeded quota","reason":"Forbidden","code":403}`)
	err := a.pods.create(t.Context(), &corev1.Pod{}, &corev1.Pod{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("got %v, want the server's message", err)
	}
}
