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
	return listing("tools", tools, more)
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

// page is a page of the list as JSON, and the cursor of the next. Tools that are
// for pages alone are left out where none are shown.
func (s *Server) page(ctx context.Context, cursor string, pages bool) (json.RawMessage, string, error) {
	who := s.o.Identity(ctx)
	expose := s.exposed(who)
	defined := s.defined()
	view := s.view(who, s.environment(ctx))
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: cursor,
		// Many clients read only the first page.
		Limit: catalog.MaxPage,
		View:  view.Only(func(e *catalog.Entry) bool { return expose.lists(e) && (pages || !pagesOnly(e)) }),
	})
	if err != nil {
		return nil, "", err
	}
	var own []*listedTool
	if cursor == "" {
		own = s.ownTools(expose)
		own = append(own, s.sourceSearches(who)...)
	}
	list, err := defined.list(own, page.Entries, s.shownName)
	return list, page.Next, err
}

// view is what a caller sees here of an environment: what policy lets it call, without
// what this surface hides.
func (s *Server) view(who toolroom.Identity, environment string) catalog.View {
	return s.o.Runner.View(who, environment).Only(func(e *catalog.Entry) bool {
		return !policy.AnyMatches(s.expose.of(who).Hidden, &e.Tool)
	})
}

// modelView is what the model of a caller may find.
func (s *Server) modelView(r *request) catalog.View {
	return s.view(r.who, s.environment(r.ctx)).Only(func(e *catalog.Entry) bool { return !pagesOnly(e) })
}

// visible tells what a caller sees here that names no environment.
func (s *Server) visible(who toolroom.Identity) func(*catalog.Entry) bool {
	return s.view(who, "").Visible
}

// allowed reports whether a caller may call an entry here, which is that of a version.
func (s *Server) allowed(who toolroom.Identity, e *catalog.Entry) bool {
	return !policy.AnyMatches(s.expose.of(who).Hidden, &e.Tool) && s.o.Runner.Allowed(who, e)
}

// shownName is the name of a tool here. One of this surface's own tools keeps
// its name; a tool that has it too is shown with its namespace.
func (s *Server) shownName(e *catalog.Entry) string {
	expose := s.expose.now()
	name := s.o.Runner.Catalog.ShownName(e, expose.Plain)
	if expose.owns(name) {
		return e.ModelName
	}
	return name
}

// listing is a page of a list. What a client sees depends on who it is.
func listing(key string, items any, next string) (*result, error) {
	list, err := relayed(json.RawMessage(`{"ttlMs":` + strconv.Itoa(listTTL) + `,"cacheScope":"private","` + key + `":[]}`))
	if err != nil {
		return nil, err
	}
	list.members.set(key, items)
	if next != "" {
		list.members.set("nextCursor", next)
	}
	return list, nil
}

// appsExtension is MCP Apps (SEP-1865): tools with a page, which is a resource.
const appsExtension = "io.modelcontextprotocol/ui"

// pagesOnly reports whether a tool is for its page alone. A client that shows no
// pages would take it for one of the model's.
func pagesOnly(e *catalog.Entry) bool {
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
