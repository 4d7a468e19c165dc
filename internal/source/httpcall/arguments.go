package httpcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolroom/toolroom"
)

// Arguments are the arguments of one call. Their values are kept as written, so that
// large integers keep every digit.
type Arguments map[string]json.RawMessage

// ParseArguments decodes a JSON object. Empty text has no arguments. Its error has code
// invalid_arguments.
func ParseArguments(raw json.RawMessage) (Arguments, error) {
	args := Arguments{}
	if len(raw) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments are not a JSON object: %w", err)
	}
	return args, nil
}

// Get reports false for an argument that is absent or null.
func (a Arguments) Get(name string) (json.RawMessage, bool) {
	raw, ok := a[name]
	return raw, ok && string(raw) != "null"
}

// BadArgument returns the error of an argument that cannot be sent where the tool needs it.
func BadArgument(name, reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "argument %s cannot be sent: %s", name, reason)
}

// ScalarText returns a string, number or boolean as plain text, or false for a list or an
// object.
func ScalarText(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '{', '[':
		return "", false
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	default:
		return string(raw), true
	}
}

// PathSegment escapes a value so that it is one segment of a path.
func PathSegment(value string) (string, error) {
	if value == "" {
		return "", errors.New("it is empty, but a part of a path must not be")
	}
	return url.PathEscape(value), nil
}

// Address appends an escaped path to base. It returns an error for the segments . and .., which
// lead to another path and cannot be escaped: servers decode them before they resolve them.
func Address(base *url.URL, path string) (*url.URL, error) {
	path = strings.TrimPrefix(path, "/")
	for segment := range strings.SplitSeq(path, "/") {
		if text, err := url.PathUnescape(segment); err != nil || text == "." || text == ".." {
			return nil, BadArgument("of the path", fmt.Sprintf("%q would lead to another path", segment))
		}
	}
	address := *base
	address.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + path
	var err error
	if address.Path, err = url.PathUnescape(address.RawPath); err != nil {
		return nil, fmt.Errorf("path of the tool: %w", err)
	}
	return &address, nil
}

// HeaderValue returns value, or an error if it contains characters that would end a header.
func HeaderValue(value string) (string, error) {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", fmt.Errorf("it contains the control character %q, which is invalid in a header", c)
		}
	}
	return value, nil
}

// CheckHeader returns an error for a header that is invalid, or that would change how a request
// is framed or routed.
func CheckHeader(name, value string) error {
	if !IsToken(name) {
		return errors.New("it is not a header name")
	}
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Te":
		return errors.New("this header belongs to the connection and cannot be set")
	}
	_, err := HeaderValue(value)
	return err
}

// IsToken reports whether s is a token of RFC 9110, 5.6.2.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
