package storage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/document"
)

// maxDocument is the maximum size of a document that is converted as a whole, in bytes. Plain
// text and CSV may have any size, because only the part that is kept is read.
const maxDocument = 32 << 20

// textual are the extensions of text files.
var textual = strings.Fields(`.txt .md .markdown .rst .adoc .org .log .json .jsonl .ndjson .yaml .yml .toml .ini .cfg .conf .env .xml .tex .sql .sh .py .js .ts .tsx
.jsx .go .rs .java .kt .c .h .cc .cpp .hpp .cs .rb .php .swift .scala .lua .pl .r .css .vtt .srt .properties`)

// readText returns the first characters of an object as text, at most the given number, and
// whether there was more. It returns an error for an object that does not look like text,
// unless force is set.
func readText(ctx context.Context, from *body, most int, force bool) (content string, more bool, err error) {
	in := bufio.NewReaderSize(from, 64<<10)
	head, err := in.Peek(3072)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	extension := strings.ToLower(path.Ext(from.Key))
	kind, _, _ := mime.ParseMediaType(from.kind) // an invalid type is none
	switch {
	case extension == ".pdf" || bytes.HasPrefix(head, []byte("%PDF-")):
		content, err = convertWhole(from, in, func(data []byte) (string, error) {
			text, _, err := document.PDF(ctx, data, 1, 1<<30)
			return text, err
		})
	case extension == ".docx":
		content, err = convertWhole(from, in, func(data []byte) (string, error) { return document.DOCX(ctx, data) })
	case extension == ".html", extension == ".htm", extension == "" && kind == "text/html":
		content, err = convertWhole(from, in, func(data []byte) (string, error) {
			page, err := document.HTML(ctx, data, from.client.address(from.of.bucket, from.Key, nil), true)
			return page.Markdown, err
		})
	case extension == ".csv", extension == ".tsv":
		return readTable(in, extension, most)
	case !force && (isBinary(head) || !slices.Contains(textual, extension) && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "json") && !strings.HasSuffix(kind, "xml")):
		return "", false, toolroom.Errorf(toolroom.CodeUnsupported, "%.200s (%s) does not look like text, PDF, DOCX, HTML or CSV", from.Key, kind).
			WithHint("pass force to read it as text nevertheless")
	default:
		return readPlain(in, most)
	}
	if err != nil {
		return "", false, err
	}
	return readPlain(strings.NewReader(content), most)
}

// isBinary reports whether head, the beginning of a file, is not UTF-8 text. Its last character
// may be incomplete.
func isBinary(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	for range utf8.UTFMax {
		if utf8.Valid(head) || len(head) == 0 {
			return false
		}
		head = head[:len(head)-1]
	}
	return true
}

// convertWhole reads a whole object and converts it.
func convertWhole(from *body, in io.Reader, convert func([]byte) (string, error)) (string, error) {
	tooLarge := toolroom.Errorf(toolroom.CodeResourceLimit, "%.200s has more than %d bytes, the most of documents of this type", from.Key, maxDocument)
	if from.Size > maxDocument {
		return "", tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1)) // the size may be unknown
	if err != nil {
		return "", err
	}
	if len(data) > maxDocument {
		return "", tooLarge
	}
	return convert(data)
}

// readPlain reads at most the given number of characters.
func readPlain(in io.Reader, most int) (string, bool, error) {
	var b strings.Builder
	r := bufio.NewReader(in)
	for n := 0; ; n++ {
		c, _, err := r.ReadRune()
		if errors.Is(err, io.EOF) {
			return b.String(), false, nil
		}
		if err != nil {
			return "", false, err
		}
		if n == most {
			return b.String(), true, nil
		}
		b.WriteRune(c)
	}
}

// readTable reads a CSV file. It writes each row as a paragraph that names the columns, so that
// a search finds rows.
func readTable(in io.Reader, extension string, most int) (string, bool, error) {
	r := csv.NewReader(in)
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	if extension == ".tsv" {
		r.Comma = '\t'
	}
	first, err := r.Read()
	if errors.Is(err, io.EOF) {
		return "", false, nil
	}
	columns := slices.Clone(first)
	var b strings.Builder
	left := most
	for err == nil {
		var row []string
		if row, err = r.Read(); err != nil {
			break
		}
		var parts []string
		for i, value := range row {
			if value = strings.Join(strings.Fields(value), " "); value == "" {
				continue
			}
			if i < len(columns) && columns[i] != "" {
				value = columns[i] + ": " + value
			}
			parts = append(parts, value)
		}
		line := strings.ToValidUTF8(strings.Join(parts, "; "), "\uFFFD") + "\n\n"
		if left -= utf8.RuneCountInString(line); left < 0 {
			return b.String(), true, nil
		}
		b.WriteString(line)
	}
	if _, ok := errors.AsType[*csv.ParseError](err); ok {
		return "", false, toolroom.Errorf(toolroom.CodeExecutionFailed, "the CSV file cannot be read: %w", err)
	}
	if !errors.Is(err, io.EOF) {
		return "", false, err
	}
	if b.Len() == 0 {
		b.WriteString(strings.Join(columns, "; "))
	}
	return b.String(), false, nil
}

// namespaceOf returns the namespace of memory for an object: its name, without the characters
// that namespaces cannot have.
func namespaceOf(base, key string) string {
	var parts []string
	for segment := range strings.SplitSeq(key, "/") {
		segment = strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
				return r
			}
			return '-'
		}, segment), ".-")
		if segment != "" {
			parts = append(parts, segment)
		}
	}
	name := base
	if len(parts) > 0 {
		name += "/" + strings.Join(parts, "/")
	}
	return name
}

// noteHeading returns the heading of an object's note.
func noteHeading(bucket, key string) string {
	return "# " + strings.Join(strings.Fields((&url.URL{Scheme: "s3", Host: bucket, Path: "/" + key}).String()), " ") + "\n\n"
}
