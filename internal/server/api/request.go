package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

// maxJSON is the maximum size of a JSON body. It leaves room for the largest arguments
// and the members around them; the runner limits the arguments themselves.
const maxJSON = 16 << 20

// Exchange holds the HTTP request and response writer, for bodies and streams. An
// operation's input embeds it.
type Exchange struct {
	w http.ResponseWriter
	r *http.Request
}

// Resolve implements [huma.Resolver]: huma calls it with the request.
func (x *Exchange) Resolve(ctx huma.Context) []error {
	x.r, x.w = humago.Unwrap(ctx)
	return nil
}

// itemInput is the input of an operation on one thing that reads a body or writes the response
// itself.
type itemInput struct {
	ID string `path:"id"`
	Exchange
}

// jsonOutput is the output of an operation whose response is a T as JSON.
type jsonOutput[T any] struct {
	Body T
}

// raw is the output of an operation that writes the response itself.
type raw struct {
	Body func(huma.Context)
}

// answer returns v as the output of an operation, with any status.
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

// readJSON decodes the request's body. It rejects members that T does not have, and
// JSON that a proxy could read differently, such as duplicate members.
// Members of type json.RawMessage stay byte for byte, so that big integers and
// mistakes in arguments reach the runner as they were sent.
func readJSON[T any](x *Exchange) (T, error) {
	var v T
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxJSON))
	if err != nil {
		return v, err
	}
	// The runner limits the depth of arguments.
	err = jsonx.UnmarshalKnown(body, &v, jsonx.Limits{Bytes: maxJSON, Depth: math.MaxInt})
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return v, toolroom.Errorf(toolroom.CodeInvalidArguments, "the request has no body").WithHint("send a JSON object, at least {}")
	case err != nil:
		return v, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid request body: %w", describeMismatch(err)).
			WithHint("see the schema of this request in %s/openapi.json", Prefix)
	}
	return v, nil
}

// describeMismatch describes where a body does not match its type, without the type's names in Go.
func describeMismatch(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	what := "an object"
	switch wrong.Type.Kind() {
	case reflect.String:
		what = "text"
	case reflect.Bool:
		what = "true or false"
	case reflect.Slice, reflect.Array:
		what = "a list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		what = "a whole number"
	case reflect.Float32, reflect.Float64:
		what = "a number"
	}
	return fmt.Errorf("%s must be %s and is %s", cmp.Or(wrong.Field, "the body"), what, wrong.Value)
}

// jsonBody describes a request body for readJSON.
func jsonBody[T any](s *Server) *huma.RequestBody {
	schema := s.schema(reflect.TypeFor[T]())
	s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref).AdditionalProperties = false
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// failure describes the response to a failed call: its outcome T, or a problem if the
// request itself was refused.
func failure[T any](s *Server, description string) *huma.Response {
	r := jsonResponse[T](s, description)
	r.Content[problem.ContentType] = &huma.MediaType{Schema: s.schema(reflect.TypeFor[problem.Problem]())}
	return r
}

// jsonResponse describes a response of writeJSON.
func jsonResponse[T any](s *Server, description string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(reflect.TypeFor[T]())}}}
}

// writeJSON responds with v. It ignores clients that have gone.
func (x *Exchange) writeJSON(status int, v any) {
	w := x.w
	body, err := jsonx.Marshal(v)
	if err != nil { // a tool returned a value that is not JSON
		problem.Write(w, toolroom.Errorf(toolroom.CodeInvalidOutput, "encode the response: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}
