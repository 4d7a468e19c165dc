package openapi

import (
	"encoding/json"
	"maps"
	"net/url"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// operation is one operation of a document: its tool, and the rules by which a call becomes
// a request.
type operation struct {
	tool   toolroom.Tool
	method string
	// path is as in the document, with {name} for parameters.
	path string
	// query is what the document's path has after a question mark, if anything.
	query      url.Values
	server     *url.URL
	parameters []parameter
	body       *body
	// security lists alternative ways to authenticate.
	security [][]scheme
	// keyed means that the idempotency key of the call is sent in a header.
	keyed bool
}

// parameter is the place of one argument in the request.
type parameter struct {
	// argument is the name in the input schema, and name the one in the request.
	argument, name string
	in             string // path, query, header or cookie
	style          string
	explode        bool
	json           bool // the value is sent as JSON text
}

// body is the request body, made from the arguments that are not parameters.
type body struct {
	mediaType string
	encoding  encoding
	// argument is the name of the argument with the whole body, if its fields are not
	// arguments themselves.
	argument string
	required bool
	// fields are the properties of forms whose encoding the document specifies.
	fields map[string]formField
}

type encoding int

const (
	jsonBody encoding = iota
	formBody
	multipartBody
	textBody
	bytesBody
)

// formField is the encoding of one property of a form.
type formField struct {
	mediaType string // of a part; empty for the default
	binary    bool   // the argument is base64, the part its bytes
	style     string
	explode   bool
}

// scheme is a security scheme that a request may use.
type scheme struct {
	name string // in the document and in Config.Auth
	kind schemeKind
	in   string // of a key: header, query or cookie
	key  string // the name of a key's header, query value or cookie
}

type schemeKind int

const (
	apiKey schemeKind = iota
	bearer
	basic
)

// bodyArguments returns the arguments that are not parameters.
func (o *operation) bodyArguments(args httpcall.Arguments) httpcall.Arguments {
	rest := httpcall.Arguments{}
	maps.Copy(rest, args)
	for _, p := range o.parameters {
		delete(rest, p.argument)
	}
	return rest
}

// payload returns the part of the arguments that goes into the body, or false if there is
// none.
func (o *operation) payload(args httpcall.Arguments) (json.RawMessage, bool, error) {
	if o.body.argument != "" {
		value, given := args[o.body.argument]
		return value, given, nil
	}
	rest := o.bodyArguments(args)
	if len(rest) == 0 && !o.body.required {
		return nil, false, nil
	}
	value, err := json.Marshal(rest)
	return value, true, err
}
