package file

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/source"
)

// ReadArgs are the arguments of file:read.
type ReadArgs struct {
	Path     string `json:"path" jsonschema:"path of the file; a relative one begins in the working folder"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf8 (detected if left out), base64 for bytes, or the name of another encoding such as utf-16le or windows-1252"`
	Offset   int    `json:"offset,omitempty" jsonschema:"first line to read, counted from 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"number of lines to read"`
	Pages    string `json:"pages,omitempty" jsonschema:"pages of a PDF file, such as 3 or 1-5"`
}

// ReadResult is the value of file:read.
type ReadResult struct {
	Path       string `json:"path" jsonschema:"the file"`
	Content    string `json:"content" jsonschema:"the text, or the bytes in base64"`
	Encoding   string `json:"encoding" jsonschema:"the encoding of content: utf8 or base64"`
	MIMEType   string `json:"mime_type,omitempty" jsonschema:"the type of an image or a document"`
	Size       int64  `json:"size" jsonschema:"size of the file in bytes"`
	FirstLine  int    `json:"first_line,omitempty" jsonschema:"the first line in content"`
	LastLine   int    `json:"last_line,omitempty" jsonschema:"the last line in content"`
	TotalLines int    `json:"total_lines,omitempty" jsonschema:"lines of the file, if they were counted"`
	Pages      int    `json:"pages,omitempty" jsonschema:"pages of a PDF file"`
	Next       int    `json:"next_offset,omitempty" jsonschema:"the offset at which the rest begins"`
}

const (
	defaultLines = 2000
	maxText      = 1 << 20  // bytes of text in one result
	maxLine      = 64 << 10 // bytes shown of one line
	maxCounted   = 64 << 20 // bytes read to count lines
	maxBytes     = 16 << 20 // a file read as a whole: an image, a PDF, base64, another encoding
)

func (f *files) read() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ReadArgs, ReadResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:read"), Title: "Read a file",
			Description: "Read a file (cat) and show what it says: open a README, text or config file, print some lines, view an image or picture, read a PDF document. Use offset and limit for a range of lines of a long file, encoding base64 for binary data.",
			Hints:       builtin.Hints(true, false, false), Tags: []string{"file"},
			Effects: readEffects("{path}"),
			Examples: []toolroom.Example{
				{Title: "a whole file", Arguments: builtin.Arguments(map[string]any{"path": "README.md"}), ResultHint: "the text, with its number of lines"},
				{Title: "lines 100 to 149", Arguments: builtin.Arguments(map[string]any{"path": "README.md", "offset": 100, "limit": 50})},
			},
		},
		Arguments: map[string]builtin.Property{
			"path": {"minLength": 1}, "offset": {"minimum": 1, "default": 1}, "limit": {"minimum": 1, "default": defaultLines},
			"pages": {"pattern": "^[0-9]+(-[0-9]+)?$"},
		},
		Predict:  func(_ *source.Request, in ReadArgs) []toolroom.Effect { return readEffects(in.Path) },
		Enforces: isFileRule,
		Run: func(ctx context.Context, req *source.Request, in ReadArgs) (ReadResult, []toolroom.Content, error) {
			f := f.withRules(req, "read")
			file, err := f.Open(in.Path)
			if err != nil {
				return ReadResult{}, nil, err
			}
			defer file.Close()
			r := reader{files: f, in: in, file: file, out: ReadResult{Path: f.Absolute(in.Path), Encoding: "utf8", Size: file.Info.Size()}}
			content, err := r.run(ctx)
			return r.out, content, err
		},
	})
}

// reader reads one file.
type reader struct {
	*files
	in   ReadArgs
	file *folder.File
	out  ReadResult
}

func (r *reader) run(ctx context.Context) ([]toolroom.Content, error) {
	start := bufio.NewReaderSize(r.file, 64<<10)
	head, err := start.Peek(3072)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be read: %w", r.in.Path, err)
	}
	kind := http.DetectContentType(head)
	switch name := strings.ToLower(r.in.Encoding); {
	case name == "base64":
		return r.base64(start, kind)
	case name == "" && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind):
		return r.image(start, kind)
	case name == "" && kind == "application/pdf" && r.pdf != nil:
		return r.document(ctx, start)
	case name == "" && (bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff})):
		return r.decoded(ctx, start, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM))
	case name == "", name == "utf8", name == "utf-8":
		if name == "" && isBinary(head) {
			return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s is not text in UTF-8 (%d bytes)", r.in.Path, r.out.Size).
				WithHint("read it with encoding=base64, or name its text encoding, such as windows-1252")
		}
		return r.lines(ctx, start)
	default:
		e, err := htmlindex.Get(name)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no encoding %q", r.in.Encoding).
				WithHint("use utf8, base64, utf-16le, windows-1252 or another name of the WHATWG encoding standard")
		}
		return r.decoded(ctx, start, e)
	}
}

// isBinary reports whether head, the beginning of a file, is not UTF-8 text. Its last character
// may be incomplete.
func isBinary(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	for range utf8.UTFMax - 1 {
		if utf8.Valid(head) || len(head) == 0 {
			return false
		}
		head = head[:len(head)-1]
	}
	return !utf8.Valid(head)
}

func (r *reader) readWhole(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be read: %w", r.in.Path, err)
	}
	if len(data) > maxBytes {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d bytes; at most %d are read in this form", r.in.Path, r.out.Size, maxBytes).
			WithHint("read text by lines (offset, limit), or use shell:exec for a part of it")
	}
	return data, nil
}

func (r *reader) base64(from io.Reader, kind string) ([]toolroom.Content, error) {
	data, err := r.readWhole(from)
	r.out.Content, r.out.Encoding, r.out.MIMEType = base64.StdEncoding.EncodeToString(data), "base64", kind
	return nil, err
}

func (r *reader) image(from io.Reader, kind string) ([]toolroom.Content, error) {
	data, err := r.readWhole(from)
	r.out.MIMEType = kind
	return []toolroom.Content{
		toolroom.TextContent(fmt.Sprintf("%s: %s, %d bytes", r.in.Path, kind, len(data))),
		{Type: toolroom.ContentImage, Data: data, MIMEType: kind},
	}, err
}

func (r *reader) document(ctx context.Context, from io.Reader) ([]toolroom.Content, error) {
	data, err := r.readWhole(from)
	if err != nil {
		return nil, err
	}
	first, last := 1, 20
	if r.in.Pages != "" {
		a, b, isRange := strings.Cut(r.in.Pages, "-")
		first, _ = strconv.Atoi(a) // the schema has checked the form
		if last = first; isRange {
			last, _ = strconv.Atoi(b)
		}
	}
	text, pages, err := r.pdf(ctx, data, first, last)
	if err != nil {
		return nil, err
	}
	r.out.Content, r.out.Pages, r.out.MIMEType = text, pages, "application/pdf"
	if pages > last {
		text += fmt.Sprintf("\n[pages %d to %d of %d; read more with pages]\n", first, last, pages)
	}
	return builtin.Text(text), nil
}

func (r *reader) decoded(ctx context.Context, from io.Reader, e encoding.Encoding) ([]toolroom.Content, error) {
	data, err := r.readWhole(from)
	if err != nil {
		return nil, err
	}
	if data, err = e.NewDecoder().Bytes(data); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be decoded: %w", r.in.Path, err)
	}
	return r.lines(ctx, bufio.NewReader(bytes.NewReader(data)))
}

// lines reads the requested lines and counts the others.
func (r *reader) lines(ctx context.Context, from *bufio.Reader) ([]toolroom.Content, error) {
	first, limit := max(r.in.Offset, 1), cmp.Or(r.in.Limit, defaultLines)
	var text strings.Builder
	line, last, read := 0, 0, 0
	for read < maxCounted || line < first {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part, err := from.ReadSlice('\n')
		if len(part) == 0 && err != nil {
			r.out.TotalLines = line
			break
		}
		line++
		size := len(part)
		wanted := line >= first && line < first+limit && text.Len() < maxText
		if wanted {
			text.Write(part)
			last = line
		}
		for errors.Is(err, bufio.ErrBufferFull) && ctx.Err() == nil && (read+size < maxCounted || line < first) { // a long line
			part, err = from.ReadSlice('\n')
			if wanted && size < maxLine {
				text.Write(part)
			} else if wanted && size < maxLine*2 {
				text.WriteString(" […the line is cut]\n")
				wanted = false
			}
			size += len(part)
		}
		read += size
	}
	r.out.Content = strings.ToValidUTF8(text.String(), "\uFFFD")
	if last > 0 {
		r.out.FirstLine, r.out.LastLine = first, last
	}
	if line > last && last > 0 {
		r.out.Next = last + 1
	}
	if first > 1 && last == 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has %d lines, and offset is %d", r.in.Path, line, first)
	}
	shown := r.out.Content
	if r.out.Next > 0 || first > 1 {
		of := "more than " + strconv.Itoa(line)
		if r.out.TotalLines > 0 {
			of = strconv.Itoa(r.out.TotalLines)
		}
		shown = strings.TrimSuffix(shown, "\n") + fmt.Sprintf("\n[lines %d to %d of %s]", first, last, of)
	}
	return builtin.Text(shown), nil
}
