package kubernetes

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Clean removes the Pods and Jobs of processes that have died, and expired ones of any
// process: see [sandbox.Cleaner].
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	if d.o.Namespace == "" {
		return nil, nil // no namespace is configured
	}
	c, err := d.dial()
	if err != nil {
		return nil, err
	}
	left, err := c.clean(ctx, dry)
	if err != nil {
		return left, c.explain(ctx, err)
	}
	return left, nil
}

// endedAge is the age at which any process may remove a Pod that has ended: its owner
// would have removed it earlier.
const endedAge = time.Hour

func (c *cluster) clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	ours := metav1.ListOptions{LabelSelector: proc.LabelOwner}
	var jobs batchv1.JobList
	if err := c.jobs.list(ctx, ours, &jobs); err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, j := range jobs.Items {
		if proc.Abandoned(j.Labels) {
			left = append(left, sandbox.Leftover{Kind: "job", Name: j.Name}.Remove(dry, func() error {
				return ignoreNotFound(c.jobs.delete(ctx, j.Name))
			}))
		}
	}
	var pods corev1.PodList
	if err := c.pods.list(ctx, ours, &pods); err != nil {
		return left, err
	}
	for _, p := range pods.Items {
		if proc.Abandoned(p.Labels) || hasEnded(&p) && time.Since(p.CreationTimestamp.Time) > endedAge {
			left = append(left, sandbox.Leftover{Kind: "pod", Name: p.Name}.Remove(dry, func() error {
				return ignoreNotFound(c.pods.delete(ctx, p.Name))
			}))
		}
	}
	return left, nil
}
