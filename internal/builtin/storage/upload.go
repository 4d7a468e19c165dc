package storage

import (
	"context"
	"crypto/md5" // ETags of parts are MD5 sums
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

const (
	minPart  = 8 << 20
	maxParts = 10_000
)

// upload uploads a file to a bucket. It holds no part of the file in memory.
type upload struct {
	*Client
	bucket, key, kind string
	from              io.ReaderAt
	size              int64
	// sent is called with the number of bytes that have arrived.
	sent func(bytes int64)
}

// run uploads the file. It sends a large file in parts, without those that an earlier,
// interrupted upload of the same file has sent.
func (u *upload) run(ctx context.Context) error {
	if u.size <= minPart {
		part := io.NewSectionReader(u.from, 0, u.size)
		_, hash, err := partSums(part)
		if err != nil {
			return err
		}
		response, err := u.do(ctx, request{
			method: http.MethodPut, bucket: u.bucket, key: u.key, header: http.Header{"Content-Type": {u.kind}}, body: part, bodyHash: hash,
		})
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	id, err := u.unfinished(ctx)
	if err != nil {
		return err
	}
	parts := map[int]part{}
	if id != "" {
		if parts, err = u.parts(ctx, id); err != nil {
			return err
		}
	} else if id, err = u.begin(ctx); err != nil {
		return err
	}
	return u.send(ctx, id, parts)
}

// send sends the missing parts and completes the upload.
func (u *upload) send(ctx context.Context, id string, there map[int]part) error {
	each := max(minPart, (u.size+maxParts-1)/maxParts)
	var all completion
	for n, at := 1, int64(0); at < u.size; n, at = n+1, at+each {
		section := io.NewSectionReader(u.from, at, min(each, u.size-at))
		sum, hash, err := partSums(section)
		if err != nil {
			return err
		}
		tag := strings.Trim(there[n].ETag, `"`)
		if tag != sum || there[n].Size != section.Size() {
			response, err := u.do(ctx, request{
				method: http.MethodPut, bucket: u.bucket, key: u.key, body: section, bodyHash: hash,
				query: url.Values{"partNumber": {strconv.Itoa(n)}, "uploadId": {id}},
			})
			if err != nil {
				return err
			}
			tag = strings.Trim(response.Header.Get("ETag"), `"`)
			if err := response.Body.Close(); err != nil {
				return err
			}
		}
		all.Parts = append(all.Parts, completedPart{n, `"` + tag + `"`})
		if u.sent != nil {
			u.sent(at + section.Size())
		}
	}
	return u.complete(ctx, id, all)
}

type part struct {
	Number int    `xml:"PartNumber"`
	ETag   string `xml:"ETag"`
	Size   int64  `xml:"Size"`
}

type completedPart struct {
	Number int    `xml:"PartNumber"`
	ETag   string `xml:"ETag"`
}

type completion struct {
	XMLName xml.Name        `xml:"CompleteMultipartUpload"`
	Parts   []completedPart `xml:"Part"`
}

func (u *upload) begin(ctx context.Context) (string, error) {
	var begun struct{ UploadId string }
	err := u.answer(ctx, request{
		method: http.MethodPost, bucket: u.bucket, key: u.key, query: url.Values{"uploads": {""}}, header: http.Header{"Content-Type": {u.kind}},
	}, &begun)
	return begun.UploadId, err
}

// unfinished returns the id of an unfinished upload to the same key. It is empty if there is
// none or the server cannot list them.
func (u *upload) unfinished(ctx context.Context) (string, error) {
	var list struct {
		Upload []struct{ Key, UploadId string }
	}
	err := u.answer(ctx, request{method: http.MethodGet, bucket: u.bucket, query: url.Values{"uploads": {""}, "prefix": {u.key}}}, &list)
	if code := toolroom.CodeOf(err); err != nil && (ctx.Err() != nil || code != toolroom.CodeDenied && code != toolroom.CodeUpstreamError) {
		return "", err
	}
	id := ""
	for _, one := range list.Upload {
		if one.Key == u.key {
			id = one.UploadId // the last one is the newest
		}
	}
	return id, nil
}

// parts returns the parts of an upload that the server has, by number.
func (u *upload) parts(ctx context.Context, id string) (map[int]part, error) {
	all, marker := map[int]part{}, 0
	for {
		var page struct {
			Part                 []part
			IsTruncated          bool
			NextPartNumberMarker int
		}
		query := url.Values{"uploadId": {id}, "part-number-marker": {strconv.Itoa(marker)}}
		if err := u.answer(ctx, request{method: http.MethodGet, bucket: u.bucket, key: u.key, query: query}, &page); err != nil {
			return nil, err
		}
		for _, p := range page.Part {
			all[p.Number] = p
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return all, nil
		}
		marker = page.NextPartNumberMarker
	}
}

func (u *upload) complete(ctx context.Context, id string, all completion) error {
	text, err := xml.Marshal(all)
	if err != nil {
		return err
	}
	body := io.NewSectionReader(strings.NewReader(string(text)), 0, int64(len(text)))
	_, hash, err := partSums(body)
	if err != nil {
		return err
	}
	var done struct {
		XMLName       xml.Name
		Code, Message string
	}
	err = u.answer(ctx, request{method: http.MethodPost, bucket: u.bucket, key: u.key, query: url.Values{"uploadId": {id}}, body: body, bodyHash: hash}, &done)
	if err != nil && ctx.Err() == nil && u.exists(ctx, all) {
		return nil // it was completed, and the answer was lost
	}
	if err == nil && done.XMLName.Local == "Error" { // with status 200, because it took long
		err = toolroom.Errorf(toolroom.CodeUpstreamError, "%s did not complete the upload: %s: %.300s", u.Endpoint.Host, done.Code, done.Message)
	}
	return err
}

// exists reports whether the bucket has the object that consists of the parts.
func (u *upload) exists(ctx context.Context, all completion) bool {
	response, err := u.do(ctx, request{method: http.MethodHead, bucket: u.bucket, key: u.key})
	if err != nil {
		return false
	}
	_ = response.Body.Close() // it is empty
	return response.ContentLength == u.size && strings.Trim(response.Header.Get("ETag"), `"`) == all.etag()
}

// etag returns the ETag of the object that consists of the parts: the MD5 of their MD5 sums,
// and their number.
func (c completion) etag() string {
	h := md5.New()
	for _, p := range c.Parts {
		sum, _ := hex.DecodeString(strings.Trim(p.ETag, `"`)) // of encrypted parts it is another, which matches nothing
		h.Write(sum)
	}
	return fmt.Sprintf("%x-%d", h.Sum(nil), len(c.Parts))
}

// partSums returns the MD5 and the SHA-256 of a part.
func partSums(from *io.SectionReader) (tag, hash string, err error) {
	short, long := md5.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(short, long), io.NewSectionReader(from, 0, from.Size()))
	if err == nil && n < from.Size() {
		err = fmt.Errorf("the file became shorter while it was read: %w", io.ErrUnexpectedEOF)
	}
	return hex.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil)), err
}
