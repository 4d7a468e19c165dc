package api

import (
	"context"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Artifacts keeps bytes for their owners; [artifact.Store] does.
type Artifacts interface {
	Put(ctx context.Context, owner string, kind artifact.Kind, name, mimeType string, r io.Reader) (toolroom.Artifact, error)
	Open(ctx context.Context, owner, handle string) (*os.File, toolroom.Artifact, error)
	Stat(ctx context.Context, owner, handle string) (toolroom.Artifact, error)
	List(ctx context.Context, owner string) ([]toolroom.Artifact, error)
	Delete(ctx context.Context, owner, handle string) error
	Read(ctx context.Context, owner, handle string, o artifact.ReadOptions) (*artifact.Page, error)
}

const (
	octets      = "application/octet-stream"
	maxMIMEType = 255
)

// Owned says whose artifacts are meant.
type Owned struct {
	Owner string `query:"owner" doc:"whose artifacts; operators only, others have their own"`
}

type artifactsInput struct {
	Owned
}

type artifactsOutput struct {
	Body artifactList
}

type artifactList struct {
	Artifacts []toolroom.Artifact `json:"artifacts"`
}

type artifactInput struct {
	Handle string `path:"handle"`
	Owned
}

type artifactOutput struct {
	Body toolroom.Artifact
}

type contentInput struct {
	Exchange
	Handle string `path:"handle"`
	Owned
	Offset   int64  `query:"offset" minimum:"0" doc:"first byte"`
	Limit    int64  `query:"limit" minimum:"0" doc:"most bytes"`
	Grep     string `query:"grep" doc:"lines that match a regular expression (RE2)"`
	Context  int    `query:"context" minimum:"0" maximum:"50" doc:"lines around each match"`
	JSONPath string `query:"json_path" doc:"RFC 9535, for example $.items[0:5].name"`
	Raw      bool   `query:"raw" doc:"the bytes themselves; so does Accept: application/octet-stream"`
}

type uploadInput struct {
	Exchange
	Owned
	Name string `query:"name" maxLength:"255"`
}

type uploadOutput struct {
	Location string `header:"Location"`
	Body     toolroom.Artifact
}

func (s *Server) routeArtifacts() {
	register(s, huma.Operation{
		OperationID: "list-artifacts", Method: http.MethodGet, Path: "/artifacts", Tags: []string{"artifacts"},
		Summary: "List what is kept for the caller",
	}, s.listArtifacts)
	register(s, huma.Operation{
		OperationID: "get-artifact", Method: http.MethodGet, Path: "/artifacts/{handle}", Tags: []string{"artifacts"},
		Summary: "What an artifact is",
	}, s.getArtifact)
	register(s, huma.Operation{
		OperationID: "read-artifact", Method: http.MethodGet, Path: "/artifacts/{handle}/content", Tags: []string{"artifacts"},
		Summary: "A page of an artifact, or its bytes",
		Responses: map[string]*huma.Response{"200": {Description: "The page or the bytes", Content: map[string]*huma.MediaType{
			"application/json": {Schema: s.schema(reflect.TypeFor[artifact.Page]())},
			octets:             {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}},
	}, s.readArtifact)
	register(s, huma.Operation{
		OperationID: "upload-artifact", Method: http.MethodPost, Path: "/artifacts", Tags: []string{"artifacts"},
		Summary: "Keep a file; the body is its bytes and Content-Type its type", DefaultStatus: http.StatusCreated,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}},
	}, s.uploadArtifact)
	register(s, huma.Operation{
		OperationID: "delete-artifact", Method: http.MethodDelete, Path: "/artifacts/{handle}", Tags: []string{"artifacts"},
		Summary: "Forget an artifact",
	}, s.deleteArtifact)
}

// store is where artifacts are, and owner whose of them the request means.
func (s *Server) store(ctx context.Context, o Owned) (store Artifacts, owner string, err error) {
	who := auth.Identity(ctx)
	switch {
	case s.o.Artifacts == nil:
		return nil, "", unsupported("this server keeps no artifacts")
	case o.Owner == "" || o.Owner == who.Key():
		return s.o.Artifacts, who.Key(), nil
	case !auth.IsOperator(who):
		return nil, "", toolroom.Errorf(toolroom.CodeDenied, "only an operator sees what belongs to %s", o.Owner).
			WithHint("leave owner out to see your own")
	default:
		return s.o.Artifacts, o.Owner, nil
	}
}

func (s *Server) listArtifacts(ctx context.Context, in *artifactsInput) (*artifactsOutput, error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	return &artifactsOutput{Body: artifactList{Artifacts: append([]toolroom.Artifact{}, list...)}}, nil
}

func (s *Server) getArtifact(ctx context.Context, in *artifactInput) (*artifactOutput, error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	a, err := store.Stat(ctx, owner, in.Handle)
	if err != nil {
		return nil, err
	}
	return &artifactOutput{Body: a}, nil
}

func (s *Server) readArtifact(ctx context.Context, in *contentInput) (*raw, error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	if !in.Raw && !in.wants(octets) {
		page, err := store.Read(ctx, owner, in.Handle, artifact.ReadOptions{
			Offset: in.Offset, Limit: in.Limit, Grep: in.Grep, Context: in.Context, JSONPath: in.JSONPath,
		})
		if err != nil {
			return nil, err
		}
		return in.answer(http.StatusOK, page), nil
	}
	file, about, err := store.Open(ctx, owner, in.Handle)
	if err != nil {
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		defer file.Close()
		sendFile(in.w, file, about)
	}}, nil
}

// sendFile sends bytes that a tool made so that no browser runs them.
func sendFile(w http.ResponseWriter, file io.Reader, about toolroom.Artifact) {
	name := about.Name
	if name == "" {
		name = about.Handle
	}
	h := w.Header()
	h.Set("Content-Type", octets)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Length", strconv.FormatInt(about.Size, 10))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if _, err := io.Copy(w, file); err != nil {
		// The length has been promised: a cut answer must not look whole.
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) uploadArtifact(ctx context.Context, in *uploadInput) (*uploadOutput, error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	mimeType := in.r.Header.Get("Content-Type")
	if _, _, err := mime.ParseMediaType(mimeType); err != nil || len(mimeType) > maxMIMEType {
		mimeType = octets
	}
	kept, err := store.Put(ctx, owner, artifact.File, in.Name, mimeType, in.r.Body)
	if err != nil {
		return nil, err
	}
	return &uploadOutput{Location: Prefix + "/artifacts/" + kept.Handle, Body: kept}, nil
}

func (s *Server) deleteArtifact(ctx context.Context, in *artifactInput) (*struct{}, error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	return nil, store.Delete(ctx, owner, in.Handle)
}
