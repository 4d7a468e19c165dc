package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// findings are the limits that Pods of this cluster enforce.
type findings struct {
	holds, lacks map[sandbox.Limit]string
	processes    int // the maximum number of processes of a Pod, zero if unknown
	languages    []string
}

// Probe asks the API server for its version, and inspects the cluster from inside two
// Pods: one without a network, and one with.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	c, err := d.connect(ctx)
	if err != nil {
		return refusal(err)
	}
	var v version.Info
	err = withCallTimeout(ctx, func(ctx context.Context) error {
		text, err := c.pods.client.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &v)
	})
	if err != nil {
		return refusal(c.explain(ctx, err))
	}
	f, err := d.inspect(ctx, c)
	if err != nil {
		p := refusal(err)
		p.Version = v.GitVersion
		return p
	}
	c.findings.Store(f)
	return sandbox.Probe{
		State: sandbox.Available, Version: v.GitVersion, Isolation: d.isolation(""), Images: true, Runtimes: map[string]string{},
		Holds: maps.Clone(f.holds), Lacks: maps.Clone(f.lacks), Languages: f.languages,
	}
}

func refusal(err error) sandbox.Probe {
	e := toolroom.AsError(err)
	p := sandbox.Probe{State: sandbox.Unsupported, Reason: strings.TrimPrefix(e.Message, "kubernetes: "), Fix: e.Hints()}
	if e.Retryable {
		p.State = sandbox.Inconclusive
	}
	return p
}

// inspect runs both Pods concurrently.
func (d *Driver) inspect(ctx context.Context, c *cluster) (*findings, error) {
	type answer struct {
		inspection guest.PodInspection
		err        error
	}
	answers := make(chan answer)
	go func() {
		f, err := d.inspectFrom(ctx, c, true)
		answers <- answer{f, err}
	}()
	closed, err := d.inspectFrom(ctx, c, false)
	open := <-answers
	if err := errors.Join(err, open.err); err != nil {
		return nil, err
	}
	return findingsOf(c.policyLack, closed, open.inspection), nil
}

// inspectTimeout bounds an inspection, and is the wall time of its Pod.
const inspectTimeout = 30 * time.Second

// inspectFrom inspects a Pod with a network (open), or a Pod like those of programs.
func (d *Driver) inspectFrom(ctx context.Context, c *cluster, open bool) (_ guest.PodInspection, err error) {
	b := &instance{cluster: c, id: newID(), job: d.o.Job}
	p := podFor(sandbox.Spec{Run: "probe", Profile: sandbox.Standard, Limits: sandbox.Limits{Wall: inspectTimeout, Memory: 128 << 20}}, d.o, b.id)
	if open {
		delete(p.Labels, networkLabel)
	}
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
		Name:      guest.PodNodeEnv,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}},
	})
	if err := d.run(ctx, b, p); err != nil {
		return guest.PodInspection{}, err
	}
	defer func() { // the Pod has reported everything, so do not wait for its end
		err = errors.Join(err, ignoreNotFound(b.delete(context.WithoutCancel(ctx))))
	}()
	ctx, done := context.WithTimeout(ctx, inspectTimeout)
	defer done()
	var out, errs bytes.Buffer
	if err := c.exec(ctx, b.pod, []string{guestPath(d.o), guest.PodInspectArg}, nil, &out, &errs); err != nil {
		return guest.PodInspection{}, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: inspect the cluster from a Pod: %w: %s", err, bytes.TrimSpace(errs.Bytes())).
			WithHint("the guest in the image may belong to an older Toolroom: rebuild the image")
	}
	var f guest.PodInspection
	return f, json.Unmarshal(out.Bytes(), &f)
}

// findingsOf derives the limits from both inspections.
func findingsOf(policyLack string, closed, open guest.PodInspection) *findings {
	cgroup := "cgroup " + closed.Cgroup
	f := &findings{languages: closed.Languages, lacks: map[sandbox.Limit]string{}, holds: map[sandbox.Limit]string{
		sandbox.LimitWall:   "deletion of the Pod",
		sandbox.LimitCPU:    cgroup + " quota, RLIMIT_CPU of each process",
		sandbox.LimitMemory: cgroup,
		sandbox.LimitDisk:   "size of the tmpfs",
	}}
	if n := closed.Processes; n > 0 {
		f.processes = n
		f.holds[sandbox.LimitPIDs] = fmt.Sprintf("%s, %d processes of a Pod by its kubelet", cgroup, n)
	} else {
		f.lacks[sandbox.LimitPIDs] = fmt.Sprintf("a Pod cannot limit its processes, and its kubelet allows %d or more: set podPidsLimit there", guest.MostPodProcesses)
	}
	enforced, text := enforcement(policyLack, closed, open)
	switch {
	case closed.Offline:
		f.holds[sandbox.LimitNetwork] = "seccomp: no internet sockets; " + text
	case enforced:
		f.holds[sandbox.LimitNetwork] = text
	default:
		f.lacks[sandbox.LimitNetwork] = text + ", and the guest cannot install its filter"
	}
	return f
}

// enforcement reports whether the cluster's network enforces network policies, as far
// as the inspections have shown.
func enforcement(policyLack string, closed, open guest.PodInspection) (bool, string) {
	switch {
	case len(closed.Interfaces) == 0 && len(open.Interfaces) == 0:
		return true, "Pods have no network"
	case policyLack != "":
		return false, policyLack
	case len(closed.Reached) > 0:
		return false, "the cluster does not enforce NetworkPolicy: a closed Pod reached " + closed.Reached[0]
	case len(open.Reached) > 0:
		return true, "NetworkPolicy: a closed Pod did not reach what an open one did"
	case len(closed.Refused) > 0:
		return false, "the cluster does not enforce NetworkPolicy: a closed Pod got an answer from " + closed.Refused[0]
	case len(open.Refused) > 0:
		return true, "NetworkPolicy: a closed Pod got no answer where an open one did"
	}
	return false, "cannot tell whether the cluster enforces NetworkPolicy: an open Pod reached nothing either"
}

// check rejects a limit of processes below the limit that the kubelet enforces.
func (f *findings) check(s sandbox.Spec) error {
	if s.Limits.PIDs == 0 || s.BestEffort || f.holdsPIDs(s) {
		return nil
	}
	known := 0
	if f != nil {
		known = f.processes
	}
	return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "a Pod cannot limit its processes to %d: its kubelet enforces %d (0 means unknown)", s.Limits.PIDs, known).
		WithHint("remove the limit, set podPidsLimit of the kubelet, or accept best effort")
}

func (f *findings) holdsPIDs(s sandbox.Spec) bool {
	return f != nil && f.processes > 0 && s.Limits.PIDs >= f.processes
}

// held returns the limits that are enforced for a Pod of s.
func (f *findings) held(s sandbox.Spec) map[sandbox.Limit]string {
	if f == nil {
		return nil
	}
	held := maps.Clone(f.holds)
	if s.Limits.PIDs > 0 && !f.holdsPIDs(s) {
		delete(held, sandbox.LimitPIDs)
	}
	if s.Profile == sandbox.Dev {
		delete(held, sandbox.LimitNetwork)
		held[sandbox.LimitDisk] = "size of the tmpfs; the root by eviction, if a limit is asked for"
	}
	return held
}
