package storage

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Client speaks the S3 protocol with one server. Its methods are safe for concurrent use.
type Client struct {
	// Endpoint is the address of the server, without a bucket.
	Endpoint *url.URL
	Region   string
	// VirtualHosts puts the bucket into the host name and not into the path.
	VirtualHosts bool
	Keys         func(ctx context.Context) (Keys, error)
	Transport    http.RoundTripper
	// Wait is the pause before a request is repeated (500 ms). It doubles each time.
	Wait time.Duration
}

// attempts is the maximum number of attempts of a request.
const attempts = 5

// request is a request to the server.
type request struct {
	method, bucket, key string
	query               url.Values
	header              http.Header
	// body is sent from its start at each attempt; bodyHash is its SHA-256 in hex.
	body     *io.SectionReader
	bodyHash string
}

// address returns the URL of a bucket or object.
func (c *Client) address(bucket, key string, query url.Values) *url.URL {
	u := *c.Endpoint
	path := strings.TrimSuffix(u.Path, "/") + "/"
	if c.VirtualHosts {
		u.Host = bucket + "." + u.Host
	} else {
		path += bucket + "/"
	}
	u.Path = path + key
	u.RawPath = escape(u.Path, true)
	u.RawQuery = canonicalQuery(query)
	return &u
}

// do sends a request. It repeats a request that failed with a transient error.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		response, err := c.attempt(ctx, r)
		if err == nil || ctx.Err() != nil || attempt == attempts || !isTransient(err) {
			return response, err
		}
		if err := c.pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// pause waits before the next attempt.
func (c *Client) pause(ctx context.Context, attempt int) error {
	wait := cmp.Or(c.Wait, 500*time.Millisecond)
	select {
	case <-time.After(wait << (attempt - 1)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func isTransient(err error) bool {
	var known *toolroom.Error
	return !errors.As(err, &known) || known.Retryable
}

func (c *Client) attempt(ctx context.Context, r request) (*http.Response, error) {
	// A proxy in front of the server may resolve these, which leads to another bucket.
	for segment := range strings.SplitSeq(r.key, "/") {
		if segment == "." || segment == ".." {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the object key %.200q has a segment %q", r.key, segment)
		}
	}
	keys, err := c.Keys(ctx)
	if err != nil {
		return nil, toolroom.AsError(err)
	}
	var body io.Reader
	if r.body != nil {
		body = io.NewSectionReader(r.body, 0, r.body.Size())
	} else {
		r.bodyHash = emptyHash
	}
	out, err := http.NewRequestWithContext(ctx, r.method, "http://example.com", body)
	if err != nil {
		return nil, err
	}
	out.URL = c.address(r.bucket, r.key, r.query)
	out.Host = out.URL.Host
	maps.Copy(out.Header, r.header)
	out.Header.Set("Accept-Encoding", "identity")
	if r.body != nil {
		out.ContentLength = r.body.Size()
	}
	keys.sign(out, c.Region, r.bodyHash, time.Now())
	response, err := c.Transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.failure(response, r)
}

const maxAnswer = 8 << 20

// failure returns the error for a failed request.
func (c *Client) failure(response *http.Response, r request) error {
	var told struct {
		Code, Message, Region string
	}
	data, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what is missing is missing in the message
	_ = xml.Unmarshal(data, &told)
	at := r.bucket
	if r.key != "" {
		at += "/" + r.key
	}
	code := cmp.Or(told.Code, response.Status)
	message := fmt.Sprintf("%s answered %s for %.200s", c.Endpoint.Host, code, at)
	if told.Message != "" {
		message += ": " + strings.TrimSuffix(fmt.Sprintf("%.300s", told.Message), ".")
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "%s", message)
	switch {
	case told.Code == "NoSuchUpload":
		e.Code = toolroom.CodeNotFound
	case told.Code == "NoSuchBucket":
		e.Code = toolroom.CodeNotFound
		e = e.WithHint("the bucket must exist; name another one, or set builtin.storage.bucket in toolroom.yaml")
	case response.StatusCode == http.StatusNotFound:
		e.Code = toolroom.CodeNotFound
	case response.StatusCode == http.StatusPreconditionFailed:
		e.Code = toolroom.CodeConflict
	case told.Code == "RequestTimeTooSkewed":
		e = e.WithHint("set the clock of this machine")
	case told.Code == "InvalidAccessKeyId" || told.Code == "SignatureDoesNotMatch":
		e.Code = toolroom.CodeUnauthenticated
		e = e.WithHint("check builtin.storage.access_key and secret_key in toolroom.yaml, and the clock of this machine")
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		e.Code = toolroom.CodeDenied
		e = e.WithHint("the key may not do this: give it the permission at the server, or use another key in builtin.storage")
	case response.StatusCode < 400 || told.Code == "AuthorizationHeaderMalformed":
		region := cmp.Or(response.Header.Get("X-Amz-Bucket-Region"), told.Region)
		e = e.WithHint("the bucket is elsewhere: check builtin.storage.url and region in toolroom.yaml; the server names the region %q", region)
	case response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

// answer sends a request and decodes the XML response.
func (c *Client) answer(ctx context.Context, r request, to any) error {
	response, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil {
		err = xml.Unmarshal(data, to)
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "%s did not answer like an S3 server: %w", c.Endpoint.Host, err).
			WithHint("check builtin.storage.url in toolroom.yaml")
	}
	return nil
}

// object is an object of a bucket.
type object struct {
	Key  string `xml:"Key"`
	Size int64  `xml:"Size"`
	ETag string `xml:"ETag"`
}

// list returns at most the given number of objects below a prefix, and whether there are more.
func (c *Client) list(ctx context.Context, bucket, prefix string, most int) (objects []object, more bool, err error) {
	token := ""
	for {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "max-keys": {strconv.Itoa(min(most-len(objects)+1, 1000))}, "encoding-type": {"url"}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		var page struct {
			Contents              []object
			IsTruncated           bool
			NextContinuationToken string
			EncodingType          string
		}
		if err := c.answer(ctx, request{method: http.MethodGet, bucket: bucket, query: query}, &page); err != nil {
			return nil, false, err
		}
		for _, o := range page.Contents {
			if len(objects) == most {
				return objects, true, nil
			}
			if page.EncodingType == "url" {
				if key, err := url.QueryUnescape(o.Key); err == nil {
					o.Key = key
				}
			}
			objects = append(objects, o)
		}
		if token = page.NextContinuationToken; !page.IsTruncated || token == "" {
			return objects, false, nil
		}
	}
}

// body reads an object. If the connection breaks, it continues at the same offset.
type body struct {
	ctx    context.Context
	client *Client
	of     request
	object
	kind   string
	from   io.ReadCloser
	offset int64
	broken int
}

// open begins to read an object. The caller must close the body.
func (c *Client) open(ctx context.Context, bucket, key string) (*body, error) {
	b := &body{ctx: ctx, client: c, of: request{method: http.MethodGet, bucket: bucket, key: key}}
	response, err := c.do(ctx, b.of)
	if err != nil {
		return nil, err
	}
	b.object = object{key, response.ContentLength, response.Header.Get("ETag")}
	b.kind, b.from = response.Header.Get("Content-Type"), response.Body
	return b, nil
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	for {
		n, err := b.from.Read(p)
		b.offset += int64(n)
		if n > 0 && err != nil && !errors.Is(err, io.EOF) {
			err = nil // the next Read gets it again
		}
		if n > 0 || err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if b.broken++; b.ctx.Err() != nil || b.broken >= attempts {
			return 0, err
		}
		if err := b.client.pause(b.ctx, b.broken); err != nil {
			return 0, err
		}
		if err := b.resume(); err != nil {
			return 0, err
		}
	}
}

func (b *body) resume() error {
	again := b.of
	again.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", b.offset)}, "If-Match": {b.ETag}}
	response, err := b.client.do(b.ctx, again)
	if err != nil {
		return err
	}
	_ = b.from.Close() // it is broken
	b.from = response.Body
	if response.StatusCode != http.StatusPartialContent {
		_, err = io.CopyN(io.Discard, b.from, b.offset) // the server has begun again
	}
	return err
}

// Close ends the transfer.
func (b *body) Close() error { return b.from.Close() }
