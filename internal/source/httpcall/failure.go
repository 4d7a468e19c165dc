package httpcall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/source"
)

// failure returns the error of a request without a response. It never quotes err, whose
// text contains the URL with its query.
func (x *exchange) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return deadline.Cause(ctx)
	}
	var (
		typed       *toolroom.Error
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		notTLS      tls.RecordHeaderError
		network     *net.OpError
	)
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &dns):
		e := x.unavailable(err, "the host name cannot be resolved")
		e.Retryable = !dns.IsNotFound
		return e.WithHint("check the host of the source's URL")
	case errors.Is(err, syscall.ECONNREFUSED):
		return x.unavailable(err, "the connection was refused").
			WithHint("start the service, or check host and port of the source's URL")
	case errors.As(err, &certificate):
		e := x.unavailable(err, "its certificate is not trusted")
		e.Retryable = false
		return e.WithHint("install the certificate's authority on this machine, or correct the source's URL")
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &notTLS):
		e := x.unavailable(err, "it does not speak TLS")
		e.Retryable = false
		return e.WithHint("use http:// in the source's URL, or the port that speaks TLS")
	case errors.As(err, &network) && network.Op == "dial":
		return x.unavailable(err, "it cannot be reached")
	default:
		return x.unavailable(err, "the connection broke before the response")
	}
}

func (x *exchange) unavailable(cause error, reason string) *toolroom.Error {
	return &toolroom.Error{
		Code:      toolroom.CodeUpstreamUnavailable,
		Message:   fmt.Sprintf("%s %s: %s", x.method, x.host, reason),
		Retryable: true,
		Cause:     cause,
	}
}

func (x *exchange) timeoutError(timeout time.Duration) error {
	return toolroom.Errorf(toolroom.CodeTimeout, "%s %s: no complete response within %v", x.method, x.host, timeout).
		WithHint("the outcome of the request is unknown; raise the timeout of the source or tool if such calls take longer")
}

const (
	maxErrorBody = 64 << 10 // bytes that are read of the body of an error response
	maxExcerpt   = 512      // bytes of it in the error message
)

// htmlTitle matches an HTML page up to the end of its title.
var htmlTitle = regexp.MustCompile(`(?is)^\s*<(?:!doctype html|html).*?<title[^>]*>\s*(.*?)\s*</title>`)

// errorOfStatus converts a status of 300 or more to an error.
func (x *exchange) errorOfStatus(response *http.Response) (source.Output, error) {
	// The status suffices if the body cannot be read.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if found := htmlTitle.FindSubmatch(body); found != nil {
		body = []byte(html.UnescapeString(string(found[1]))) // the rest is layout
	}
	excerpt := x.excerpt(body, maxExcerpt)
	status := response.StatusCode

	e := &toolroom.Error{
		Code:    toolroom.CodeUpstreamError,
		Message: fmt.Sprintf("%s %s: answered %d %s", x.method, x.host, status, http.StatusText(status)),
		Facts:   toolroom.Facts{HTTPStatus: status},
	}
	e.Details = map[string]any{}
	if excerpt != "" {
		e.Message += ": " + excerpt
		e.Details["body"] = excerpt
	}
	if wait, ok := retryAfter(response.Header.Get("Retry-After"), time.Now()); ok {
		e.Details["retry_after_seconds"] = int64(wait.Seconds())
		e.Hint = fmt.Sprintf("try again in %v", wait)
	}

	output := source.Output{Effects: toolroom.EffectsUnknown}
	switch status {
	case http.StatusTooManyRequests:
		e.Code, e.Retryable = toolroom.CodeRateLimited, true
		output.Effects = toolroom.EffectsNone
	case http.StatusRequestTimeout, http.StatusTooEarly:
		e.Retryable = true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Hint = "check the credentials in the source's config"
		output.Effects = toolroom.EffectsNone
	case http.StatusConflict:
	case http.StatusNotFound:
		output.Effects = toolroom.EffectsNone
		if response.Request != nil {
			e.Hint = fmt.Sprintf("the path was %s: check the arguments, and the base URL of the source", x.excerpt([]byte(response.Request.URL.Path), maxExcerpt))
		}
	default:
		// A status of 4xx means that the service did not carry out the request.
		if status < 500 {
			output.Effects = toolroom.EffectsNone
		}
	}
	return output, e
}

// retryAfter reads both forms of the header Retry-After (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	const most = 24 * time.Hour
	if seconds, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && seconds >= 0 {
		return min(time.Duration(min(seconds, int(most/time.Second)))*time.Second, most), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now).Round(time.Second), 0), most), true
	}
	return 0, false
}

// excerpt returns the beginning of body as one line without secrets, of at most most bytes.
func (x *exchange) excerpt(body []byte, most int) string {
	text := x.secrets.Redact(strings.ToValidUTF8(string(body), "\uFFFD"))
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
