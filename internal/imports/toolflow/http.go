package toolflow

import (
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

// maxAnswers limits all answers together. Tests lower it.
var maxAnswers int64 = maxFile

// api is a running server of ToolFlow.
type api struct {
	base string
	left int64 // of maxAnswers
}

// readAPI reads the tools over the HTTP API of a running server.
func readAPI(ctx context.Context, base string) ([]Tool, error) {
	var list struct {
		Items []struct {
			ID, Name, Description string
			Prod                  *int `json:"prod_version"`
			Test                  *int `json:"test_version"`
		}
	}
	a := &api{base, maxAnswers}
	if err := a.get(ctx, "/api/admin/tools", &list); err != nil {
		return nil, err
	}
	var tools []Tool
	for _, item := range list.Items {
		t := Tool{ID: item.ID, Name: item.Name, Description: item.Description}
		if item.Prod != nil {
			t.Prod = *item.Prod
		}
		if item.Test != nil {
			t.Test = *item.Test
		}
		var versions struct {
			Items []struct {
				Version                      int
				Code, Status, Message, Entry string
				EntryPoint                   string `json:"entry_point"`
				Config, Schema               json.RawMessage
			}
		}
		if err := a.get(ctx, "/api/admin/tools/"+url.PathEscape(t.ID)+"/versions", &versions); err != nil {
			return nil, err
		}
		for _, v := range versions.Items {
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
	var list struct{ Items []struct{ ID string } }
	q := url.Values{"status": {"success"}, "tool_id": {t.ID}, "target_env": {"test"}, "page_size": {"10"}}
	if err := a.get(ctx, "/api/admin/executions?"+q.Encode(), &list); err != nil {
		return err
	}
	for _, item := range list.Items {
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

// rootOf returns the reason without the request, which the message names.
func rootOf(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// get reads the answer to a path.
func (a *api) get(ctx context.Context, path string, into any) error {
	address := a.base + path
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "cannot reach ToolFlow at %s: %w", address, rootOf(err)).
			WithHint("start ToolFlow's server and give its address, or import its database").
			WithCLIHint("start ToolFlow's server and give its address, or import its database: toolroom import toolflow server/db.sqlite3")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "GET %s: %s", address, resp.Status).
			WithHint("give the address of ToolFlow's server without a path, such as http://127.0.0.1:8000")
	}
	body := &io.LimitedReader{R: resp.Body, N: min(maxResponse, a.left)}
	before := body.N
	err = json.NewDecoder(body).Decode(into)
	if a.left -= before - body.N; err != nil && body.N == 0 {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "GET %s: ToolFlow's answers are too large: one may have %d bytes, and all together %d", address, int64(maxResponse), maxAnswers).
			WithHint("import its database instead")
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "GET %s: %w", address, fmt.Errorf("not the JSON of ToolFlow: %w", err)).
			WithHint("another program answers there: give the address of ToolFlow's server")
	}
	return nil
}
