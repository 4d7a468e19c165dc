// Package kubernetes is the sandbox driver for a Kubernetes cluster: every guest runs in
// a Pod of its own, whose first process only keeps the Pod alive. The guest is a second
// process, started through the API, and its streams are the bridge. (Attaching to the
// first process instead would make the node write its streams to the container's log,
// including every argument and result of a tool.)
package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// Kubeconfig is the path of the kubeconfig file, and Context selects one of its
	// clusters. If they are empty, the driver uses kubectl's defaults or, inside a Pod,
	// the cluster of that Pod.
	Kubeconfig, Context string
	// Namespace is the namespace of the Pods. If it is empty, the driver does nothing, so
	// that it does not touch a cluster only because kubectl is configured for it.
	Namespace string
	// Image is the image of runs that name none; [image.Name] if empty.
	Image string
	// GuestImage is an image with the guest at [image.GuestPath], and with /bin/cp to copy
	// it. It is empty if Image contains the guest.
	GuestImage string
	// Pull decides what happens if a node does not have an image: never (the default) or
	// missing.
	Pull string
	// RuntimeClass is the RuntimeClass of Pods for runs that name none; the cluster's
	// default if empty. If it is set, runs cannot choose another.
	RuntimeClass string
	// NodeSelector selects the nodes that may run Pods by their labels.
	NodeSelector map[string]string
	// Job makes Pods by Jobs, which the cluster removes a minute after their end, even if
	// this process has died.
	Job bool
	// StartTimeout bounds the start of a Pod (30 s).
	StartTimeout time.Duration
}

const (
	// callTimeout bounds the time in which the API server must answer.
	callTimeout = 10 * time.Second
	// cleanTimeout bounds the removal of a Pod that failed to start.
	cleanTimeout = 15 * time.Second
	// pullMissing is the policy that pulls missing images.
	pullMissing = "missing"
)

// Driver starts guests in Pods. Make one with [New].
type Driver struct {
	o Options
	// connect returns the connection to the API server. It connects at the first call.
	connect func(context.Context) (*cluster, error)
}

// cluster is a connection to an API server.
type cluster struct {
	*api
	config    *rest.Config
	namespace string
	// policyLack says why the driver's network policy does not exist, or is empty.
	policyLack string
	// findings are those of the last probe that succeeded, nil before.
	findings atomic.Pointer[findings]
}

// New returns a driver. It does not contact the API server.
func New(o Options) *Driver {
	if o.Image == "" {
		o.Image = image.Name
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 30 * time.Second
	}
	d := &Driver{o: o}
	d.connect = turn.Once(d.open)
	return d
}

// Name returns "kubernetes".
func (d *Driver) Name() string { return "kubernetes" }

// open connects to the API server, makes the network policy, and removes the leftovers of
// dead processes.
func (d *Driver) open(ctx context.Context) (*cluster, error) {
	c, err := d.dial()
	if err != nil {
		return nil, err
	}
	if err := c.ensurePolicy(ctx); err != nil {
		return nil, c.explain(ctx, err)
	}
	_, _ = c.clean(ctx, false) // a later run removes what cannot be removed now
	return c, nil
}

// dial reads the kubeconfig. It does not contact the server.
func (d *Driver) dial() (*cluster, error) {
	if d.o.Namespace == "" {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: no namespace is configured").
			WithHint("set code.runtimes.kubernetes.namespace to a namespace that is used for programs only (docs/kubernetes.md)")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = d.o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: d.o.Context}).ClientConfig()
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: the kubeconfig: %w", err).
			WithHint("set code.runtimes.kubernetes.kubeconfig and context; `kubectl config get-contexts` lists them")
	}
	config.UserAgent = "toolroom"
	config.QPS, config.Burst = 100, 200
	config.WarningHandler = rest.NoWarnings{}
	client, err := newAPI(config, d.o.Namespace)
	if err != nil {
		return nil, err
	}
	return &cluster{api: client, config: config, namespace: d.o.Namespace}, nil
}

// Start makes a Pod, waits until it runs, and starts the guest in it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if len(s.Egress) > 0 && !s.BestEffort {
		return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "a Pod cannot limit its network to a list of hosts").
			WithHint("remove the list of hosts, or accept best effort")
	}
	c, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if r := d.o.RuntimeClass; r != "" && s.Runtime != "" && s.Runtime != r {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "programs run under the RuntimeClass %s, and a run cannot choose %q", r, s.Runtime).
			WithHint("leave it out, or remove code.runtimes.kubernetes.runtime_class")
	}
	known := c.findings.Load()
	if err := known.check(s); err != nil {
		return nil, err
	}
	b := &instance{cluster: c, id: newID(), job: d.o.Job, isolation: d.isolation(s.Runtime), held: known.held(s)}
	if err := d.run(ctx, b, podFor(s, d.o, b.id)); err != nil {
		return nil, err
	}
	b.open(guestCommand(s, d.o))
	return b, nil
}

// run makes the Pod of b and waits until it runs. If that fails, it removes the Pod.
func (d *Driver) run(ctx context.Context, b *instance, p *corev1.Pod) (err error) {
	ctx, done := context.WithTimeout(ctx, d.o.StartTimeout)
	defer done()
	defer func() {
		if err != nil {
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
			defer done()
			err = withCleanup(err, b.Kill(ending))
		}
	}()
	if err := b.create(ctx, p); err != nil {
		return b.cluster.explain(ctx, err)
	}
	return b.awaitRunning(ctx)
}

// withCleanup adds the error of removing a Pod to the error of its start.
func withCleanup(err, cleaning error) error {
	if cleaning == nil {
		return err
	}
	known := toolroom.AsError(err)
	e := toolroom.Errorf(known.Code, "%w; its Pod could not be removed: %w", err, cleaning)
	return e.WithHint("%s", known.Hint).WithCLIHint("%s", known.CLIHint)
}

// isolation names the RuntimeClass, or "default" for the cluster's default.
func (d *Driver) isolation(runtime string) string {
	if runtime == "" {
		runtime = d.o.RuntimeClass
	}
	if runtime == "" {
		runtime = "default"
	}
	return "kubernetes(" + runtime + ")+seccomp"
}

func newID() string { return "toolroom-" + strings.ToLower(rand.Text()) }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// withCallTimeout calls f with callTimeout.
func withCallTimeout(ctx context.Context, f func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return err
}
