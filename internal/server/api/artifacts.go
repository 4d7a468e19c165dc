package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Artifacts stores artifacts for their owners. [artifact.Store] implements it.
type Artifacts interface {
	Put(ctx context.Context, owner string, kind artifact.Kind, name, mimeType string, r io.Reader) (toolroom.Artifact, error)
	Open(ctx context.Context, owner, handle string) (*os.File, toolroom.Artifact, error)
	OpenRedacted(ctx context.Context, owner, handle string) (io.ReadCloser, toolroom.Artifact, error)
	Stat(ctx context.Context, owner, handle string) (toolroom.Artifact, error)
	List(ctx context.Context, owner string) ([]toolroom.Artifact, error)
	Delete(ctx context.Context, owner, handle string) error
	Read(ctx context.Context, owner, handle string, o artifact.ReadOptions) (*artifact.Page, error)
}

const (
	octets      = "application/octet-stream"
	maxMIMEType = 255
)

// Owned selects the owner of artifacts.
type Owned struct {
	Owner string `query:"owner" doc:"owner of the artifacts; only operators may name another caller"`
}

type artifactsInput struct {
	Owned
	Paging
}

type artifactList struct {
	Artifacts []toolroom.Artifact `json:"artifacts"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

type artifactInput struct {
	Handle string `path:"handle"`
	Owned
}

type contentInput struct {
	Exchange
	Handle string `path:"handle"`
	Owned
	Offset   int64  `query:"offset" minimum:"0" doc:"offset of the first byte"`
	Limit    int64  `query:"limit" minimum:"0" doc:"maximum number of bytes"`
	Grep     string `query:"grep" doc:"return only lines that match this regular expression (RE2)"`
	Context  int    `query:"context" minimum:"0" maximum:"50" doc:"number of lines around each match"`
	JSONPath string `query:"json_path" doc:"select values of a JSON document (RFC 9535), for example $.items[0:5].name"`
	Raw      bool   `query:"raw" doc:"return the bytes themselves; Accept: application/octet-stream does the same"`
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

// store returns the store of artifacts and the owner that the request selects.
func (s *Server) store(ctx context.Context, o Owned) (store Artifacts, owner string, err error) {
	who := auth.Identity(ctx)
	switch {
	case s.o.Artifacts == nil:
		return nil, "", unsupportedError("this server has no artifact store")
	case o.Owner == "" || o.Owner == who.Key():
		return s.o.Artifacts, identity.Owner(who), nil
	case !auth.IsOperator(who):
		return nil, "", toolroom.Errorf(toolroom.CodeDenied, "only an operator may see the artifacts of %s", o.Owner).
			WithHint("omit owner to see your own")
	default:
		return s.o.Artifacts, identity.All(o.Owner), nil
	}
}

// artifact returns the store, the owner that the request selects, and the handle that equals
// typed or begins with it.
func (s *Server) artifact(ctx context.Context, o Owned, typed string) (store Artifacts, owner, handle string, err error) {
	if store, owner, err = s.store(ctx, o); err != nil {
		return nil, "", "", err
	}
	list, err := store.List(ctx, owner)
	if err != nil {
		return nil, "", "", err
	}
	handle, err = nearest.ID(typed, idsOf(list, func(a toolroom.Artifact) string { return a.Handle }))
	return store, owner, handle, err
}

func (s *Server) listArtifacts(ctx context.Context, in *artifactsInput) (*jsonOutput[artifactList], error) {
	store, owner, err := s.store(ctx, in.Owned)
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	list, next, err := Page(list, in.Paging, func(a toolroom.Artifact) string { return a.Handle })
	return &jsonOutput[artifactList]{artifactList{Artifacts: list, Next: next}}, err
}

func (s *Server) getArtifact(ctx context.Context, in *artifactInput) (*jsonOutput[toolroom.Artifact], error) {
	store, owner, handle, err := s.artifact(ctx, in.Owned, in.Handle)
	if err != nil {
		return nil, err
	}
	a, err := store.Stat(ctx, owner, handle)
	if err != nil {
		return nil, err
	}
	return &jsonOutput[toolroom.Artifact]{a}, nil
}

func (s *Server) readArtifact(ctx context.Context, in *contentInput) (*raw, error) {
	store, owner, handle, err := s.artifact(ctx, in.Owned, in.Handle)
	if err != nil {
		return nil, err
	}
	if !in.Raw && !in.wants(octets) {
		page, err := store.Read(ctx, owner, handle, artifact.ReadOptions{
			Offset: in.Offset, Limit: in.Limit, Grep: in.Grep, Context: in.Context, JSONPath: in.JSONPath,
		})
		if err != nil {
			return nil, err
		}
		return in.answer(http.StatusOK, page), nil
	}
	if in.Grep != "" || in.Context != 0 || in.JSONPath != "" {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "grep, context and json_path select text, not bytes").
			WithHint("omit raw and Accept: application/octet-stream, or select with offset and limit")
	}
	if in.Offset > 0 || in.Limit > 0 {
		return in.readPart(ctx, store, owner, handle)
	}
	file, about, err := store.Open(ctx, owner, handle)
	if err != nil {
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		defer file.Close()
		sendFile(in.w, file, about)
	}}, nil
}

// readPart returns a part of the redacted bytes. If the response were redacted alone, two parts
// could show the halves of a secret.
func (in *contentInput) readPart(ctx context.Context, store Artifacts, owner, handle string) (*raw, error) {
	file, about, err := store.OpenRedacted(ctx, owner, handle)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, file, in.Offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, file.Close())
	}
	about.Size = -1 // redaction may change it
	part := io.Reader(file)
	if in.Limit > 0 {
		part = io.LimitReader(file, in.Limit)
	}
	return &raw{Body: func(huma.Context) {
		defer file.Close()
		sendFile(in.w, part, about)
	}}, nil
}

// sendFile sends bytes that a tool made, with headers that keep browsers from running them. A
// negative size is not sent.
func sendFile(w http.ResponseWriter, file io.Reader, about toolroom.Artifact) {
	name := cmp.Or(about.Name, about.Handle)
	h := w.Header()
	h.Set("Content-Type", octets)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	if about.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(about.Size, 10))
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	if _, err := io.Copy(w, file); err != nil {
		// A truncated response must not look complete.
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
	if in.Owner != "" && in.Owner != auth.Identity(ctx).Key() { // an operator uploads for another owner
		owner = identity.Subject(owner)
	}
	kept, err := store.Put(ctx, owner, artifact.File, in.Name, mimeType, in.r.Body)
	if err != nil {
		return nil, err
	}
	return &uploadOutput{Location: Prefix + "/artifacts/" + kept.Handle, Body: kept}, nil
}

func (s *Server) deleteArtifact(ctx context.Context, in *artifactInput) (*struct{}, error) {
	store, owner, handle, err := s.artifact(ctx, in.Owned, in.Handle)
	if err != nil {
		return nil, err
	}
	return nil, store.Delete(ctx, owner, handle)
}
