// Package temporal runs programs and chains as Temporal workflows, so that they can
// outlive a process. Each tool call of a workflow is an activity. A worker makes the
// call through the runner of its own room: the room's policy decides, and its receipts
// record the call. All data in Temporal is encrypted with a secret that rooms and
// workers share. With access to the namespace but without the secret, it is neither
// possible to read the data nor to run anything.
package temporal

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/sandbox"
)

// Name is the runtime's id.
const Name = "temporal"

// Options configure the connection to Temporal.
type Options struct {
	// Address is HOST:PORT of the frontend; empty means 127.0.0.1:7233.
	Address string
	// Namespace is the namespace; empty means default. Queue is the task queue of
	// the workers; empty means toolroom.
	Namespace, Queue string
	// Secret returns the secret that rooms and workers share.
	Secret func(context.Context) (string, error)
	// CA, Cert and Key are PEM files. TLS is used if CA or Cert is set. CA has the
	// certificates of the authorities that sign the server's certificate. Cert and
	// Key are the client's certificate and key.
	CA, Cert, Key, ServerName string
	// Log receives the log of the SDK; nil discards it.
	Log *slog.Logger
}

// Temporal is a connection to Temporal, which is made at the first use. Its methods
// are safe for concurrent use.
type Temporal struct {
	o Options

	connecting turn.Turn // guards what follows
	connected  client.Client
	keys       *keys
}

// New returns a Temporal. It does not connect yet.
func New(o Options) *Temporal {
	o.Address = cmp.Or(o.Address, client.DefaultHostPort)
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	o.Queue = cmp.Or(o.Queue, "toolroom")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Temporal{o: o, connecting: turn.New()}
}

// Name returns the runtime's id, temporal.
func (t *Temporal) Name() string { return Name }

// connectTimeout limits the first connection; the default of the SDK is 5 s.
const connectTimeout = 10 * time.Second

func (t *Temporal) client(ctx context.Context) (client.Client, error) {
	end, err := t.connecting.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if t.connected != nil {
		return t.connected, nil
	}
	secret, err := t.o.Secret(ctx)
	if err != nil {
		return nil, err
	}
	made, err := newKeys(secret)
	if err != nil {
		return nil, err
	}
	secured, err := t.tls()
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "set up TLS to Temporal: %w", err).WithHint("check code.runtimes.temporal.ca, cert and key")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: t.o.Address, Namespace: t.o.Namespace, Logger: log.NewStructuredLogger(t.o.Log),
		DataConverter: made.data, FailureConverter: made.failures, ConnectionOptions: client.ConnectionOptions{TLS: secured},
	})
	if err != nil {
		e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "Temporal does not answer at %s: %w", t.o.Address, err)
		return nil, e.WithHint("start it (temporal server start-dev), or correct code.runtimes.temporal.address")
	}
	t.connected, t.keys = c, made
	return c, nil
}

func (t *Temporal) tls() (*tls.Config, error) {
	if t.o.CA == "" && t.o.Cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.o.ServerName}
	if t.o.CA != "" {
		pem, err := os.ReadFile(t.o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", t.o.CA)
		}
	}
	if t.o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.o.Cert, t.o.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Close closes the connection.
func (t *Temporal) Close() error {
	end, err := t.connecting.Take(context.Background())
	if err != nil {
		return err
	}
	defer end()
	if t.connected != nil {
		t.connected.Close()
		t.connected = nil
	}
	return nil
}

// Probe reports whether a worker serves the queue.
func (t *Temporal) Probe(ctx context.Context) sandbox.Probe {
	c, err := t.client(ctx)
	if err != nil {
		e := toolroom.AsError(err)
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: e.Message, Fix: e.Hints()}
	}
	if err := t.checkWorkers(ctx, c); err != nil {
		e := toolroom.AsError(err)
		return sandbox.Probe{State: sandbox.Unsupported, Reason: e.Message, Fix: e.Hints()}
	}
	return sandbox.Probe{
		State: sandbox.Available, Isolation: "the worker's",
		Languages: []string{"python", "javascript", "typescript", "shell"},
	}
}

// checkWorkers returns an error if no worker serves the queue.
func (t *Temporal) checkWorkers(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	queue, err := c.DescribeTaskQueue(ctx, t.o.Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "describe the queue %[2]s of Temporal at %[1]s: %[3]w", t.o.Address, t.o.Queue, err)
		return e.WithHint("check the namespace %q: code.runtimes.temporal.namespace", t.o.Namespace)
	}
	if len(queue.GetPollers()) == 0 {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no worker serves the queue %s of Temporal at %s", t.o.Queue, t.o.Address).
			WithCLIHint("start one with the same secret: toolroom temporal worker")
	}
	return nil
}

// Execute runs a program as a workflow.
func (t *Temporal) Execute(ctx context.Context, call toolroom.Call, emit func(toolroom.Event)) (*toolroom.Result, error) {
	result := &toolroom.Result{}
	return result, runWorkflow(ctx, t, programWorkflow, newOrder(call, nil), emit, result)
}

// Chain runs a chain as a workflow. When ctx ends, Chain cancels the workflow.
func (t *Temporal) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step, emit func(toolroom.Event)) (*toolroom.ChainResult, error) {
	result := &toolroom.ChainResult{}
	return result, runWorkflow(ctx, t, chainWorkflow, newOrder(as, steps), emit, result)
}

// runWorkflow starts a workflow, sends it its order and waits for its result. When ctx ends, it
// cancels the workflow and waits a short time for its end.
func runWorkflow[T any](ctx context.Context, t *Temporal, workflow string, o order, emit func(toolroom.Event), result *T) error {
	c, err := t.client(ctx)
	if err == nil {
		err = t.checkWorkers(ctx, c)
	}
	if err != nil {
		return err
	}
	started, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: newWorkflowID(time.Now()), TaskQueue: t.o.Queue, WorkflowExecutionTimeout: maxDuration,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, workflow)
	if err != nil {
		return stopError(ctx, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "start the workflow: %w", err))
	}
	id, run := started.GetID(), started.GetRunID()
	get := func(ctx context.Context) error {
		var n message[T]
		err := started.Get(ctx, &n)
		if err == nil {
			*result, err = n.read(run, resultPlace)
		}
		return err
	}
	// The order comes after the start, because it names the run.
	err = c.SignalWorkflow(ctx, id, run, orderSignal, message[order]{run, orderPlace, o})
	ordered := err == nil
	if !ordered {
		err = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "send the workflow its order: %w", err)
	} else {
		stop := t.watchApprovals(ctx, c, id, run, emit)
		err = get(ctx)
		stop()
	}
	if ctx.Err() != nil || !ordered {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer done()
		if cerr := c.CancelWorkflow(ending, id, run); cerr == nil {
			_ = get(ending) // the error is known: it was cancelled
		}
		return stopError(ctx, err)
	}
	if err != nil {
		return workflowError(id, err)
	}
	return nil
}

// stopError returns the error of a workflow that was cancelled because ctx has ended, or err if
// ctx has not ended.
func stopError(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return toolroom.Errorf(toolroom.CodeTimeout, "the workflow was stopped at its deadline")
	}
	return toolroom.Errorf(toolroom.CodeCancelled, "the workflow was cancelled")
}

// workflowError returns the error of a workflow that ended without a result.
func workflowError(id string, err error) error {
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &cancelled):
		return toolroom.Errorf(toolroom.CodeCancelled, "the workflow %s was cancelled in Temporal", id)
	case errors.As(err, &timeout):
		return toolroom.Errorf(toolroom.CodeTimeout, "the workflow %s took too long: %s", id, errorText(err))
	case errors.As(err, &application) && application.Type() == refusedType:
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "a worker refused the workflow %s: %s", id, application.Message())
	}
	return toolroom.Errorf(toolroom.CodeInternal, "the workflow %s failed: %s", id, errorText(err)).
		WithHint("Temporal shows its history: temporal workflow show --workflow-id %s", id)
}
