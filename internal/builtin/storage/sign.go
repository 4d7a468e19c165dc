package storage

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Keys are the credentials of a bucket's owner. Token is that of temporary credentials.
type Keys struct{ Access, Secret, Token string }

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	// emptyHash is the SHA-256 of nothing.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// sign adds the headers of AWS Signature Version 4 to a request. bodyHash is the SHA-256 of the
// body. The path and query of the URL must be in canonical form.
func (k Keys) sign(r *http.Request, region, bodyHash string, now time.Time) {
	r.Header.Set("X-Amz-Date", now.UTC().Format(timeFormat))
	r.Header.Set("X-Amz-Content-Sha256", bodyHash)
	if k.Token != "" {
		r.Header.Set("X-Amz-Security-Token", k.Token)
	}
	headers := map[string]string{"host": cmp.Or(r.Host, r.URL.Host)}
	for name := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(strings.Fields(r.Header.Get(name)), " ")
	}
	signed, signature := k.signature(r.Method, r.URL, headers, region, bodyHash, now)
	r.Header.Set("Authorization", algorithm+" Credential="+k.credential(region, now)+", SignedHeaders="+signed+", Signature="+signature)
}

// presign returns a URL with which anyone can get an object until the URL expires.
func (k Keys) presign(u *url.URL, region string, expires time.Duration, now time.Time) string {
	query := url.Values{
		"X-Amz-Algorithm": {algorithm}, "X-Amz-Credential": {k.credential(region, now)}, "X-Amz-Date": {now.UTC().Format(timeFormat)},
		"X-Amz-Expires": {strconv.Itoa(int(expires / time.Second))}, "X-Amz-SignedHeaders": {"host"},
	}
	if k.Token != "" {
		query.Set("X-Amz-Security-Token", k.Token)
	}
	out := *u
	out.RawQuery = canonicalQuery(query)
	_, signature := k.signature(http.MethodGet, &out, map[string]string{"host": u.Host}, region, "UNSIGNED-PAYLOAD", now)
	out.RawQuery += "&X-Amz-Signature=" + signature
	return out.String()
}

func (k Keys) credential(region string, now time.Time) string {
	return k.Access + "/" + scope(region, now)
}

func scope(region string, now time.Time) string {
	return now.UTC().Format("20060102") + "/" + region + "/s3/aws4_request"
}

func (k Keys) signature(method string, u *url.URL, headers map[string]string, region, bodyHash string, now time.Time) (signed, signature string) {
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	signed = strings.Join(names, ";")
	var request strings.Builder
	request.WriteString(method + "\n" + u.EscapedPath() + "\n" + u.RawQuery + "\n")
	for _, name := range names {
		request.WriteString(name + ":" + headers[name] + "\n")
	}
	request.WriteString("\n" + signed + "\n" + bodyHash)
	sum := sha256.Sum256([]byte(request.String()))
	text := algorithm + "\n" + now.UTC().Format(timeFormat) + "\n" + scope(region, now) + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + k.Secret)
	for _, part := range []string{now.UTC().Format("20060102"), region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return signed, hex.EncodeToString(key)
}

// canonicalQuery encodes a query as signatures require: sorted, with spaces as %20.
func canonicalQuery(query url.Values) string {
	var parts []string
	for name, values := range query {
		for _, value := range values {
			parts = append(parts, escape(name, false)+"="+escape(value, false))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

// escape encodes every byte that is not unreserved, except slashes in paths.
func escape(text string, isPath bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, isPath && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
