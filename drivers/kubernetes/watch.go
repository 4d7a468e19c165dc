package kubernetes

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// rewatchPause is the pause before a watch that has ended is started again.
const rewatchPause = 200 * time.Millisecond

// follow calls done with each state of the Pod, nil if there is none, until done
// returns true. Several Pods may claim to be the Pod of a Job.
func (b *instance) follow(ctx context.Context, done func(*corev1.Pod) bool) error {
	selector := metav1.ListOptions{LabelSelector: instanceLabel + "=" + b.id}
	for {
		var list corev1.PodList
		err := withCallTimeout(ctx, func(ctx context.Context) error { return b.cluster.pods.list(ctx, selector, &list) })
		if err != nil {
			return err
		}
		any := false
		for i := range list.Items {
			if !b.owns(&list.Items[i]) {
				continue
			}
			if any = true; done(&list.Items[i]) {
				return nil
			}
		}
		if !any && done(nil) {
			return nil
		}
		from := selector
		from.ResourceVersion = list.ResourceVersion
		w, err := b.cluster.pods.watch(ctx, from)
		if err != nil {
			return err
		}
		enough := b.drain(w, done)
		w.Stop()
		if enough {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rewatchPause):
		}
	}
}

// owns reports whether a Pod is that of b. A label proves nothing: whoever may make Pods in
// the namespace may set it, and the program and its calls would go to that Pod. An owner
// reference proves little more, see [instance.awaitRunning].
func (b *instance) owns(p *corev1.Pod) bool {
	if !b.job {
		return p.Name == b.id
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "Job" && owner.UID == b.jobUID
}

// drain calls done with each event of w, until done returns true or the watch ends.
func (b *instance) drain(w watch.Interface, done func(*corev1.Pod) bool) bool {
	for event := range w.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			return false
		}
		if !b.owns(p) {
			continue
		}
		if event.Type == watch.Deleted {
			p = nil
		}
		if done(p) {
			return true
		}
	}
	return false
}

// exec runs a command in the container of a Pod until it ends. An exit code other than
// zero is an exec.CodeExitError.
func (c *cluster) exec(ctx context.Context, pod string, command []string, in io.Reader, out, errs io.Writer) error {
	url := c.pods.part("POST", pod, "exec", &corev1.PodExecOptions{
		Container: container, Command: command, Stdin: in != nil, Stdout: true, Stderr: true,
	}).URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
	if err != nil {
		return err
	}
	older, err := remotecommand.NewSPDYExecutor(c.config, "POST", url) // before Kubernetes 1.31
	if err != nil {
		return err
	}
	e, err := remotecommand.NewFallbackExecutor(socket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	// By default the package logs the end of each connection to stderr.
	err = e.StreamWithContext(klog.NewContext(ctx, logr.Discard()), remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errs})
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}
