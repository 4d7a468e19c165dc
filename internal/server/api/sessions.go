package api

import (
	"bytes"
	"context"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/session"
)

// Sessions stores code sessions for their owners. [session.Store] implements it.
type Sessions interface {
	List(owner string) ([]session.Info, error)
	Fork(ctx context.Context, owner, id, to string) (session.Info, error)
	Export(owner, id string, to io.Writer) error
	Import(ctx context.Context, owner, id string, from io.Reader) (session.Info, error)
	Delete(ctx context.Context, owner, id string) error
}

type sessionList struct {
	Sessions []session.Info `json:"sessions"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

type forkInput struct {
	ID string `path:"id"`
	To string `query:"to" required:"true" doc:"name of the copy"`
}

type importInput struct {
	Exchange
	ID string `query:"id" doc:"name of the imported session; if empty, the name that it had"`
}

// sessions returns the store of sessions and the caller as their owner. No caller can
// reach the sessions of others.
func (s *Server) sessions(ctx context.Context) (store Sessions, owner string, err error) {
	if s.o.Sessions == nil {
		return nil, "", unsupportedError("this server does not keep code sessions")
	}
	return s.o.Sessions, identity.Owner(auth.Identity(ctx)), nil
}

// session returns the store, its owner and the id of one of the caller's sessions.
func (s *Server) session(ctx context.Context, typed string) (store Sessions, owner, id string, err error) {
	if store, owner, err = s.sessions(ctx); err != nil {
		return nil, "", "", err
	}
	list, err := store.List(owner)
	if err != nil {
		return nil, "", "", err
	}
	id, err = nearest.ID(typed, idsOf(list, func(i session.Info) string { return i.ID }))
	return store, owner, id, err
}

func (s *Server) listSessions(ctx context.Context, in *Paging) (*jsonOutput[sessionList], error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	list, err := store.List(owner)
	if err != nil {
		return nil, err
	}
	list, next, err := Page(list, *in, func(i session.Info) string { return i.ID })
	return &jsonOutput[sessionList]{sessionList{Sessions: list, Next: next}}, err
}

func (s *Server) forkSession(ctx context.Context, in *forkInput) (*jsonOutput[session.Info], error) {
	store, owner, id, err := s.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	info, err := store.Fork(ctx, owner, id, in.To)
	return &jsonOutput[session.Info]{info}, err
}

func (s *Server) exportSession(ctx context.Context, in *itemInput) (*raw, error) {
	store, owner, id, err := s.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer // an error must come before the response's status is sent
	if err := store.Export(owner, id, &file); err != nil {
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		sendFile(in.w, &file, toolroom.Artifact{Name: id + ".session", Size: int64(file.Len())})
	}}, nil
}

func (s *Server) importSession(ctx context.Context, in *importInput) (*jsonOutput[session.Info], error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	info, err := store.Import(ctx, owner, in.ID, in.r.Body)
	return &jsonOutput[session.Info]{info}, err
}

func (s *Server) deleteSession(ctx context.Context, in *itemInput) (*struct{}, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	// A damaged session is not listed, so try the exact name before the names that begin with it.
	if err = store.Delete(ctx, owner, in.ID); !isNotFound(err) {
		return nil, err
	}
	_, _, id, err := s.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, store.Delete(ctx, owner, id)
}
