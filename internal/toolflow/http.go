package toolflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/toolroom/toolroom"
)

// Limits of requests to a server of ToolFlow.
const (
	apiTimeout  = 30 * time.Second
	maxResponse = 64 << 20
)

// maxAnswers limits all answers together, and maxItems the entries of all lists: an empty
// entry takes a hundred times its text. Tests lower maxAnswers.
var maxAnswers int64 = maxFile

const maxItems = 100_000

// api is a running server of ToolFlow.
type api struct {
	base      string
	remaining int64 // of maxAnswers
	itemsLeft int   // left of maxItems
}

// listItems reads the entries of a list.
func listItems[T any](ctx context.Context, a *api, path string) ([]T, error) {
	list := items[T]{left: &a.itemsLeft}
	err := a.get(ctx, path, &list)
	return list.all, err
}

// items is an answer {"items": [...]}, which is decoded one entry at a time.
type items[T any] struct {
	left *int
	all  []T
}

var errTooManyItems = toolroom.Errorf(toolroom.CodeResourceLimit, "ToolFlow's lists have more than %d entries in all", maxItems).
	WithHint("import its database instead")

func (i *items[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return cmp.Or(err, errors.New("it is no object"))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != "items" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
			continue
		}
		if open, err := d.Token(); err != nil || open != json.Delim('[') {
			return cmp.Or(err, errors.New("items is no list"))
		}
		for ; d.More(); *i.left-- {
			if *i.left <= 0 {
				return errTooManyItems
			}
			var one T
			if err := d.Decode(&one); err != nil {
				return err
			}
			i.all = append(i.all, one)
		}
		if _, err := d.Token(); err != nil { // ]
			return err
		}
	}
	return nil
}

// readAPI reads the tools over the HTTP API of a running server.
func readAPI(ctx context.Context, base string) ([]Tool, error) {
	a := &api{base, maxAnswers, maxItems}
	list, err := listItems[struct {
		ID, Name, Description string
		Prod                  *int `json:"prod_version"`
		Test                  *int `json:"test_version"`
	}](ctx, a, "/api/admin/tools")
	if err != nil {
		return nil, err
	}
	var tools []Tool
	for _, item := range list {
		t := Tool{ID: item.ID, Name: item.Name, Description: item.Description}
		if item.Prod != nil {
			t.Prod = *item.Prod
		}
		if item.Test != nil {
			t.Test = *item.Test
		}
		versions, err := listItems[struct {
			Version               int
			Code, Status, Message string
			EntryPoint            string `json:"entry_point"`
			Config, Schema        json.RawMessage
		}](ctx, a, "/api/admin/tools/"+url.PathEscape(t.ID)+"/versions")
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			t.Versions = append(t.Versions, Version{
				Number: v.Version, Code: v.Code, Entry: v.EntryPoint, Config: v.Config, Schema: v.Schema, Message: v.Message, Status: v.Status,
			})
		}
		if err := t.readRuns(ctx, a); err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return sortTools(tools), nil
}

// readRuns reads the newest test runs that succeeded.
func (t *Tool) readRuns(ctx context.Context, a *api) error {
	q := url.Values{"status": {"success"}, "tool_id": {t.ID}, "target_env": {"test"}, "page_size": {"10"}}
	list, err := listItems[struct{ ID string }](ctx, a, "/api/admin/executions?"+q.Encode())
	if err != nil {
		return err
	}
	for _, item := range list {
		var one struct {
			Version       int
			Input, Output json.RawMessage
		}
		if err := a.get(ctx, "/api/admin/executions/"+url.PathEscape(item.ID), &one); err != nil {
			return err
		}
		t.add(Run{ID: item.ID, Version: one.Version, Input: one.Input, Output: one.Output})
	}
	return nil
}

// requestCause returns the reason without the request, which the message names.
func requestCause(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// get reads the answer to a path.
func (a *api) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return fmt.Errorf("the address of ToolFlow: %w", requestCause(err)) // without the password that it may have
	}
	address := req.URL.Redacted()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "cannot reach ToolFlow at %s: %w", address, requestCause(err)).
			WithHint("start ToolFlow's server and give its address, or import its database").
			WithCLIHint("start ToolFlow's server and give its address, or import its database: toolroom import toolflow server/db.sqlite3")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "GET %s: %s", address, resp.Status).
			WithHint("give the address of ToolFlow's server without a path, such as http://127.0.0.1:8000")
	}
	body := &io.LimitedReader{R: resp.Body, N: min(maxResponse, a.remaining)}
	before := body.N
	err = json.NewDecoder(body).Decode(into)
	if a.remaining -= before - body.N; err != nil && body.N == 0 {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "GET %s: ToolFlow's answers are too large: one may have %d bytes, and all together %d", address, int64(maxResponse), maxAnswers).
			WithHint("import its database instead")
	}
	if errors.Is(err, errTooManyItems) {
		return err
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "GET %s: %w", address, fmt.Errorf("not the JSON of ToolFlow: %w", err)).
			WithHint("another program answers there: give the address of ToolFlow's server")
	}
	return nil
}
