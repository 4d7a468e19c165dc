// Command client tests Toolroom's MCP client. The MCP conformance suite starts it. It opens
// a source as a room does, and calls its tools as each scenario requires. The suite passes
// the server's address as the argument and the scenario in the environment.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// scenarioTimeout limits one scenario; the suite allows 30 s.
const scenarioTimeout = 25 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: MCP_CONFORMANCE_SCENARIO=name client URL")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Getenv("MCP_CONFORMANCE_CONTEXT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scenarioInput is the input of a scenario for its client.
type scenarioInput struct {
	credentials
	ToolCalls []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func run(ctx context.Context, url, scenario, text string) error {
	var g scenarioInput
	if text != "" {
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	tokens := &memory{}
	s := mcp.New(mcp.Config{
		Namespace: "suite",
		URL:       url,
		Auth: func(string) *oauth.Client {
			return oauth.New(g.config(url, scenario), tokens, nil)
		},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Version: "conformance",
	})
	defer s.Close()
	c := &client{s}
	var tools []toolroom.Tool
	err := withLogin(ctx, s, func() (err error) {
		tools, err = s.Tools(ctx)
		return err
	})
	if err != nil {
		return err
	}
	switch scenario {
	case "tools_call":
		return c.call(ctx, "add_numbers", `{"a": 5, "b": 3}`)
	case "elicitation-sep1034-client-defaults":
		return c.call(ctx, "test_client_elicitation_defaults", `{}`)
	case "sse-retry":
		return c.call(ctx, "test_reconnection", `{}`)
	case "json-schema-2020-12-preservation":
		i := slices.IndexFunc(tools, func(t toolroom.Tool) bool { return t.ID.Name == "json_schema_2020_12_tool" })
		if i < 0 {
			return errors.New("the tool json_schema_2020_12_tool is not listed")
		}
		return c.call(ctx, "json_schema_echo", `{"schema": `+string(tools[i].InputSchema)+`}`)
	case "sep-2322-client-request-state":
		var errs []error
		for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
			errs = append(errs, c.call(ctx, name, `{}`))
		}
		return errors.Join(errs...)
	case "http-custom-headers":
		var errs []error
		for _, call := range g.ToolCalls {
			errs = append(errs, c.call(ctx, call.Name, string(call.Arguments)))
		}
		return errors.Join(errs...)
	}
	// The other scenarios check what any client does: list tools and call them.
	var errs []error
	for _, t := range tools {
		errs = append(errs, c.call(ctx, t.ID.Name, `{"region": "us-west1"}`))
	}
	return errors.Join(errs...)
}

type client struct{ *mcp.Source }

func (c *client) call(ctx context.Context, tool, arguments string) error {
	err := withLogin(ctx, c.Source, func() error {
		_, err := c.Call(ctx, &source.Request{
			Call:      "call_" + tool,
			Tool:      toolroom.ID{Namespace: "suite", Name: tool},
			Arguments: json.RawMessage(arguments),
			Emit:      func(toolroom.Event) {},
			Ask:       person{},
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

// person answers the questions of servers, and agrees to everything.
type person struct{ source.NoAsker }

func (person) Can(string) bool { return true }

func (person) Ask(_ context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	for key, q := range questions {
		switch q.Method {
		case source.MethodElicit:
			answers[key] = json.RawMessage(`{"action": "accept", "content": {}}`)
		case source.MethodRoots:
			answers[key] = json.RawMessage(`{"roots": []}`)
		default:
			return nil, source.Unanswerable(q.Method)
		}
	}
	return answers, nil
}
