package k8s

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// ListArgs are the arguments of k8s:pods and k8s:deployments.
type ListArgs struct {
	Namespace string `json:"namespace,omitempty" jsonschema:"namespace; * is all of them, and the default is that of the config or kubeconfig"`
	Selector  string `json:"selector,omitempty" jsonschema:"label selector, such as app=web"`
	Limit     int    `json:"limit,omitempty" jsonschema:"the most to return"`
}

// Pods is the value of k8s:pods.
type Pods struct {
	Pods []Pod `json:"pods" jsonschema:"the Pods"`
	More bool  `json:"more,omitempty" jsonschema:"there are more than limit"`
}

// Pod is a Pod as kubectl shows it.
type Pod struct {
	Name      string `json:"name" jsonschema:"name of the Pod"`
	Namespace string `json:"namespace" jsonschema:"its namespace"`
	Ready     string `json:"ready" jsonschema:"ready containers of all, such as 1/2"`
	Status    string `json:"status" jsonschema:"such as Running, Pending or CrashLoopBackOff"`
	Restarts  string `json:"restarts" jsonschema:"restarts of its containers, and when the last was"`
	Age       string `json:"age" jsonschema:"its age, such as 5d2h"`
	IP        string `json:"ip,omitempty" jsonschema:"its address"`
	Node      string `json:"node,omitempty" jsonschema:"the node that it runs on"`
}

// Deployments is the value of k8s:deployments.
type Deployments struct {
	Deployments []Deployment `json:"deployments" jsonschema:"the Deployments"`
	More        bool         `json:"more,omitempty" jsonschema:"there are more than limit"`
}

// Deployment is a Deployment as kubectl shows it.
type Deployment struct {
	Name      string `json:"name" jsonschema:"name of the Deployment"`
	Namespace string `json:"namespace" jsonschema:"its namespace"`
	Ready     string `json:"ready" jsonschema:"ready replicas of those wanted, such as 2/3"`
	UpToDate  string `json:"up_to_date" jsonschema:"replicas of the newest version"`
	Available string `json:"available" jsonschema:"replicas that are available"`
	Age       string `json:"age" jsonschema:"its age"`
	Images    string `json:"images,omitempty" jsonschema:"images of its containers"`
}

// list runs a call that lists objects of a resource.
func (k *k8s) list(ctx context.Context, req *source.Request, in ListArgs, group, resource string) (rows []row, more bool, err error) {
	c, err := k.connect(ctx, req.Identity)
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	limit := cmp.Or(in.Limit, 200)
	rows, err = c.table(ctx, group+c.namespacePath(k.namespace(c, in.Namespace))+"/"+resource, in.Selector, limit+1)
	if err != nil {
		return nil, false, c.connectionError(ctx, err)
	}
	return rows[:min(len(rows), limit)], len(rows) > limit, nil
}

func (k *k8s) pods() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ListArgs, Pods]{
		Tool: definition("pods", "List Pods",
			"List Kubernetes pods with their status: which pods run, which are pending, not ready, restarting or crashing (CrashLoopBackOff), how old they are and on which node.",
			map[string]any{"namespace": "default"}),
		Arguments: properties(),
		Predict:   func(*source.Request, ListArgs) []toolroom.Effect { return k.readEffects() },
		Run: func(ctx context.Context, req *source.Request, in ListArgs) (Pods, []toolroom.Content, error) {
			rows, more, err := k.list(ctx, req, in, "/api/v1", "pods")
			out, text := Pods{Pods: []Pod{}, More: more}, [][]string{{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE"}}
			for _, r := range rows {
				p := Pod{r.name, r.namespace, r.cells["Ready"], r.cells["Status"], r.cells["Restarts"], r.cells["Age"], r.cells["IP"], r.cells["Node"]}
				out.Pods = append(out.Pods, p)
				text = append(text, []string{p.Namespace, p.Name, p.Ready, p.Status, p.Restarts, p.Age, p.Node})
			}
			return out, builtin.Text(formatTable(text, more, "There are no Pods.")), err
		},
	})
}

func (k *k8s) deployments() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ListArgs, Deployments]{
		Tool: definition("deployments", "List Deployments",
			"List Kubernetes deployments with their readiness: how many replicas are ready, up to date and available, whether a rollout has finished, and their images.",
			map[string]any{"namespace": "default"}),
		Arguments: properties(),
		Predict:   func(*source.Request, ListArgs) []toolroom.Effect { return k.readEffects() },
		Run: func(ctx context.Context, req *source.Request, in ListArgs) (Deployments, []toolroom.Content, error) {
			rows, more, err := k.list(ctx, req, in, "/apis/apps/v1", "deployments")
			out, text := Deployments{Deployments: []Deployment{}, More: more}, [][]string{{"NAMESPACE", "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "IMAGES"}}
			for _, r := range rows {
				d := Deployment{r.name, r.namespace, r.cells["Ready"], r.cells["Up-to-date"], r.cells["Available"], r.cells["Age"], r.cells["Images"]}
				out.Deployments = append(out.Deployments, d)
				text = append(text, []string{d.Namespace, d.Name, d.Ready, d.UpToDate, d.Available, d.Age, d.Images})
			}
			return out, builtin.Text(formatTable(text, more, "There are no Deployments.")), err
		},
	})
}

// formatTable formats rows as a table for people and models, or returns none if there are no
// rows.
func formatTable(rows [][]string, more bool, none string) string {
	if len(rows) == 1 {
		return none
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			line += cell + strings.Repeat(" ", width[i]-len(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if more {
		b.WriteString("There are more: raise limit, or use a selector.\n")
	}
	return b.String()
}

// LogArgs are the arguments of k8s:logs.
type LogArgs struct {
	Pod       string `json:"pod" jsonschema:"name of the Pod"`
	Namespace string `json:"namespace,omitempty" jsonschema:"its namespace; the default is that of the config or kubeconfig"`
	Container string `json:"container,omitempty" jsonschema:"one of its containers; needed if it has several"`
	Lines     int    `json:"lines,omitempty" jsonschema:"number of lines from the end"`
	Since     string `json:"since,omitempty" jsonschema:"only lines written in this last period, such as 10m or 1h"`
	Previous  bool   `json:"previous,omitempty" jsonschema:"the log of the container before its last restart"`
	Follow    bool   `json:"follow,omitempty" jsonschema:"keep returning new lines until the container ends, the call is cancelled or seconds have passed"`
	Seconds   int    `json:"seconds,omitempty" jsonschema:"how long to follow, in seconds"`
}

// Log is the value of k8s:logs.
type Log struct {
	Pod       string `json:"pod" jsonschema:"name of the Pod"`
	Namespace string `json:"namespace" jsonschema:"its namespace"`
	Log       string `json:"log" jsonschema:"the lines"`
	Lines     int    `json:"lines" jsonschema:"their number"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"there was more, which was left out"`
}

const (
	defaultLines  = 100
	maxLines      = 10_000
	maxLog        = 4 << 20
	defaultFollow = 30
	maxFollow     = 3600
)

func (k *k8s) logs() builtin.Tool {
	tool := definition("logs", "Show logs of a Pod",
		"Show the recent logs of a Kubernetes pod: what its container wrote, also before it crashed (previous), or live while it runs (follow).", map[string]any{"pod": "web-5d4f8", "lines": 50, "since": "1h"})
	tool.Timeout, tool.DefaultTimeout = maxFollow*time.Second+time.Minute, maxFollow*time.Second+time.Minute
	return builtin.MustTool(builtin.Spec[LogArgs, Log]{
		Tool: tool,
		Arguments: map[string]builtin.Property{
			"pod": {"pattern": `^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`}, "namespace": {"pattern": `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`},
			"container": {"pattern": `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`}, "lines": {"minimum": 1, "maximum": maxLines, "default": defaultLines},
			"since": {"pattern": `^([0-9]+(\.[0-9]+)?(s|m|h))+$`}, "seconds": {"minimum": 1, "maximum": maxFollow, "default": defaultFollow},
		},
		Predict: func(*source.Request, LogArgs) []toolroom.Effect { return k.readEffects() },
		Run: func(ctx context.Context, req *source.Request, in LogArgs) (Log, []toolroom.Content, error) {
			out, err := k.log(ctx, req, in)
			return out, builtin.Text(cmp.Or(out.Log, "The log is empty.")), err
		},
	})
}

var errFollowed = errors.New("the log was followed long enough")

func (k *k8s) log(ctx context.Context, req *source.Request, in LogArgs) (Log, error) {
	c, err := k.connect(ctx, req.Identity)
	if err != nil {
		return Log{}, err
	}
	defer c.close()
	out := Log{Pod: in.Pod, Namespace: k.namespace(c, in.Namespace)}
	query := url.Values{"tailLines": {strconv.Itoa(cmp.Or(in.Lines, defaultLines))}}
	if in.Since != "" {
		since, err := time.ParseDuration(in.Since)
		if err != nil || since < time.Second {
			return out, toolroom.Errorf(toolroom.CodeInvalidArguments, "since is no time of a second or more").WithHint("write it like 10m or 1h")
		}
		query.Set("sinceSeconds", strconv.Itoa(int(since/time.Second)))
	}
	for name, value := range map[string]string{"container": in.Container, "previous": trueOrEmpty(in.Previous), "follow": trueOrEmpty(in.Follow)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	reading := ctx
	if in.Follow {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeoutCause(ctx, time.Duration(cmp.Or(in.Seconds, defaultFollow))*time.Second, errFollowed)
		defer cancel()
	}
	response, err := c.get(reading, "/api/v1"+c.namespacePath(out.Namespace)+"/pods/"+url.PathEscape(in.Pod)+"/log", query, "text/plain, */*")
	if err != nil {
		return out, c.connectionError(ctx, hintContainers(err))
	}
	defer response.Body.Close()
	err = out.read(response, func(line string) {
		if in.Follow {
			if chunk, err := json.Marshal(line); err == nil {
				req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: chunk})
			}
		}
	})
	if ctx.Err() != nil {
		err = ctx.Err() // a server that saw the cancel may have ended the log as if it were whole
	} else if err != nil && errors.Is(context.Cause(reading), errFollowed) {
		err = nil
	}
	if err != nil {
		err = c.connectionError(ctx, err)
	}
	return out, err
}

// trueOrEmpty returns the value of a boolean parameter; an empty one is omitted.
func trueOrEmpty(set bool) string {
	if set {
		return "true"
	}
	return ""
}

// hintContainers adds the next step to the error about a Pod with several containers.
func hintContainers(err error) error {
	if known, ok := errors.AsType[*toolroom.Error](err); ok && strings.Contains(known.Message, "container name must be specified") {
		return known.WithHint("pass one of them as container")
	}
	return err
}

// read reads lines until the log ends or is too long.
func (l *Log) read(response *http.Response, line func(string)) error {
	r := bufio.NewReaderSize(response.Body, 64<<10)
	var b strings.Builder
	defer func() { l.Log = strings.ToValidUTF8(b.String(), "\uFFFD") }()
	for {
		text, err := r.ReadSlice('\n')
		if b.Len()+len(text) > maxLog {
			l.Truncated = true
			return nil
		}
		b.Write(text)
		if len(text) > 0 {
			if text[len(text)-1] == '\n' || errors.Is(err, io.EOF) {
				l.Lines++
			}
			line(string(text))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("the log broke off: %w", err)
		}
	}
}
