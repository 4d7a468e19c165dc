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

// Arguments are those of one call. Their values stay as they were written, so
// that large integers survive.
type Arguments map[string]json.RawMessage

// ParseArguments reads a JSON object; empty text has none. The error has code
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

// BadArgument is the error of an argument that does not fit its place.
func BadArgument(name, reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "argument %s cannot be sent: %s", name, reason)
}

// ScalarText is a string, number or boolean as plain text; false for a list or
// an object.
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

// PathSegment escapes a value so that it stays one segment of a path.
func PathSegment(value string) (string, error) {
	if value == "" {
		return "", errors.New("it is empty, and a part of a path cannot be")
	}
	return url.PathEscape(value), nil
}

// Address appends an escaped path to base. It refuses the segments . and ..,
// which lead to another path and cannot be escaped: servers decode them before
// they resolve them.
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

// HeaderValue refuses the characters that would end a header.
func HeaderValue(value string) (string, error) {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", fmt.Errorf("it holds the control character %q, which a header cannot", c)
		}
	}
	return value, nil
}

// CheckHeader refuses what would change how a request is framed or routed.
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
