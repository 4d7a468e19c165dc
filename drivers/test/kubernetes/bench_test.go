//go:build integration

package kubernetes

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/sandbox"
)

// BenchmarkColdStart measures the time from the start of a guest to its hello and, for
// comparison, from the creation of a Pod of the same image until it runs. ns/op includes the
// removal.
func BenchmarkColdStart(b *testing.B) {
	b.Run("driver", func(b *testing.B) {
		d := kubernetes.New(namespace(b))
		if p := d.Probe(b.Context()); p.State != sandbox.Available {
			b.Fatalf("%+v", p)
		}
		var starts []time.Duration
		for b.Loop() {
			begun := time.Now()
			instance, err := d.Start(b.Context(), sandbox.Spec{Guest: node.guest, Limits: sandbox.Limits{Memory: 256 << 20}})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
				b.Fatal(err)
			}
			starts = append(starts, time.Since(begun))
			if err := instance.Kill(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		report(b, starts)
	})
	b.Run("bare", func(b *testing.B) {
		pods := node.client.CoreV1().Pods("default")
		var starts []time.Duration
		for b.Loop() {
			begun := time.Now()
			p, err := pods.Create(b.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bare-%d", begun.UnixNano())},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{
					Name: "c", Image: image.Name, ImagePullPolicy: corev1.PullNever, Command: []string{image.GuestPath, "pod"},
				}}},
			}, metav1.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for p.Status.Phase != corev1.PodRunning {
				time.Sleep(5 * time.Millisecond)
				if p, err = pods.Get(b.Context(), p.Name, metav1.GetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			starts = append(starts, time.Since(begun))
			if err := pods.Delete(b.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			for err == nil {
				time.Sleep(5 * time.Millisecond)
				_, err = pods.Get(b.Context(), p.Name, metav1.GetOptions{})
			}
			if !apierrors.IsNotFound(err) {
				b.Fatal(err)
			}
		}
		report(b, starts)
	})
}

func report(b *testing.B, starts []time.Duration) {
	slices.Sort(starts)
	b.ReportMetric(float64(starts[0].Milliseconds()), "min-start-ms")
	b.ReportMetric(float64(starts[len(starts)/2].Milliseconds()), "p50-start-ms")
}
