package openapisource

import (
	"encoding/json"
	"net/url"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// operation is one operation of a document: its tool, and how a call of it
// becomes a request.
type operation struct {
	tool   toolroom.Tool
	method string
	// path is as in the document, with {name} for parameters.
	path       string
	server     *url.URL
	parameters []parameter
	body       *body
	// security lists the ways to authenticate, any of which will do.
	security [][]scheme
	// keyed operations take the idempotency key of the call in a header.
	keyed bool
}

// parameter is where one argument goes.
type parameter struct {
	// argument is the name in the input schema, name that in the request.
	argument, name string
	in             string // path, query, header or cookie
	style          string
	explode        bool
	json           bool // the value is sent as JSON text
}

// body is what the arguments that are no parameters become.
type body struct {
	mediaType string
	encoding  encoding
	// argument holds the whole body, when its fields are not arguments
	// themselves.
	argument string
	required bool
	// fields are the properties of forms whose encoding the document says.
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

// formField is how one property of a form is written.
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

// bodyArguments are those that no parameter takes.
func (o *operation) bodyArguments(args httpcall.Arguments) httpcall.Arguments {
	rest := httpcall.Arguments{}
	for name, value := range args {
		rest[name] = value
	}
	for _, p := range o.parameters {
		delete(rest, p.argument)
	}
	return rest
}

// payload is what of the arguments goes into the body; false for nothing.
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
