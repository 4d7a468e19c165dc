package receipt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
)

// OTLPOptions configure an OTLP. Endpoint is required, for example
// http://127.0.0.1:4318; records are sent to /v1/logs below it.
type OTLPOptions struct {
	Endpoint string
	// Headers returns the headers of each request, for example with a token.
	Headers func(context.Context) (map[string]string, error)
	Version string
	// Queue is how many receipts may wait for a slow or unreachable collector
	// (8,192); further receipts are counted and dropped.
	Queue int
	// Retry is the pause after a failure (1 s).
	Retry time.Duration
	Log   *slog.Logger
}

// OTLP sends receipts as OpenTelemetry log records, without delaying calls. It uses
// OTLP/HTTP in its JSON encoding, which is simple enough to need no library; see
// https://opentelemetry.io/docs/specs/otlp/#otlphttp. Create one with NewOTLP, pass it
// receipts with Write and end it with Close.
type OTLP struct {
	o      OTLPOptions
	client *http.Client
	queue  chan *toolroom.Receipt
	end    func() // closes queue, once
	stop   context.CancelFunc
	done   chan struct{}
}

const (
	// batch is the most records of one request.
	batch = 512
	// attempts are made for one batch, attemptTimeout is for each.
	attempts       = 5
	attemptTimeout = 10 * time.Second
)

// NewOTLP starts an exporter.
func NewOTLP(o OTLPOptions) *OTLP {
	if o.Queue <= 0 {
		o.Queue = 8192
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &OTLP{
		o: o, client: &http.Client{Timeout: attemptTimeout}, queue: make(chan *toolroom.Receipt, o.Queue),
		stop: stop, done: make(chan struct{}),
	}
	e.end = sync.OnceFunc(func() { close(e.queue) })
	go e.run(ctx)
	return e
}

// Write queues receipts. It never blocks.
func (e *OTLP) Write(group []*toolroom.Receipt) {
	lost := 0
	for _, r := range group {
		select {
		case e.queue <- r:
		default:
			lost++
		}
	}
	if lost > 0 {
		e.o.Log.Error("dropped receipts because the collector is slow or unreachable", "lost", lost)
	}
}

// Close sends the queued receipts until ctx ends. Write must not be called
// afterwards. A second Close waits for the same end.
func (e *OTLP) Close(ctx context.Context) error {
	e.end()
	var err error
	select {
	case <-e.done:
	case <-ctx.Done():
		err = fmt.Errorf("some receipts were not sent to the collector: %w", ctx.Err())
		e.stop()
		<-e.done
	}
	e.stop()
	e.client.CloseIdleConnections()
	return err
}

func (e *OTLP) run(ctx context.Context) {
	defer close(e.done)
	for r := range e.queue {
		group := []*toolroom.Receipt{r}
	more:
		for len(group) < batch {
			select {
			case r, ok := <-e.queue:
				if !ok {
					break more
				}
				group = append(group, r)
			default:
				break more
			}
		}
		lost := len(group)
		var err error
		panicked := panics.Catch(func() { lost, err = e.send(ctx, group) })
		if err := cmp.Or(panicked, err); err != nil && ctx.Err() == nil {
			e.o.Log.Error("failed to send receipts to the collector", "lost", lost, "error", err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// send sends a group. A group that is too large for the collector is sent in halves.
func (e *OTLP) send(ctx context.Context, group []*toolroom.Receipt) (lost int, err error) {
	err = e.sendWhole(ctx, group)
	if half := len(group) / 2; errors.Is(err, errTooLarge) && half > 0 {
		first, err := e.send(ctx, group[:half])
		second, err2 := e.send(ctx, group[half:])
		return first + second, errors.Join(err, err2)
	}
	if err != nil {
		lost = len(group)
	}
	return lost, err
}

var errTooLarge = errors.New("the request is too large for the collector")

func (e *OTLP) sendWhole(ctx context.Context, group []*toolroom.Receipt) error {
	body, err := json.Marshal(e.request(group))
	if err != nil {
		return err
	}
	for n, pause := 1, e.o.Retry; ; n, pause = n+1, 2*pause {
		again, err := e.post(ctx, body)
		if err == nil || !again || n == attempts {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *OTLP) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(e.o.Endpoint, "/")+"/v1/logs", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	if e.o.Headers != nil {
		headers, err := e.o.Headers(ctx)
		if err != nil {
			return true, err
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, fmt.Errorf("the collector returned %s", res.Status)
	case http.StatusRequestEntityTooLarge:
		return false, fmt.Errorf("%w: it returned %s", errTooLarge, res.Status)
	}
	if res.StatusCode/100 != 2 {
		return false, fmt.Errorf("the collector returned %s", res.Status)
	}
	return false, nil
}

// The parts of an ExportLogsServiceRequest, in their JSON form.
type (
	request struct {
		ResourceLogs []resourceLogs `json:"resourceLogs"`
	}
	resourceLogs struct {
		Resource  resource    `json:"resource"`
		ScopeLogs []scopeLogs `json:"scopeLogs"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeLogs struct {
		Scope      scope    `json:"scope"`
		LogRecords []record `json:"logRecords"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	record struct {
		TimeUnixNano         string      `json:"timeUnixNano"`
		ObservedTimeUnixNano string      `json:"observedTimeUnixNano"`
		SeverityNumber       int         `json:"severityNumber"`
		SeverityText         string      `json:"severityText"`
		Body                 value       `json:"body"`
		Attributes           []attribute `json:"attributes"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// Severities of the log data model.
const (
	severityInfo = 9
	severityWarn = 13
)

func (e *OTLP) request(group []*toolroom.Receipt) request {
	records := make([]record, len(group))
	for i, r := range group {
		records[i] = recordOf(r)
	}
	return request{[]resourceLogs{{
		Resource:  resource{[]attribute{text("service.name", "toolroom"), text("service.version", e.o.Version)}},
		ScopeLogs: []scopeLogs{{scope{"toolroom/receipt", e.o.Version}, records}},
	}}}
}

// recordOf returns a record with the receipt as its body and the searchable fields
// as attributes.
func recordOf(r *toolroom.Receipt) record {
	body, err := json.Marshal(r)
	if err != nil { // what a tool put into its error has no form
		body = []byte(fmt.Sprintf("call %s of %s: %s", r.ID, r.Tool, r.Status))
	}
	ended := r.Started.Add(r.Usage.Queue + r.Usage.Wait + r.Usage.Run)
	out := record{
		TimeUnixNano: nanos(r.Started), ObservedTimeUnixNano: nanos(ended), SeverityNumber: severityInfo, SeverityText: "INFO",
		Body: text("", string(body)).Value,
		Attributes: []attribute{
			text("toolroom.call", r.ID), text("toolroom.tool", r.Tool), text("toolroom.status", string(r.Status)),
			text("toolroom.surface", r.Surface), text("enduser.id", r.Identity.Key()),
			number("toolroom.seq", r.Seq), number("toolroom.run_ns", int64(r.Usage.Run)),
		},
	}
	if r.Status != toolroom.StatusOK {
		out.SeverityNumber, out.SeverityText = severityWarn, "WARN"
	}
	if r.Error != nil {
		out.Attributes = append(out.Attributes, text("error.type", string(r.Error.Code)))
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func text(key, v string) attribute { return attribute{key, value{String: &v}} }

func number(key string, n int64) attribute {
	v := strconv.FormatInt(n, 10)
	return attribute{key, value{Int: &v}}
}
