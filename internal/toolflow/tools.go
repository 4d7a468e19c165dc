package toolflow

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// toolState is a tool: one that has versions, or that was created and has none yet.
type toolState struct {
	id string // here
	release.Card
	released map[string]int
	newest   int
}

// allTools returns all tools, in the order of their ids.
func (s *server) allTools(ctx context.Context) ([]toolState, error) {
	functions, err := s.Releases.List(ctx, release.Filter{})
	if err != nil {
		return nil, err
	}
	cards, err := s.Releases.Store.Cards(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]*toolState{}
	for _, f := range functions {
		first, err := s.Releases.Store.Version(ctx, f.Tool, 1)
		if err != nil {
			return nil, err
		}
		byID[f.Tool] = &toolState{id: f.Tool, Card: release.Card{Tool: f.Tool, Name: shortID(f.Tool), Description: f.Description, Created: first.Created}, released: f.Released, newest: f.Newest}
	}
	for _, c := range cards {
		if t := byID[c.Tool]; t != nil {
			t.Card = c
			continue
		}
		byID[c.Tool] = &toolState{id: c.Tool, Card: c}
	}
	var out []toolState
	for _, t := range byID {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b toolState) int { return cmp.Compare(shortID(a.id), shortID(b.id)) })
	return out, nil
}

// number returns a number, or nil for zero.
func number(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func (t *toolState) item() map[string]any {
	return map[string]any{
		"id": shortID(t.id), "name": t.Name, "description": t.Description, "created_at": formatTime(t.Created),
		"prod_version": number(t.released[release.Prod]), "test_version": number(t.released[release.Test]),
	}
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func (s *server) tools(r *http.Request, _ toolroom.Identity) (int, any, error) {
	all, err := s.allTools(r.Context())
	if err != nil {
		return 0, nil, err
	}
	items := []any{}
	for i := range all {
		items = append(items, all[i].item())
	}
	return http.StatusOK, map[string]any{"items": items}, nil
}

func (s *server) getTool(r *http.Request, _ toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, t.item(), nil
}

func (s *server) create(r *http.Request, who toolroom.Identity) (int, any, error) {
	var in struct{ ID, Name, Description string }
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	if in.ID == "" || in.Name == "" {
		return 0, nil, newHTTPError(http.StatusBadRequest, "id and name are required")
	}
	id, err := toolroom.ParseID(fullID(in.ID))
	if err != nil {
		return 0, nil, newHTTPError(http.StatusBadRequest, err.Error())
	}
	all, err := s.allTools(r.Context())
	if err != nil {
		return 0, nil, err
	}
	for _, t := range all {
		if t.id == id.String() {
			return 0, nil, newHTTPError(http.StatusConflict, "tool already exists")
		}
		if t.Name == in.Name {
			return 0, nil, newHTTPError(http.StatusConflict, "name already exists")
		}
	}
	if err := s.Releases.Check(id); err != nil {
		return 0, nil, err
	}
	card := release.Card{Tool: id.String(), Name: in.Name, Description: in.Description, Author: who.Key(), Created: time.Now().UTC()}
	if err := s.Releases.Store.PutCard(r.Context(), card); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, map[string]any{"id": in.ID, "name": in.Name}, nil
}

func (s *server) update(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Name, Description *string }
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	card := t.Card
	if in.Name != nil {
		if card.Name = strings.TrimSpace(*in.Name); card.Name == "" {
			return 0, nil, newHTTPError(http.StatusBadRequest, "name must be non-empty string")
		}
		all, err := s.allTools(r.Context())
		if err != nil {
			return 0, nil, err
		}
		if slices.ContainsFunc(all, func(o toolState) bool { return o.id != t.id && o.Name == card.Name }) {
			return 0, nil, newHTTPError(http.StatusConflict, "name already exists")
		}
	}
	if in.Description != nil {
		card.Description = *in.Description
	}
	card.Author = who.Key()
	if err := s.Releases.Store.PutCard(r.Context(), card); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"id": shortID(t.id), "name": card.Name, "description": card.Description}, nil
}

// versionItem is a version in ToolFlow's fields.
func versionItem(v *release.Version) map[string]any {
	code, entry := Original(&v.Spec)
	return map[string]any{
		"id": uuid(v.Tool, v.Number), "version": v.Number, "code": code, "entry_point": entry, "status": v.Status, "message": v.Message,
		"schema": orObject(v.Spec.InputSchema), "config": orObject(v.Spec.Config), "created_at": formatTime(v.Created),
	}
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

func (s *server) versions(r *http.Request, _ toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	all, err := s.Releases.Store.Versions(r.Context(), t.id)
	if err != nil {
		return 0, nil, err
	}
	items := []any{}
	for _, v := range all {
		items = append(items, versionItem(v))
	}
	return http.StatusOK, map[string]any{"items": items}, nil
}

func (s *server) push(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		Code, Message, Status string
		Entry                 string `json:"entry_point"`
		Config, Schema        json.RawMessage
	}
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	switch {
	case in.Code == "":
		return 0, nil, newHTTPError(http.StatusBadRequest, "code is required")
	case !slices.Contains([]string{"", "draft", "active", "deprecated"}, in.Status):
		return 0, nil, newHTTPError(http.StatusBadRequest, "status must be draft, active, or deprecated")
	}
	id, err := toolroom.ParseID(t.id)
	if err != nil {
		return 0, nil, err
	}
	v := Version{Code: in.Code, Entry: in.Entry, Config: in.Config, Schema: in.Schema, Message: in.Message}
	u, ours, err := s.editedUpload(r.Context(), t.id, v)
	if err == nil && !ours {
		u, err = v.Upload(id.Name, t.Description)
	}
	if err != nil {
		return 0, nil, err
	}
	u.Namespace = id.Namespace
	pushed, err := s.Releases.Push(r.Context(), u, who.Key())
	if err != nil {
		return 0, nil, Explain(err)
	}
	at := slices.IndexFunc(pushed, func(p release.Pushed) bool { return p.Tool == t.id })
	if at < 0 {
		return 0, nil, newHTTPError(http.StatusBadRequest, "the code no longer has this tool")
	}
	made := pushed[at].Version
	if in.Status != "" && in.Status != string(release.StatusDraft) {
		if made, err = s.changeStatus(r.Context(), made, in.Status, who); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusCreated, versionItem(made), nil
}

// editedUpload returns an upload of the newest version with other code, if that version is a
// function that was not written for ToolFlow: it gets its arguments one by one, so its code
// must not be called as ToolFlow's is. Its schema and its config come from its files.
func (s *server) editedUpload(ctx context.Context, tool string, v Version) (u release.Upload, ours bool, err error) {
	newest, err := s.Releases.Pick(ctx, tool, 0)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound || toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		return u, false, nil // it has none yet
	}
	if err != nil {
		return u, false, err
	}
	spec := &newest.Spec
	if _, wrapped := spec.Files[CodeFile]; wrapped || spec.Source != "" || spec.Language == "wasm" || v.Entry != spec.Entry {
		return u, false, nil
	}
	files := maps.Clone(spec.Files)
	files[spec.File] = v.Code
	return release.Upload{Files: files, File: spec.File, Message: v.Message, Base: -1}, true, nil
}

// version returns a version of a tool, with a message if there is none.
func (s *server) version(ctx context.Context, tool string, n int, missing string) (*release.Version, error) {
	v, err := s.Releases.Store.Version(ctx, tool, n)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return nil, newHTTPError(http.StatusNotFound, missing)
	}
	return v, err
}

func (s *server) setStatus(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	v, err := s.version(r.Context(), t.id, atoi(r.PathValue("version")), "version not found")
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Status string }
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	status := strings.ToLower(strings.TrimSpace(in.Status))
	if !slices.Contains([]string{"draft", "active", "deprecated"}, status) {
		return 0, nil, newHTTPError(http.StatusBadRequest, "status must be draft, active, or deprecated")
	}
	if v, err = s.changeStatus(r.Context(), v, status, who); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, versionItem(v), nil
}

// changeStatus changes the status of a version. Active is the version that prod serves, so it is
// released.
func (s *server) changeStatus(ctx context.Context, v *release.Version, status string, who toolroom.Identity) (*release.Version, error) {
	var err error
	switch {
	case status == string(v.Status):
		return v, nil
	case status == string(release.StatusActive):
		_, err = s.Releases.Release(ctx, release.Order{Tool: v.Tool, Version: v.Number}, who.Key())
	case status == string(release.StatusDeprecated):
		err = s.Releases.Deprecate(ctx, v.Tool, v.Number, "", false, who.Key())
	default:
		err = s.Releases.Deprecate(ctx, v.Tool, v.Number, "", true, who.Key())
	}
	if err != nil {
		return nil, err
	}
	return s.Releases.Store.Version(ctx, v.Tool, v.Number)
}

// target is the body of a release and of a rollback.
type target struct {
	Environment string
	Version     json.RawMessage `json:"version"`
	To          json.RawMessage `json:"to_version"`
}

// integerOf returns a JSON number without a fraction; ok is false for anything else.
func integerOf(text json.RawMessage) (n int, ok bool) {
	n, err := strconv.Atoi(string(text))
	return n, err == nil
}

func (s *server) readTarget(r *http.Request) (t *toolState, in target, err error) {
	if t, err = s.tool(r); err != nil {
		return nil, in, err
	}
	if err = read(r, &in); err != nil {
		return nil, in, err
	}
	in.Environment = cmp.Or(in.Environment, release.Prod)
	if in.Environment != release.Prod && in.Environment != release.Test {
		err = newHTTPError(http.StatusBadRequest, "environment must be prod or test")
	}
	return t, in, err
}

func (s *server) release(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, in, err := s.readTarget(r)
	if err != nil {
		return 0, nil, err
	}
	n, ok := integerOf(in.Version)
	if !ok {
		return 0, nil, newHTTPError(http.StatusBadRequest, "version must be int")
	}
	if _, err := s.version(r.Context(), t.id, n, "version not found"); err != nil {
		return 0, nil, err
	}
	if _, err := s.Releases.Release(r.Context(), release.Order{Tool: t.id, Version: n, Environment: in.Environment}, who.Key()); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"tool_id": shortID(t.id), "environment": in.Environment, "version": n, "updated_at": formatTime(time.Now())}, nil
}

func (s *server) rollback(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, in, err := s.readTarget(r)
	if err != nil {
		return 0, nil, err
	}
	n, ok := integerOf(in.To)
	if !ok {
		return 0, nil, newHTTPError(http.StatusBadRequest, "to_version must be int")
	}
	if _, err := s.version(r.Context(), t.id, n, "target version not found"); err != nil {
		return 0, nil, err
	}
	if t.released[in.Environment] != n {
		_, err = s.Releases.Rollback(r.Context(), t.id, in.Environment, n, "", who.Key())
		if toolroom.CodeOf(err) == toolroom.CodeConflict { // the environment has never served it
			_, err = s.Releases.Release(r.Context(), release.Order{Tool: t.id, Version: n, Environment: in.Environment, Reason: "rollback"}, who.Key())
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, map[string]any{"tool_id": shortID(t.id), "rolled_back_environment": in.Environment, "current_version": n, "updated_at": formatTime(time.Now())}, nil
}

// runTest submits a call of a version in the background.
func (s *server) runTest(r *http.Request, who toolroom.Identity) (int, any, error) {
	t, err := s.tool(r)
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		Arguments json.RawMessage
		Version   json.RawMessage
	}
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	arguments := orObject(in.Arguments)
	if arguments[0] != '{' {
		return 0, nil, newHTTPError(http.StatusBadRequest, "arguments must be object")
	}
	n := cmp.Or(t.released[release.Test], t.newest)
	if len(in.Version) > 0 && string(in.Version) != "null" {
		if n, err = versionNumber(in.Version); err != nil {
			return 0, nil, err
		}
	}
	if n == 0 {
		return 0, nil, newHTTPError(http.StatusBadRequest, "no version available for test run")
	}
	if _, err := s.version(r.Context(), t.id, n, "version not found"); err != nil {
		return 0, nil, err
	}
	job, err := s.Runner.Submit(r.Context(), toolroom.Call{
		Tool: t.id + "@" + strconv.Itoa(n), Arguments: arguments, Identity: auth.Identity(r.Context()), Environment: release.Draft, Surface: release.SurfaceTest,
	})
	if err != nil {
		return 0, nil, err
	}
	s.Wake()
	return http.StatusCreated, map[string]any{
		"execution_id": job.ID, "tool_id": shortID(t.id), "version": n, "status": "pending", "target_env": release.Test, "created_at": formatTime(job.Created),
	}, nil
}

func versionNumber(in json.RawMessage) (int, error) {
	n, ok := integerOf(in)
	if !ok {
		return 0, newHTTPError(http.StatusBadRequest, "version must be int")
	}
	return n, nil
}
