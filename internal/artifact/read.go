package artifact

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Sizes of a page of text, in bytes.
const (
	DefaultPage = 51200
	MaxPage     = 1 << 20
)

// maxJSON is the maximum size of a text for a JSON path, in bytes: the text is held in memory.
const maxJSON = 16 << 20

// ReadOptions choose what Read returns. Grep and JSONPath exclude each other.
type ReadOptions struct {
	// Offset is the offset of the page in bytes: zero, or Next of the previous page. If
	// secrets are redacted, it counts in the redacted text.
	Offset int64
	// Limit is the maximum size of the page in bytes. Zero means DefaultPage; a value above
	// MaxPage means MaxPage. A page has at least one character or line.
	Limit int64
	// Grep keeps the lines that match this regular expression (RE2 syntax).
	Grep string
	// Context is how many lines around each match Grep keeps too, at most 50.
	Context int
	// JSONPath keeps the parts that this path (RFC 9535) selects, each
	// beginning on its own line. Offset then counts in those parts.
	JSONPath string

	search time.Duration // time limit of Grep
}

// Page is a part of the text of an artifact.
type Page struct {
	Artifact toolroom.Artifact `json:"artifact"`
	// Text is valid UTF-8. Invalid bytes are shown as U+FFFD.
	Text string `json:"text"`
	// Offset is the offset of Text: that of the character that contains the requested offset.
	Offset int64 `json:"offset"`
	// Next is the offset of the next page; zero means that there is none.
	Next int64 `json:"next,omitempty"`
	// Matches counts the matches of Grep, or the parts of JSONPath, that this
	// page shows.
	Matches int `json:"matches,omitempty"`
}

// Read returns a page of an artifact as text. The error is not_found,
// invalid_arguments for options that cannot be followed, or resource_limit for
// a path into a text that is too large for one.
func (s *Store) Read(ctx context.Context, owner, handle string, opts ReadOptions) (*Page, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	f, e, err := s.open(ctx, owner, handle)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page := &Page{Artifact: e.Artifact(), Offset: opts.Offset}
	redactor := s.redactor(e.Kind)
	switch {
	case opts.Grep != "":
		err = readGrep(ctx, page, redactor.Reader(f), opts)
	case opts.JSONPath != "":
		err = readPath(ctx, page, f, redactor, opts)
	default:
		err = readText(ctx, page, f, redactor, opts.Limit)
	}
	if err != nil {
		return nil, err
	}
	return page, nil
}

func (o *ReadOptions) check() error {
	switch {
	case o.Offset < 0 || o.Limit < 0 || o.Context < 0:
		return invalid("offset, limit and context cannot be negative", "leave out what you do not need")
	case o.Grep != "" && o.JSONPath != "":
		return invalid("grep and JSON path cannot be used together", "read with one of them")
	}
	if o.Limit == 0 {
		o.Limit = DefaultPage
	}
	o.Limit = min(max(o.Limit, utf8.UTFMax), MaxPage)
	o.Context = min(o.Context, maxContext)
	o.search = cmp.Or(o.search, maxSearch)
	return nil
}

// readText fills in the page that begins at page.Offset. If secrets are redacted it reads f from
// the beginning: only then it is known which bytes belong to a secret.
func readText(ctx context.Context, page *Page, f *os.File, redactor Redactor, limit int64) error {
	// A character may begin up to three bytes before either end of the page.
	base := max(0, page.Offset-(utf8.UTFMax-1))
	r := redactor.Reader(f)
	var skipped int64
	var err error
	if r == io.Reader(f) {
		if page.Offset > page.Artifact.Size {
			return beyondEnd(page, page.Artifact.Size)
		}
		skipped, err = f.Seek(base, io.SeekStart)
	} else {
		r = contextReader{ctx, r}
		skipped, err = io.CopyN(io.Discard, r, base)
	}
	buf := make([]byte, page.Offset-base+limit+utf8.UTFMax)
	n := 0
	if err == nil {
		n, err = io.ReadFull(r, buf)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read artifact %s: %w", page.Artifact.Handle, err)
	}
	if size := skipped + int64(n); size < page.Offset {
		return beyondEnd(page, size)
	}
	buf = buf[:n]
	start := runeStart(buf, int(page.Offset-base))
	end := min(start+int(limit), n)
	if end < n {
		end = runeStart(buf, end)
	}
	page.Offset = base + int64(start)
	page.Text = strings.ToValidUTF8(string(buf[start:end]), "\uFFFD")
	if end < n {
		page.Next = base + int64(end)
	}
	return nil
}

// beyondEnd returns the error for a page that begins after the end of a text of size bytes.
func beyondEnd(page *Page, size int64) error {
	return invalid(fmt.Sprintf("artifact %s has %d bytes, so there is nothing at offset %d", page.Artifact.Handle, size, page.Offset), "begin at 0, or at the next of the page before")
}

// runeStart is where the character begins that the byte at i belongs to; i
// itself when that is no part of one.
func runeStart(b []byte, i int) int {
	for at := i; at > max(-1, i-utf8.UTFMax) && at < len(b); at-- {
		if utf8.RuneStart(b[at]) {
			if _, size := utf8.DecodeRune(b[at:]); at+size > i {
				return at
			}
			break
		}
	}
	return i
}

// readPath fills in a page of the parts that a JSON path selects.
func readPath(ctx context.Context, page *Page, f *os.File, redactor Redactor, opts ReadOptions) error {
	path, err := jsonx.ParsePath(opts.JSONPath)
	if err != nil {
		return invalid(err.Error(), "write a path like $.items[0].name or $..id (RFC 9535)")
	}
	handle := page.Artifact.Handle
	if page.Artifact.Size > maxJSON {
		return &toolroom.Error{
			Code:    toolroom.CodeResourceLimit,
			Message: fmt.Sprintf("artifact %s has %d bytes; a JSON path works on at most %d", handle, page.Artifact.Size, maxJSON),
			Hint:    "read it with grep, or page by offset and limit",
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read artifact %s: %w", handle, err)
	}

	var out strings.Builder
	at := int64(0) // offset of the part in the text of all selected parts
	err = path.Select(ctx, redactor.Redact(text), func(part []byte) bool {
		line := append(bytes.Clone(part), '\n')
		from := min(max(0, opts.Offset-at), int64(len(line)))
		to := from + min(int64(len(line))-from, opts.Limit-int64(out.Len()))
		if to < int64(len(line)) {
			to = int64(runeStart(line, int(to)))
			page.Next = at + to
		}
		if to > from {
			page.Matches++
		}
		out.Write(line[from:to])
		at += int64(len(line))
		return page.Next == 0
	})
	switch {
	case errors.Is(err, jsonx.ErrNotJSON):
		return invalid(fmt.Sprintf("artifact %s is not JSON, so a JSON path means nothing in it", handle), "read it with grep, or page by offset and limit")
	case errors.Is(err, jsonx.ErrPathWork):
		return invalid(err.Error(), "name the members on the way instead of using * and ..")
	case err != nil:
		return fmt.Errorf("read artifact %s: %w", handle, err)
	}
	page.Text = strings.ToValidUTF8(out.String(), "\uFFFD")
	return nil
}

func invalid(message, hint string) *toolroom.Error {
	return &toolroom.Error{Code: toolroom.CodeInvalidArguments, Message: message, Hint: hint}
}
