// Package kubernetes is the sandbox driver for a Kubernetes cluster: every guest
// runs in a Pod of its own, whose first process does nothing but keep it there.
// The guest is a second one, started through the API, and its streams are the
// bridge. (Those of the first, to which one attaches, the node writes to its
// logs, with every argument and result of a tool.)
package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a driver.
type Options struct {
	// Kubeconfig is the path of the file that says where the API server is, and
	// Context which of its clusters; as kubectl finds them if empty, or where this
	// is itself a Pod, the cluster around it.
	Kubeconfig, Context string
	// Namespace is where Pods are made. Without one the driver does nothing, so
	// that no cluster is touched because kubectl knows it.
	Namespace string
	// Image is what runs that name none get; [image.Name] if empty.
	Image string
	// GuestImage has the guest at [image.GuestPath] and /bin/cp, to copy it from.
	// Empty is where Image has the guest itself.
	GuestImage string
	// Pull says what becomes of an image that a node does not have: never (the
	// default) or missing.
	Pull string
	// RuntimeClass of Pods for runs that name none; the cluster's default if
	// empty. If it is set, runs cannot choose another.
	RuntimeClass string
	// NodeSelector are the labels of nodes that may run Pods.
	NodeSelector map[string]string
	// Job makes Pods by Jobs, which the cluster removes a minute after their end,
	// whatever becomes of this process.
	Job bool
	// StartTimeout is how long a Pod may take to run (30 s).
	StartTimeout time.Duration
}

const (
	// callTimeout is how long the API server may take to answer.
	callTimeout = 10 * time.Second
	// cleanTimeout bounds the removal of a Pod whose start failed.
	cleanTimeout = 15 * time.Second
	// pullMissing is the policy to pull images.
	pullMissing = "missing"
)

// Driver starts guests in Pods. Make one with [New].
type Driver struct {
	o Options

	mu      sync.Mutex
	cluster *cluster
}

// cluster is a connection to an API server.
type cluster struct {
	*api
	config    *rest.Config
	namespace string
	// policyLack says why there is no network policy of ours, if there is none.
	policyLack string
	// facts are nil until a probe has found them.
	facts *facts
}

// New makes a driver; the API server is first asked when something is to be known.
func New(o Options) *Driver {
	if o.Image == "" {
		o.Image = image.Name
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 30 * time.Second
	}
	return &Driver{o: o}
}

// Name is kubernetes.
func (d *Driver) Name() string { return "kubernetes" }

// connect gives the connection to the API server. What dead processes have left
// there is removed at the first one, which also makes the network policy.
func (d *Driver) connect(ctx context.Context) (*cluster, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cluster != nil {
		return d.cluster, nil
	}
	c, err := d.dial()
	if err != nil {
		return nil, err
	}
	if err := c.ensurePolicy(ctx); err != nil {
		return nil, c.explain(ctx, err)
	}
	_, _ = c.clean(ctx, false) // what is left now is removed by the next one
	d.cluster = c
	return c, nil
}

// dial reads the kubeconfig; nothing is asked yet.
func (d *Driver) dial() (*cluster, error) {
	if d.o.Namespace == "" {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "kubernetes: no namespace is configured").
			WithHint("set code.runtimes.kubernetes.namespace to a namespace for programs alone (docs/kubernetes.md)")
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
		return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "a Pod has a network or none, and cannot keep to hosts").
			WithHint("leave the list of hosts out, or accept best effort")
	}
	c, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	if r := d.o.RuntimeClass; r != "" && s.Runtime != "" && s.Runtime != r {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "programs run under the RuntimeClass %s, and a run cannot choose %q", r, s.Runtime).
			WithHint("leave it out, or remove code.runtimes.kubernetes.runtime_class")
	}
	facts := d.facts()
	if err := facts.check(s); err != nil {
		return nil, err
	}
	b := &box{cluster: c, id: newID(), job: d.o.Job, isolation: d.isolation(s.Runtime), held: facts.held(s)}
	if err := d.run(ctx, b, podFor(s, d.o, b.id)); err != nil {
		return nil, err
	}
	b.open(guestCommand(s, d.o))
	return b, nil
}

// run makes the Pod of b and waits until it runs, or removes it.
func (d *Driver) run(ctx context.Context, b *box, p *corev1.Pod) (err error) {
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

// withCleanup adds to why a Pod did not run that it could not be removed.
func withCleanup(err, cleaning error) error {
	if cleaning == nil {
		return err
	}
	known := toolroom.AsError(err)
	e := toolroom.Errorf(known.Code, "%w; its Pod could not be removed: %w", err, cleaning)
	return e.WithHint("%s", known.Hint)
}

// facts are what the last probe found; nil if there was none.
func (d *Driver) facts() *facts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cluster == nil {
		return nil
	}
	return d.cluster.facts
}

// isolation names the RuntimeClass, or that it is the cluster's default.
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

// called gives a call of the API its time.
func called(ctx context.Context, f func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return err
}
