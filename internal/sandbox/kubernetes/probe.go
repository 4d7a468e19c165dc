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
	"github.com/toolroom/toolroom/internal/guest/pod"
	"github.com/toolroom/toolroom/sandbox"
)

// facts are what Pods of this cluster hold.
type facts struct {
	holds, lacks map[sandbox.Limit]string
	processes    int // how many a Pod can have, zero if not known
	languages    []string
}

// Probe asks the API server what it is, and looks at the cluster from inside two
// Pods: one without a network, and one with.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	c, err := d.connect(ctx)
	if err != nil {
		return refusal(err)
	}
	var v version.Info
	err = called(ctx, func(ctx context.Context) error {
		text, err := c.pods.client.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &v)
	})
	if err != nil {
		return refusal(c.explain(ctx, err))
	}
	f, err := d.look(ctx, c)
	if err != nil {
		p := refusal(err)
		p.Version = v.GitVersion
		return p
	}
	d.mu.Lock()
	c.facts = f
	d.mu.Unlock()
	return sandbox.Probe{
		State: sandbox.Available, Version: v.GitVersion, Isolation: d.isolation(""), Images: true, Runtimes: map[string]string{},
		Holds: maps.Clone(f.holds), Lacks: maps.Clone(f.lacks), Languages: f.languages,
	}
}

func refusal(err error) sandbox.Probe {
	e := toolroom.AsError(err)
	p := sandbox.Probe{State: sandbox.Unsupported, Reason: strings.TrimPrefix(e.Message, "kubernetes: "), Fix: e.Hint}
	if e.Retryable {
		p.State = sandbox.Inconclusive
	}
	return p
}

// look makes both Pods at once.
func (d *Driver) look(ctx context.Context, c *cluster) (*facts, error) {
	type answer struct {
		facts pod.Facts
		err   error
	}
	looked := make(chan answer)
	go func() {
		f, err := d.lookFrom(ctx, c, true)
		looked <- answer{f, err}
	}()
	closed, err := d.lookFrom(ctx, c, false)
	open := <-looked
	if err := errors.Join(err, open.err); err != nil {
		return nil, err
	}
	return factsOf(c.policyLack, closed, open.facts), nil
}

// lookWall bounds a look; the Pod's own time.
const lookWall = 30 * time.Second

// lookFrom looks from a Pod that has a network, or that programs would get.
func (d *Driver) lookFrom(ctx context.Context, c *cluster, open bool) (_ pod.Facts, err error) {
	b := &box{cluster: c, id: newID(), job: d.o.Job}
	p := podFor(sandbox.Spec{Run: "probe", Profile: sandbox.Standard, Limits: sandbox.Limits{Wall: lookWall, Memory: 128 << 20}}, d.o, b.id)
	if open {
		delete(p.Labels, networkLabel)
	}
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
		Name:      pod.NodeEnv,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}},
	})
	if err := d.run(ctx, b, p); err != nil {
		return pod.Facts{}, err
	}
	defer func() { // nobody waits for a Pod that has said all
		err = errors.Join(err, ignoreNotFound(b.delete(context.WithoutCancel(ctx))))
	}()
	ctx, done := context.WithTimeout(ctx, lookWall)
	defer done()
	var out, errs bytes.Buffer
	if err := c.exec(ctx, b.pod, []string{guestPath(d.o), pod.LookArg}, nil, &out, &errs); err != nil {
		return pod.Facts{}, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: look at the cluster from a Pod: %w: %s", err, bytes.TrimSpace(errs.Bytes())).
			WithHint("the guest in the image may be of an older Toolroom: build the image anew")
	}
	var f pod.Facts
	return f, json.Unmarshal(out.Bytes(), &f)
}

// factsOf draws the conclusions from both looks.
func factsOf(policyLack string, closed, open pod.Facts) *facts {
	cgroup := "cgroup " + closed.Cgroup
	f := &facts{languages: closed.Languages, lacks: map[sandbox.Limit]string{}, holds: map[sandbox.Limit]string{
		sandbox.LimitWall:   "deletion of the Pod",
		sandbox.LimitCPU:    cgroup + " quota, RLIMIT_CPU of each process",
		sandbox.LimitMemory: cgroup,
		sandbox.LimitDisk:   "size of the tmpfs",
	}}
	if n := closed.Processes; n > 0 {
		f.processes = n
		f.holds[sandbox.LimitPIDs] = fmt.Sprintf("%s, %d processes of a Pod by its kubelet", cgroup, n)
	} else {
		f.lacks[sandbox.LimitPIDs] = fmt.Sprintf("a Pod cannot limit its processes, and its kubelet allows %d or more: set podPidsLimit there", pod.MostProcesses)
	}
	enforced, text := enforcement(policyLack, closed, open)
	switch {
	case closed.Offline:
		f.holds[sandbox.LimitNetwork] = "seccomp: no internet sockets; " + text
	case enforced:
		f.holds[sandbox.LimitNetwork] = text
	default:
		f.lacks[sandbox.LimitNetwork] = text + ", and the guest can put on no filter"
	}
	return f
}

// enforcement says whether the cluster's network keeps to network policies, as
// far as the looks have shown.
func enforcement(policyLack string, closed, open pod.Facts) (bool, string) {
	switch {
	case len(closed.Interfaces) == 0 && len(open.Interfaces) == 0:
		return true, "Pods have no network"
	case policyLack != "":
		return false, policyLack
	case len(closed.Reached) > 0:
		return false, "the cluster does not keep to NetworkPolicy: a closed Pod reached " + closed.Reached[0]
	case len(open.Reached) > 0:
		return true, "NetworkPolicy: a closed Pod did not reach what an open one did"
	case len(closed.Refused) > 0:
		return false, "the cluster does not keep to NetworkPolicy: a closed Pod got an answer from " + closed.Refused[0]
	case len(open.Refused) > 0:
		return true, "NetworkPolicy: a closed Pod got no answer where an open one did"
	}
	return false, "whether the cluster keeps to NetworkPolicy could not be seen: an open Pod reached nothing either"
}

// check refuses a number of processes that is lower than what the kubelet holds.
func (f *facts) check(s sandbox.Spec) error {
	if s.Limits.PIDs == 0 || s.BestEffort || f.holdsPIDs(s) {
		return nil
	}
	known := 0
	if f != nil {
		known = f.processes
	}
	return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "a Pod cannot limit its processes to %d: its kubelet holds %d (0 is not known)", s.Limits.PIDs, known).
		WithHint("leave the limit out, set podPidsLimit of the kubelet, or accept best effort")
}

func (f *facts) holdsPIDs(s sandbox.Spec) bool {
	return f != nil && f.processes > 0 && s.Limits.PIDs >= f.processes
}

// held are the limits that hold for a Pod of s.
func (f *facts) held(s sandbox.Spec) map[sandbox.Limit]string {
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
