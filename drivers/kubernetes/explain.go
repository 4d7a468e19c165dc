package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/toolroom/toolroom"
)

// awaitRunning waits until the guest's container runs. The error says why it does not
// run.
func (b *instance) awaitRunning(ctx context.Context) error {
	var last *corev1.Pod
	var why error
	err := b.follow(ctx, func(p *corev1.Pod) bool {
		if p == nil {
			if last != nil {
				why = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s was deleted before it ran", describe(last)).
					WithHint("something else deleted it: kubectl -n %s get events", b.cluster.namespace)
			}
			return last != nil
		}
		if last != nil && p.Name != last.Name {
			// A Job here makes one Pod. Whoever may make Pods in the namespace can name the Job as
			// the owner of another, which would get the program and its calls.
			why = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: both the Pod %s and the Pod %s say that they are the one of the Job %s", last.Name, p.Name, b.id).
				WithHint("find out who makes Pods in the namespace %s, which is for programs only; without code.runtimes.kubernetes.job a Pod is known by its name", b.cluster.namespace)
			return true
		}
		last, b.pod = p, p.Name
		why = startError(p)
		return why != nil || isRunning(p)
	})
	switch {
	case why != nil:
		return b.withLog(ctx, last, why)
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return b.cluster.explain(ctx, err)
	}
	asking, done := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer done()
	return pendingError(last, b.cluster.warnings(asking, b.id, b.pod))
}

func isRunning(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Running != nil
	})
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func outOfMemory(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "OOMKilled"
	})
}

// evictionError returns why the cluster removed the Pod from its node, or nil.
func evictionError(p *corev1.Pod) error {
	e := func(what string) *toolroom.Error {
		return retryable(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s was %s: %s", describe(p), what, cmp.Or(p.Status.Message, "no reason is given")))
	}
	switch p.Status.Reason {
	case "Evicted":
		return e("evicted").WithHint("the node ran short of a resource, or the program used more disk space than it may: request less, or give the node more")
	case "Preempting", "Preempted":
		return e("preempted").WithHint("Pods with a higher priority replaced it: run it again, or add nodes")
	case "NodeLost", "NodeShutdown", "Shutdown", "Terminated":
		return e("lost with its node").WithHint("run it again; kubectl get nodes shows the state of the nodes")
	case "DeadlineExceeded":
		return e("ended at its deadline").WithHint("request a longer wall time")
	}
	return nil
}

// startError returns why a Pod will never run, or nil if it still may.
func startError(p *corev1.Pod) error {
	if err := evictionError(p); err != nil {
		return err
	}
	unavailable := func(format string, args ...any) *toolroom.Error {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s: %s", describe(p), fmt.Sprintf(format, args...))
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && (s.Name == container || t.ExitCode != 0) {
			text := fmt.Sprintf("the container %s ended with code %d (%s)", s.Name, t.ExitCode, t.Reason)
			switch {
			case t.Reason == "OOMKilled":
				return unavailable("%s", text).WithHint("request more memory")
			case t.Message != "":
				text += ": " + t.Message
			}
			if s.Name != container || strings.Contains(t.Message, "executable file not found") || strings.Contains(t.Message, "no such file") {
				return unavailable("%s", text).WithCLIHint("the image may lack the guest: `toolroom image build` makes an image with it; for another image set code.runtimes.kubernetes.guest_image")
			}
			return unavailable("%s", text).WithHint("the image may be for another processor, or its guest of another version: rebuild it")
		}
		waiting := s.State.Waiting
		if waiting == nil {
			continue
		}
		text := strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
		switch waiting.Reason {
		case "ErrImageNeverPull":
			return unavailable("the node does not have the image %s", s.Image).
				WithCLIHint("import it there (`toolroom image build --output image.tar`, then ctr -n k8s.io images import image.tar), or push it to a registry and set code.runtimes.kubernetes.pull to missing")
		case "ImagePullBackOff", "InvalidImageName", "ImageInspectError":
			return unavailable("%s", text).WithHint("check the name of the image, and whether the node can reach its registry")
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return unavailable("%s", text).WithHint("kubectl describe pod, while another run starts, shows the details")
		}
	}
	if hasEnded(p) {
		return unavailable("it ended before the guest ran: %s", cmp.Or(strings.TrimSpace(p.Status.Reason+" "+p.Status.Message), string(p.Status.Phase)))
	}
	return nil
}

// pendingError returns why a Pod did not run in time. p is nil if there was none.
func pendingError(p *corev1.Pod, events string) error {
	if events != "" {
		events = "; events: " + events
	}
	if p == nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the Job made no Pod in time%s", events).
			WithHint("check that the controller manager runs and that the quota of the namespace allows Pods")
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return retryable(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s is unschedulable: %s", describe(p), c.Message).
				WithHint("request less memory, add nodes, or check code.runtimes.kubernetes.node_selector"))
		}
	}
	if p.Spec.NodeName == "" {
		return retryable(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s was not assigned to a node%s", describe(p), events).
			WithHint("check that the scheduler runs"))
	}
	return retryable(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %s did not run in time%s", describe(p), events).
		WithHint("if the node needs longer, set code.runtimes.kubernetes.start_timeout"))
}

// warnings returns the last warning events about the named objects, newest first.
func (c *cluster) warnings(ctx context.Context, names ...string) string {
	var texts []string
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		var list corev1.EventList
		if err := c.events.list(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",type=Warning"}, &list); err != nil {
			continue // report the rest without them
		}
		for _, e := range slices.Backward(list.Items) {
			if text := e.Reason + ": " + e.Message; !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts[:min(len(texts), 3)], "; ")
}

// logLines is the number of lines of a container's log in an error.
const logLines = 20

// withLog adds the end of a container's log to an error, because the Pod and its log
// are deleted.
func (b *instance) withLog(ctx context.Context, p *corev1.Pod, why error) error {
	if p == nil || !hasEnded(p) {
		return why
	}
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	for _, name := range []string{container, "toolroom"} {
		log, err := b.cluster.pods.part("GET", p.Name, "log", &corev1.PodLogOptions{Container: name, TailLines: new(int64(logLines)), LimitBytes: new(int64(4096))}).Stream(ctx)
		if err != nil {
			continue // the container never ran
		}
		text, _ := io.ReadAll(log)
		log.Close()
		if text = bytes.TrimSpace(text); len(text) > 0 {
			known := toolroom.AsError(why)
			e := toolroom.Errorf(known.Code, "%s; its log ends with: %s", known.Message, text)
			return e.WithHint("%s", known.Hint).WithCLIHint("%s", known.CLIHint)
		}
	}
	return why
}

// explain describes why the API server refused, or did not answer.
func (c *cluster) explain(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*toolroom.Error](err); ok {
		return known
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: %w", err)
	text := err.Error()
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	var unknownAuthority x509.UnknownAuthorityError
	var noHost *net.DNSError
	switch {
	case strings.Contains(text, "exceeded quota"):
		return retryable(e.WithHint("the quota of the namespace %s is used up: wait for other programs, request less, or raise it", c.namespace))
	case strings.Contains(text, "violates PodSecurity"):
		return e.WithHint("the namespace %s requires more than the profile provides: use the profile standard, or change the namespace's labels", c.namespace)
	case strings.Contains(text, "RuntimeClass") && strings.Contains(text, "not found"):
		return e.WithHint("kubectl get runtimeclasses lists the RuntimeClasses of the cluster; set code.runtimes.kubernetes.runtime_class to one")
	case strings.Contains(text, "namespaces") && strings.Contains(text, "not found"):
		return e.WithHint("kubectl create namespace %s, and set it up as docs/kubernetes.md shows", c.namespace)
	case apierrors.IsForbidden(err):
		return e.WithHint("give this account the Role of docs/kubernetes.md in the namespace %s", c.namespace)
	case apierrors.IsUnauthorized(err):
		return e.WithHint("the credentials of the kubeconfig are wrong or expired: log in to the cluster again")
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return retryable(e.WithHint("the API server at %s is overloaded or starting: try again", c.config.Host))
	case answered:
		return e.WithCLIHint("toolroom doctor shows the state of the cluster")
	case errors.As(err, &unknownAuthority):
		return e.WithHint("the kubeconfig has the certificate of another cluster: fetch it again")
	case utilnet.IsConnectionRefused(err), errors.As(err, &noHost):
		e = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: nothing listens at %s: %w", c.config.Host, err)
		return retryable(e.WithHint("start the cluster, or correct code.runtimes.kubernetes.kubeconfig and context"))
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), utilnet.IsTimeout(err):
		e = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the API server at %s does not answer: %w", c.config.Host, err)
		return retryable(e.WithHint("check that the cluster is up, and that no VPN or proxy is in the way: kubectl cluster-info"))
	}
	return e.WithCLIHint("toolroom doctor shows the state of the cluster")
}

func retryable(e *toolroom.Error) *toolroom.Error {
	e.Retryable = true
	return e
}
