package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
)

// listTools answers tools/list.
func (s *Server) listTools(r *request) (*result, error) {
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	s.o.Ready(r.ctx)
	tools, more, err := s.page(r.ctx, cursor, r.can.pages)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return listResult("tools", tools, more)
}

func cursorOf(r *request) (string, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(r.Params) > 0 && json.Unmarshal(r.Params, &p) != nil {
		return "", invalidParams("the cursor of " + r.Method + " is a string")
	}
	return p.Cursor, nil
}

// page returns a page of the tool list as JSON, and the cursor of the next page. pages
// reports whether the client shows pages of MCP Apps; if not, tools that only pages may
// call are left out.
func (s *Server) page(ctx context.Context, cursor string, pages bool) (json.RawMessage, string, error) {
	who := s.o.Identity(ctx)
	expose := s.exposureFor(who)
	defined := s.currentDefinitions()
	view := s.view(who, s.environment(ctx))
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: cursor,
		// Many clients read only the first page.
		Limit: catalog.MaxPage,
		View:  view.Filter(func(e *catalog.Entry) bool { return expose.lists(e) && (pages || !isPageOnly(e)) }),
	})
	if err != nil {
		return nil, "", err
	}
	var own []*listedTool
	if cursor == "" {
		own = s.ownTools(expose)
		own = append(own, s.sourceSearchDefinitions(who)...)
	}
	list, err := defined.list(own, page.Entries, s.listedName)
	return list, page.Next, err
}

// view returns the part of the catalog that a caller sees in an environment: the tools that
// policy lets it call, except those that its exposure hides.
func (s *Server) view(who toolroom.Identity, environment string) catalog.View {
	return s.o.Runner.View(who, environment).Filter(func(e *catalog.Entry) bool {
		return !policy.MatchesTool(s.expose.forCaller(who).Hidden, &e.Tool)
	})
}

// modelView returns the part of the catalog that the model of a caller may find.
func (s *Server) modelView(r *request) catalog.View {
	return s.view(r.who, s.environment(r.ctx)).Filter(func(e *catalog.Entry) bool { return !isPageOnly(e) })
}

// visibleTo returns a function that reports whether a caller that names no environment sees
// an entry.
func (s *Server) visibleTo(who toolroom.Identity) func(*catalog.Entry) bool {
	return s.view(who, "").Visible
}

// allowed reports whether a caller may call an entry, which may be that of a version.
func (s *Server) allowed(who toolroom.Identity, e *catalog.Entry) bool {
	return !policy.MatchesTool(s.expose.forCaller(who).Hidden, &e.Tool) && s.o.Runner.Allowed(who, e)
}

// listedName returns the name under which clients see a tool. A tool with the name of one of
// the server's own tools gets its namespace as a prefix.
func (s *Server) listedName(e *catalog.Entry) string {
	expose := s.expose.load()
	name := s.o.Runner.Catalog.ShownName(e, expose.Plain)
	if expose.owns(name) {
		return e.ModelName
	}
	return name
}

// listResult returns the result for one page of a list. It is private to the caller, because
// callers see different lists.
func listResult(key string, items any, next string) (*result, error) {
	list, err := parseResult(json.RawMessage(`{"ttlMs":` + strconv.Itoa(listTTL) + `,"cacheScope":"private","` + key + `":[]}`))
	if err != nil {
		return nil, err
	}
	list.members.set(key, items)
	if next != "" {
		list.members.set("nextCursor", next)
	}
	return list, nil
}

// appsExtension is the extension MCP Apps (SEP-1865): tools with a page, which is a resource.
const appsExtension = "io.modelcontextprotocol/ui"

// isPageOnly reports whether only the tool's page may call a tool, not the model. A client
// that does not show pages would offer it to the model.
func isPageOnly(e *catalog.Entry) bool {
	if !bytes.Contains(e.Tool.Raw, []byte(`"visibility"`)) {
		return false
	}
	var sent struct {
		Meta struct {
			UI struct {
				Visibility []string `json:"visibility"`
			} `json:"ui"`
		} `json:"_meta"`
	}
	if json.Unmarshal(e.Tool.Raw, &sent) != nil {
		return false
	}
	audience := sent.Meta.UI.Visibility
	return len(audience) > 0 && !slices.Contains(audience, "model")
}
