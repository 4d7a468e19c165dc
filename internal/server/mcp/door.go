package mcpserver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/panics"
)

// The doors are the one tool, resource and prompt that the SDK knows of. It
// never answers with them: lists are filled from the catalog and the library.
// Adding a door again is what makes the SDK tell its clients, of either era, that
// a list has changed.
const (
	door    = "toolroom"
	doorURI = "toolroom://door"
)

// listTTL is how long a client may keep a list that it does not listen for
// changes of, in milliseconds.
const listTTL = 10_000

func (s *Server) openDoors() {
	s.toolsChanged()
	s.resourcesChanged()
	s.promptsChanged()
	s.cancels = append(s.cancels,
		s.o.Runner.Catalog.Subscribe(func([]toolroom.Change) { s.toolsChanged() }),
		s.o.Library.Subscribe(func(c library.Change) {
			if c.Resources {
				s.resourcesChanged()
			}
			if c.Prompts {
				s.promptsChanged()
			}
			if c.Source {
				go panics.Log(s.o.Log, "watching resources anew", s.watchAnew)
			}
		}),
		s.o.Library.OnUpdate(s.resourceUpdated),
		s.o.Library.OnNotification(s.noticed),
	)
}

func (s *Server) toolsChanged() {
	s.server.AddTool(&mcp.Tool{Name: door, InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
}

func (s *Server) resourcesChanged() {
	s.server.AddResource(&mcp.Resource{Name: door, URI: doorURI}, nil)
}

func (s *Server) promptsChanged() {
	s.server.AddPrompt(&mcp.Prompt{Name: door}, nil)
}

// notifyTimeout bounds how long clients that do not read hold up the news.
const notifyTimeout = 10 * time.Second

func (s *Server) resourceUpdated(u library.Update) {
	params := &mcp.ResourceUpdatedNotificationParams{URI: u.Shown}
	if said := u.Params; said != nil {
		if u.Shown != u.URI {
			said = withMember(said, "uri", u.Shown)
		}
		params.Meta = mcp.Meta{updateKey: said}
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		// A client that cannot be told has gone.
		_ = s.server.ResourceUpdated(ctx, params)
	}()
}
