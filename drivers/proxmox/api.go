package proxmox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// api calls the API of one Proxmox VE server.
type api struct {
	base  string
	token func(context.Context) (string, error)
	http  func() (*http.Client, error)
}

func newAPI(o Options) *api {
	return &api{base: strings.TrimSuffix(o.URL, "/") + "/api2/json", token: o.Token, http: sync.OnceValues(func() (*http.Client, error) {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.CA != "" {
			pem, err := os.ReadFile(o.CA)
			if err != nil {
				return nil, err
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s contains no certificate", o.CA)
			}
		}
		transport := &http.Transport{TLSClientConfig: config, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 30 * time.Second}
		return &http.Client{
			Transport: transport, Timeout: 30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // do not send the token to another server
		}, nil
	})}
}

// params are the parameters of a call.
type params map[string]string

// id is a container's id, which the API encodes as a number or as text.
type id int

func (i *id) UnmarshalJSON(data []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	*i = id(n)
	return err
}

// apiError is an error answer of the API.
type apiError struct {
	Status  int
	Message string
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Status) }

// taskError is a task that failed.
type taskError struct{ what, status string }

func (e *taskError) Error() string {
	return fmt.Sprintf("the task %s failed: %s", e.what, e.status)
}

// errUnreachable is the cause of connection errors.
var errUnreachable = errors.New("the API cannot be reached")

// maxAnswer is the maximum length of an answer.
const maxAnswer = 4 << 20

// call sends one request and decodes the data of the answer into out.
func (a *api) call(ctx context.Context, method, path string, p params, out any) error {
	client, err := a.http()
	if err != nil {
		return fmt.Errorf("cannot read the certificates: %w", err)
	}
	token, err := a.token(ctx)
	if err != nil {
		return fmt.Errorf("the API token: %w", err)
	}
	form := url.Values{}
	for k, v := range p {
		form.Set(k, v)
	}
	target, body := a.base+path, ""
	if method == http.MethodGet || method == http.MethodDelete {
		if len(form) > 0 {
			target += "?" + form.Encode()
		}
	} else {
		body = form.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "PVEAPIToken="+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if answer.StatusCode != http.StatusOK {
		return refusal(answer, data)
	}
	wrapped := struct {
		Data any `json:"data"`
	}{out}
	if err := json.Unmarshal(data, &wrapped); err != nil {
		return fmt.Errorf("%s is not the API of Proxmox VE: %w", a.base, err)
	}
	return nil
}

// refusal decodes an error: its message is in the status line, and the invalid
// parameters are in the body.
func refusal(answer *http.Response, data []byte) error {
	e := &apiError{Status: answer.StatusCode, Message: strings.TrimSpace(strings.TrimPrefix(answer.Status, strconv.Itoa(answer.StatusCode)))}
	var body struct {
		Message string            `json:"message"`
		Errors  map[string]string `json:"errors"`
	}
	if json.Unmarshal(data, &body) == nil {
		if m := strings.TrimSpace(body.Message); m != "" && !strings.Contains(e.Message, m) {
			e.Message += ": " + m
		}
		for _, name := range slices.Sorted(maps.Keys(body.Errors)) {
			e.Message += fmt.Sprintf("; %s: %s", name, strings.TrimSpace(body.Errors[name]))
		}
	}
	return e
}

// get sends a GET request, and repeats it after a pause if the connection or the server
// failed.
func (a *api) get(ctx context.Context, path string, out any) error {
	const attempts = 4
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := a.call(ctx, http.MethodGet, path, nil, out)
		var answer *apiError
		passing := errors.Is(err, errUnreachable) || errors.As(err, &answer) && answer.Status >= 500 && answer.Status != http.StatusNotImplemented
		if !passing || attempt == attempts || !sleep(ctx, pause) {
			return err
		}
		pause *= 2
	}
}

// run calls an API that does its work in a task, and waits for the end of the task. It
// never repeats the call, because a call that failed may still have had its effect.
func (a *api) run(ctx context.Context, node, method, path string, p params) error {
	task, err := a.begin(ctx, method, path, p)
	if err != nil {
		return err
	}
	return a.wait(ctx, node, task)
}

// begin starts a task.
func (a *api) begin(ctx context.Context, method, path string, p params) (task string, err error) {
	if err := a.call(ctx, method, path, p, &task); err != nil {
		return "", err
	}
	if !strings.HasPrefix(task, "UPID:") {
		return "", fmt.Errorf("%s %s answered %q instead of a task", method, path, task)
	}
	return task, nil
}

func (a *api) wait(ctx context.Context, node, task string) error {
	return poll(ctx, func() (bool, error) {
		var state struct{ Status, ExitStatus string }
		if err := a.get(ctx, "/nodes/"+node+"/tasks/"+url.PathEscape(task)+"/status", &state); err != nil {
			return false, err
		}
		if state.Status != "stopped" {
			return false, nil
		}
		if state.ExitStatus != "OK" && !strings.HasPrefix(state.ExitStatus, "WARNINGS") {
			return false, &taskError{taskKind(task), state.ExitStatus}
		}
		return true, nil
	})
}

// taskKind returns what a task does: UPID:node:pid:pstart:start:KIND:id:user:
func taskKind(task string) string {
	parts := strings.Split(task, ":")
	if len(parts) < 7 {
		return task
	}
	return parts[5] + " of " + parts[6]
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// poll calls ask until it is done, with growing pauses.
func poll(ctx context.Context, ask func() (done bool, err error)) error {
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		if done, err := ask(); done || err != nil {
			return err
		}
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// errorContains reports whether err is an error of the API, or of a task, that contains words.
func errorContains(err error, words string) bool {
	var answer *apiError
	var task *taskError
	return errors.As(err, &answer) && strings.Contains(answer.Message, words) ||
		errors.As(err, &task) && strings.Contains(task.status, words)
}

// privileges are the privileges that the token's user needs.
const privileges = "VM.Audit, VM.Clone, VM.Allocate, VM.PowerMgmt, VM.Config.Options, Datastore.AllocateSpace, SDN.Use"

// explain turns err into an error with a code and a hint.
func explain(err error) error {
	if known, ok := errors.AsType[*toolroom.Error](err); ok && known.Code == toolroom.CodeSandboxUnavailable {
		return err
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "Proxmox VE: %w", err)
	var answer *apiError
	var task *taskError
	switch {
	case errors.Is(err, errUnreachable):
		e.Retryable = true
		return e.WithHint("check url and ca of code.runtimes.proxmox_lxc")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Retryable = true
		return e.WithHint("check at the container's console that it starts, gets an address and serves a runner")
	case errors.As(err, &task):
		return e.WithHint("the task log of the node says more")
	case !errors.As(err, &answer):
		return e.WithHint("check code.runtimes.proxmox_lxc")
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		return e.WithHint("check that the token of code.runtimes.proxmox_lxc, USER@REALM!TOKENID=UUID, is still valid")
	case http.StatusForbidden:
		return e.WithHint("give the token these privileges: %s", privileges)
	case 595, 596: // the cluster cannot connect to the node, or timed out
		e.Retryable = true
		return e.WithHint("the cluster cannot reach the node: check node of code.runtimes.proxmox_lxc")
	}
	return e.WithHint("check node, template and container of code.runtimes.proxmox_lxc")
}
