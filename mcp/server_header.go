package mcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Headers of 2026-07-28 that repeat parts of the body for routers. They must match the body
// (SEP-2243).
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// namedMethods are the methods whose object the header Mcp-Name repeats.
var namedMethods = map[string]bool{
	"tools/call": true, "resources/read": true, "prompts/get": true,
	"tasks/get": true, "tasks/update": true, "tasks/cancel": true,
}

// checkHeaders compares the headers of a modern request with its body.
func (p *post) checkHeaders() error {
	h := p.r.Header
	for name, values := range h {
		// A router may use another value than the one that is compared here.
		if len(values) > 1 && strings.HasPrefix(name, "Mcp-") {
			return fmt.Errorf("header mismatch: the header %s is there %d times", name, len(values))
		}
	}
	if p.batch || p.messages[0].Method == "" {
		return nil
	}
	m := p.messages[0]
	version := h.Get(versionKey)
	switch {
	case m.ID == nil:
	case version == "":
		return fmt.Errorf("%s header is required for requests carrying %q", versionHeader, metaVersion)
	case m.clientMeta.version == "":
		// Refused later, as an invalid parameter.
	case m.clientMeta.version != version:
		return fmt.Errorf("%s header %q does not match request %s %q", versionHeader, version, metaVersion, m.clientMeta.version)
	}
	switch method := h.Get(methodHeader); {
	case method == "":
		return errors.New("missing required Mcp-Method header")
	case method != m.Method:
		return fmt.Errorf("header mismatch: Mcp-Method header value '%s' does not match body value '%s'", method, m.Method)
	}
	if !namedMethods[m.Method] {
		return nil
	}
	name, ok := decodeHeader(h.Get(nameHeader))
	switch {
	case !ok:
		return fmt.Errorf("header mismatch: the header %s is not base64", nameHeader)
	case name == "":
		return fmt.Errorf("missing required Mcp-Name header for method %q", m.Method)
	case name != m.Name:
		return fmt.Errorf("header mismatch: Mcp-Name header value '%s' does not match body value '%s'", name, m.Name)
	}
	return nil
}

// checkParams compares the headers that a tool's schema requires with the arguments.
func (p *post) checkParams() error {
	if p.s.o.HeaderParams == nil || p.batch || p.messages[0].Method == "" {
		return nil
	}
	m := p.messages[0]
	params := p.s.o.HeaderParams(&m.ServerRequest)
	if len(params) == 0 {
		return nil
	}
	arguments, _ := jsonx.Decode(m.Arguments, jsonx.Limits{}) // nil has no arguments
	for _, param := range params {
		if err := param.check(p.r.Header, arguments); err != nil {
			return err
		}
	}
	return nil
}

// decodeHeader decodes a header value, which may be base64 between markers (see encodeHeader).
func decodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok || !strings.HasSuffix(encoded, "?=") {
		return value, true
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
	return string(plain), err == nil
}

// check returns an error if the header of an argument differs from the argument.
func (p HeaderParam) check(header http.Header, arguments any) error {
	value, present := header.Get(p.header), len(header.Values(p.header)) > 0
	argument := memberAt(arguments, p.path)
	where := strings.Join(p.path, ".")
	switch {
	case argument == nil && present:
		return fmt.Errorf("the request has the header %s but no argument %s", p.header, where)
	case argument == nil:
		return nil
	case !present:
		return fmt.Errorf("the header %s for the argument %s is missing", p.header, where)
	}
	plain, ok := decodeHeader(value)
	if !ok {
		return fmt.Errorf("the header %s is not valid base64", p.header)
	}
	if !sameValue(plain, argument) {
		return fmt.Errorf("the header %s differs from the argument %s", p.header, where)
	}
	return nil
}

func sameValue(header string, argument any) bool {
	switch argument := argument.(type) {
	case string:
		return header == argument
	case bool:
		return header == strconv.FormatBool(argument)
	case json.Number:
		a, errA := strconv.ParseFloat(header, 64)
		b, errB := argument.Float64()
		return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= maxSafe
	default:
		return false
	}
}
