package kubernetes

import (
	"context"
	"errors"
	"io"
	"maps"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/exec"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// instance is one Pod.
type instance struct {
	cluster   *cluster
	id        string
	job       bool // a Job of that name makes the Pod
	jobUID    types.UID
	pod       string // the Pod's name, once it runs
	isolation string
	held      map[sandbox.Limit]string

	in     *io.PipeWriter
	out    *io.PipeReader
	stderr proc.Tail
	stop   context.CancelFunc
	ended  chan struct{}
	exit   sandbox.Exit
	err    error
}

// jobTTL is the number of seconds that the cluster keeps a Job that has ended.
const jobTTL = 60

// create makes the Pod, or a Job that makes it.
func (b *instance) create(ctx context.Context, p *corev1.Pod) error {
	return withCallTimeout(ctx, func(ctx context.Context) error {
		if !b.job {
			return b.cluster.pods.create(ctx, p, &corev1.Pod{})
		}
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: b.id, Labels: p.Labels}, Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: new(int32(jobTTL)), ActiveDeadlineSeconds: p.Spec.ActiveDeadlineSeconds,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
		}}
		var made batchv1.Job
		err := b.cluster.jobs.create(ctx, j, &made)
		b.jobUID = made.UID
		return err
	})
}

// open starts the guest in the running Pod.
func (b *instance) open(command []string) {
	fromUs, in := io.Pipe()
	out, toUs := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	b.in, b.out, b.stop, b.ended = in, out, stop, make(chan struct{})
	go func() {
		defer close(b.ended)
		err := b.cluster.exec(ctx, b.pod, command, fromUs, toUs, &b.stderr)
		b.exit, b.err = b.outcome(ctx, err)
		fromUs.CloseWithError(io.ErrClosedPipe)
		toUs.CloseWithError(b.err) // nil is the end of the stream
	}()
}

func (b *instance) Stream() io.ReadWriteCloser {
	return proc.Stream{ReadCloser: b.out, WriteCloser: b.in}
}

// outcome determines how the guest ended from the error of its streams. A guest is
// often killed by something that happened to its Pod.
func (b *instance) outcome(ctx context.Context, err error) (sandbox.Exit, error) {
	exit := sandbox.Exit{Stderr: b.stderr.String()}
	var code exec.CodeExitError
	switch {
	case err == nil || ctx.Err() != nil:
		return exit, nil
	case errors.As(err, &code):
		exit.Code = code.Code
		if code.Code > 128 && code.Code < 128+65 {
			exit.Signal = syscall.Signal(code.Code - 128).String()
		}
		if code.Code != 128+int(syscall.SIGKILL) {
			return exit, nil
		}
		err = nil
	}
	p, gone := b.examine(ctx)
	if gone != nil {
		return exit, gone
	}
	if exit.OOM = outOfMemory(p); exit.OOM || err == nil {
		return exit, nil
	}
	return exit, retryable(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the connection to the Pod %s broke: %w", b.pod, err).
		WithHint("run the program again; if it breaks each time, a proxy before the API server ends connections"))
}

// examineTimeout bounds the time in which the kubelet must report the end of a Pod.
const examineTimeout = 3 * time.Second

// examine returns the state of the Pod whose guest broke off. The error is non-nil if
// the Pod itself is gone, and says why.
func (b *instance) examine(ctx context.Context) (*corev1.Pod, error) {
	ctx, done := context.WithTimeout(ctx, examineTimeout)
	defer done()
	var last *corev1.Pod
	var why error
	err := b.follow(ctx, func(p *corev1.Pod) bool {
		if p == nil {
			why = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the Pod %s was deleted while its program ran", b.pod).
				WithHint("something else deleted it: kubectl -n %s get events and the cluster's audit log show what", b.cluster.namespace)
			return true
		}
		if p.Name != b.pod {
			return false
		}
		last = p
		if why = evictionError(p); why == nil && p.DeletionTimestamp != nil {
			return false // it is being deleted
		}
		return why != nil || hasEnded(p)
	})
	if err != nil && ctx.Err() == nil {
		return last, b.cluster.explain(ctx, err)
	}
	return last, why
}

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.ended:
		return b.exit, b.err
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

// Kill deletes the Pod and waits until its node has released it.
func (b *instance) Kill(ctx context.Context) error {
	if b.stop != nil {
		b.stop()
		b.in.Close()
		b.out.Close()
	}
	if err := b.delete(ctx); ignoreNotFound(err) != nil {
		return b.cluster.explain(ctx, err)
	}
	err := b.follow(ctx, func(p *corev1.Pod) bool { return p == nil })
	if err == nil && b.job {
		err = b.awaitNoJob(ctx)
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the Pod of %s is still being deleted: %w", b.id, err).
			WithHint("its node may be lost: kubectl get nodes")
	}
	return nil
}

// awaitNoJob waits for the garbage collector, which removes a Job after its Pod.
func (b *instance) awaitNoJob(ctx context.Context) error {
	for {
		err := withCallTimeout(ctx, func(ctx context.Context) error {
			return b.cluster.jobs.get(ctx, b.id, &batchv1.Job{})
		})
		if err != nil {
			return ignoreNotFound(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rewatchPause):
		}
	}
}

func (b *instance) delete(ctx context.Context) error {
	return withCallTimeout(ctx, func(ctx context.Context) error {
		if b.job {
			return b.cluster.jobs.delete(ctx, b.id)
		}
		return b.cluster.pods.delete(ctx, b.id)
	})
}

// Usage returns the zero value: measuring needs a metrics server, which is minutes
// behind.
func (b *instance) Usage() sandbox.Usage { return sandbox.Usage{} }

func (b *instance) Isolation() string { return b.isolation }

func (b *instance) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
