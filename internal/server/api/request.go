package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// maxJSON bounds the bodies that are read as one document. It leaves room for
// the largest arguments and what stands around them; how large those may be is
// for the runner to say.
const maxJSON = 16 << 20

// Exchange gives an operation the request itself, for bodies and streams. It is
// embedded in the operation's input.
type Exchange struct {
	w http.ResponseWriter
	r *http.Request
}

// Resolve is how huma hands the request over.
func (x *Exchange) Resolve(ctx huma.Context) []error {
	x.r, x.w = humago.Unwrap(ctx)
	return nil
}

// raw is the output of an operation that writes its answer itself.
type raw struct {
	Body func(huma.Context)
}

// answer makes a document the output of an operation, under any status.
func (x *Exchange) answer(status int, v any) *raw {
	return &raw{Body: func(huma.Context) { x.writeJSON(status, v) }}
}

// wants reports whether the client accepts a media type by name.
func (x *Exchange) wants(mediaType string) bool {
	for _, header := range x.r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if name, _, err := mime.ParseMediaType(part); err == nil && name == mediaType {
				return true
			}
		}
	}
	return false
}

// readJSON decodes the request's body, refusing members that T does not have.
// Members of the type json.RawMessage come out byte for byte, so that big
// integers and mistakes in arguments reach the runner as they were sent.
func readJSON[T any](x *Exchange) (T, error) {
	var v T
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxJSON))
	if err != nil {
		return v, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&v)
	if err == nil && decoder.More() {
		err = errors.New("something follows the JSON object")
	}
	switch {
	case errors.Is(err, io.EOF):
		return v, toolroom.Errorf(toolroom.CodeInvalidArguments, "the request has no body").WithHint("send a JSON object, at least {}")
	case err != nil:
		return v, toolroom.Errorf(toolroom.CodeInvalidArguments, "the request body cannot be used: %w", err).
			WithHint("see the schema of this request in %s/openapi.json", Prefix)
	}
	return v, nil
}

// jsonBody describes a body that readJSON reads.
func jsonBody[T any](s *Server) *huma.RequestBody {
	schema := s.schema(reflect.TypeFor[T]())
	s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref).AdditionalProperties = false
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// failure describes an answer that has the outcome T of a call that failed, or
// a problem when the request itself was refused.
func failure[T any](s *Server, description string) *huma.Response {
	r := jsonResponse[T](s, description)
	r.Content[problem.ContentType] = &huma.MediaType{Schema: s.schema(reflect.TypeFor[problem.Problem]())}
	return r
}

// jsonResponse describes an answer that writeJSON writes.
func jsonResponse[T any](s *Server, description string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(reflect.TypeFor[T]())}}}
}

// writeJSON answers with v. A client that went away is no error.
func (x *Exchange) writeJSON(status int, v any) {
	w := x.w
	body, err := jsonx.Marshal(v)
	if err != nil { // a tool gave a value that is not JSON
		problem.Write(w, toolroom.Errorf(toolroom.CodeInvalidOutput, "the answer cannot be written: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}
