package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// read returns the body of a response. If it fails, the output has the effects of the request.
func (x *exchange) read(ctx context.Context, response *http.Response) ([]byte, source.Output, error) {
	if response.StatusCode >= 300 {
		output, err := x.errorOfStatus(response)
		return nil, output, err
	}
	limit := x.client.options.MaxResponse
	// The length in a response to HEAD is that of a body which is not sent.
	if response.ContentLength > limit && x.method != http.MethodHead {
		return nil, succeeded, x.tooLarge(limit)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, source.Output{Effects: toolroom.EffectsUnknown}, x.failure(ctx, err)
	}
	if int64(len(body)) > limit {
		return nil, succeeded, x.tooLarge(limit)
	}
	return body, source.Output{}, nil
}

// succeeded is the output of a request that succeeded although its response cannot be used.
var succeeded = source.Output{Effects: toolroom.EffectsDone}

func (x *exchange) tooLarge(limit int64) error {
	return toolroom.Errorf(toolroom.CodeResourceLimit, "%s %s: the response is larger than %d bytes", x.method, x.host, limit).
		WithHint("request less, for example with a page or a filter, or raise max_response of the source")
}

// decode converts a body to an output. JSON stays byte for byte; text becomes a string;
// images, audio and other bytes become content.
func (x *exchange) decode(response *http.Response, body []byte) (source.Output, error) {
	if len(body) == 0 {
		return source.Output{}, nil
	}
	header := response.Header.Get("Content-Type")
	kind, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		kind = ""
	}
	switch family, _, _ := strings.Cut(kind, "/"); {
	case isJSON(kind), kind == "" && json.Valid(body):
		text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\uFEFF")))
		if !json.Valid(text) || !utf8.Valid(text) {
			return succeeded, x.notJSON(header, body, "which is not JSON")
		}
		return source.Output{Value: text}, nil
	case x.json:
		return succeeded, x.notJSON(header, body, "where JSON was promised")
	case family == "image":
		return source.Output{Content: []toolroom.Content{{Type: toolroom.ContentImage, MIMEType: kind, Data: body}}}, nil
	case family == "audio":
		return source.Output{Content: []toolroom.Content{{Type: toolroom.ContentAudio, MIMEType: kind, Data: body}}}, nil
	default:
		text, ok := decodeText(body, parameters["charset"])
		if !ok {
			return source.Output{Content: []toolroom.Content{blob(response, kind, body)}}, nil
		}
		value, err := json.Marshal(text)
		if err != nil {
			return succeeded, fmt.Errorf("encode the text of an answer: %w", err)
		}
		return source.Output{Value: value, Content: []toolroom.Content{toolroom.TextContent(text)}}, nil
	}
}

func isJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// decodeText decodes text in UTF-8, ASCII or Latin-1. It returns false for other charsets and for
// bytes that are not text.
func decodeText(body []byte, charset string) (string, bool) {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1":
		runes := make([]rune, len(body))
		for i, b := range body {
			runes[i] = rune(b)
		}
		return string(runes), true
	case "", "utf-8", "utf8", "us-ascii":
		return string(body), utf8.Valid(body) && bytes.IndexByte(body, 0) < 0
	default:
		return "", false
	}
}

func blob(response *http.Response, kind string, body []byte) toolroom.Content {
	address := *response.Request.URL
	// The query may contain a key of the service.
	address.RawQuery, address.User, address.Fragment = "", nil, ""
	return toolroom.Content{Type: toolroom.ContentResource, MIMEType: kind, URI: address.String(), Data: body}
}

func (x *exchange) notJSON(header string, body []byte, complaint string) error {
	const shown = 80
	header = cmp.Or(header, "no content type")
	first := x.excerpt(body[:min(len(body), maxErrorBody)], shown)
	return &toolroom.Error{
		Code:    toolroom.CodeInvalidOutput,
		Message: fmt.Sprintf("%s %s: answered with %s, %s; it begins %q", x.method, x.host, header, complaint, first),
		Hint:    "check that base_url and path lead to the service itself, not to a page in front of it",
		Details: map[string]any{"content_type": header, "first_bytes": first},
	}
}

// Pick returns the part of value at pointer (RFC 6901), byte for byte. Its error has code
// invalid_output and names the place at which the pointer fails.
func Pick(value json.RawMessage, pointer string) (json.RawMessage, error) {
	at := value
	walked := ""
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		next, ok := member(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if !ok {
			return nil, toolroom.Errorf(toolroom.CodeInvalidOutput, "the response has no value at %s/%s, where the config expects the result", walked, token).
				WithHint("correct the JSON pointer in result of the tool's config")
		}
		walked += "/" + token
		at = next
	}
	return at, nil
}

func member(value json.RawMessage, token string) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) == nil {
		found, ok := members[token]
		return found, ok
	}
	var elements []json.RawMessage
	if json.Unmarshal(value, &elements) != nil {
		return nil, false
	}
	for i, element := range elements {
		if fmt.Sprint(i) == token {
			return element, true
		}
	}
	return nil, false
}

// Effect returns the effect of a request with a method on a service.
func Effect(method string, service *url.URL) toolroom.Effect {
	standard := map[string]string{"http": "80", "https": "443"}[service.Scheme]
	return toolroom.Effect{
		Kind:   toolroom.EffectHost,
		Mode:   strings.ToLower(method),
		Target: net.JoinHostPort(strings.ToLower(service.Hostname()), cmp.Or(service.Port(), standard)),
	}
}
