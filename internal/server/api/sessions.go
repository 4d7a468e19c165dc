package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/session"
)

// Sessions keeps what programs leave behind for their owners; [session.Store]
// does.
type Sessions interface {
	List(owner string) ([]session.Info, error)
	Fork(ctx context.Context, owner, id, to string) (session.Info, error)
	Export(owner, id string, to io.Writer) error
	Import(ctx context.Context, owner, id string, from io.Reader) (session.Info, error)
	Delete(ctx context.Context, owner, id string) error
}

type sessionsOutput struct {
	Body sessionList
}

type sessionList struct {
	Sessions []session.Info `json:"sessions"`
}

type sessionInput struct {
	Exchange
	ID string `path:"id"`
}

type forkInput struct {
	ID string `path:"id"`
	To string `query:"to" required:"true" doc:"the name of the copy"`
}

type importInput struct {
	Exchange
	ID string `query:"id" doc:"the name to keep it under; the one it had if empty"`
}

type sessionMade struct {
	Body session.Info
}

func (s *Server) routeSessions() {
	file := map[string]*huma.MediaType{octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	register(s, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/sessions", Tags: []string{"sessions"},
		Summary: "List the caller's sessions",
	}, s.listSessions)
	register(s, huma.Operation{
		OperationID: "fork-session", Method: http.MethodPost, Path: "/sessions/{id}/fork", Tags: []string{"sessions"},
		Summary: "Copy a session, to go on from it in two ways", DefaultStatus: http.StatusCreated,
	}, s.forkSession)
	register(s, huma.Operation{
		OperationID: "export-session", Method: http.MethodGet, Path: "/sessions/{id}/export", Tags: []string{"sessions"},
		Summary:   "A session as a file, with all that its variables hold",
		Responses: map[string]*huma.Response{"200": {Description: "The file", Content: file}},
	}, s.exportSession)
	register(s, huma.Operation{
		OperationID: "import-session", Method: http.MethodPost, Path: "/sessions", Tags: []string{"sessions"},
		Summary: "Keep a session that was exported; what is in it is code that the next program runs", DefaultStatus: http.StatusCreated,
		RequestBody: &huma.RequestBody{Required: true, Content: file},
	}, s.importSession)
	register(s, huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: "/sessions/{id}", Tags: []string{"sessions"},
		Summary: "Forget a session",
	}, s.deleteSession)
}

// sessions is where sessions are, and owner whose the caller's are: nobody has
// a way to those of others.
func (s *Server) sessions(ctx context.Context) (store Sessions, owner string, err error) {
	if s.o.Sessions == nil {
		return nil, "", unsupported("this server keeps no sessions")
	}
	return s.o.Sessions, auth.Identity(ctx).Key(), nil
}

func (s *Server) listSessions(ctx context.Context, _ *struct{}) (*sessionsOutput, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	list, err := store.List(owner)
	return &sessionsOutput{Body: sessionList{Sessions: list}}, err
}

func (s *Server) forkSession(ctx context.Context, in *forkInput) (*sessionMade, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	info, err := store.Fork(ctx, owner, in.ID, in.To)
	return &sessionMade{Body: info}, err
}

func (s *Server) exportSession(ctx context.Context, in *sessionInput) (*raw, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer // the answer's status must wait for the last error
	if err := store.Export(owner, in.ID, &file); err != nil {
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		sendFile(in.w, &file, toolroom.Artifact{Name: in.ID + ".session", Size: int64(file.Len())})
	}}, nil
}

func (s *Server) importSession(ctx context.Context, in *importInput) (*sessionMade, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	info, err := store.Import(ctx, owner, in.ID, in.r.Body)
	return &sessionMade{Body: info}, err
}

func (s *Server) deleteSession(ctx context.Context, in *sessionInput) (*struct{}, error) {
	store, owner, err := s.sessions(ctx)
	if err != nil {
		return nil, err
	}
	return nil, store.Delete(ctx, owner, in.ID)
}
