// Package document converts documents to text for models: web pages to Markdown, PDF and DOCX
// files to plain text. Documents are untrusted, so sizes and times are bounded, and a panic in
// a parser becomes an error.
package document

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/ledongthuc/pdf"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
)

// Limits on what is read of one document.
const (
	maxHTML     = 8 << 20
	maxXML      = 16 << 20 // of a DOCX file, once unpacked
	maxPDFText  = 8 << 20
	maxPages    = 2000
	convertTime = 20 * time.Second
)

// Page is a web page as Markdown.
type Page struct {
	Title, Byline, Site, Language string
	Markdown                      string
	// Article reports that Markdown is the page's main content, without menus and other
	// parts around it.
	Article bool
}

// HTML converts a web page. With whole it keeps the parts around the main content.
func HTML(ctx context.Context, text []byte, address *url.URL, whole bool) (Page, error) {
	if len(text) > maxHTML {
		text = text[:maxHTML]
	}
	return runBounded(ctx, "the page", func() (Page, error) { return convertHTML(text, address, whole) })
}

func convertHTML(text []byte, address *url.URL, whole bool) (Page, error) {
	doc, err := html.Parse(bytes.NewReader(text))
	if err != nil { // nested too deeply
		return Page{Markdown: plainText(text)}, nil
	}
	page := Page{Title: titleOf(doc)}
	links := linkBase(doc, address)
	removeHidden(doc)
	content := doc
	if !whole && readability.CheckDocument(doc) {
		if article, err := readability.FromDocument(doc, links); err == nil && article.Node != nil {
			content = article.Node
			page = Page{Title: firstNonBlank(article.Title(), page.Title), Byline: article.Byline(), Site: article.SiteName(), Language: article.Language(), Article: true}
		}
	}
	if !whole && !page.Article {
		removeElements(content, surroundingElements)
	}
	to := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	markdown, err := to.ConvertNode(content, converter.WithDomain(links.String()))
	if err != nil {
		return Page{}, err
	}
	page.Markdown = strings.TrimSpace(string(markdown))
	return page, nil
}

// linkBase returns the base address of relative links: that of the page, without a password, or
// the one in its first <base>.
func linkBase(doc *html.Node, address *url.URL) *url.URL {
	page := *address
	page.User = nil
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Base {
			continue
		}
		for _, a := range n.Attr {
			if a.Key != "href" {
				continue
			}
			if named, err := page.Parse(strings.TrimSpace(a.Val)); err == nil && (named.Scheme == "http" || named.Scheme == "https") && named.Host != "" {
				named.User = nil
				return named
			}
			return &page
		}
	}
	return &page
}

func firstNonBlank(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

// plainText returns the text of a page that cannot be parsed as a tree.
func plainText(text []byte) string {
	var out strings.Builder
	skip := 0
	for t := html.NewTokenizer(bytes.NewReader(text)); ; {
		switch t.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(out.String())
		case html.TextToken:
			if words := strings.Fields(string(t.Text())); skip == 0 && len(words) > 0 {
				out.WriteString(strings.Join(words, " ") + "\n")
			}
		case html.StartTagToken:
			if name, _ := t.TagName(); droppedElements[atom.Lookup(name)] {
				skip++
			}
		case html.EndTagToken:
			if name, _ := t.TagName(); droppedElements[atom.Lookup(name)] && skip > 0 {
				skip--
			}
		}
	}
}

func titleOf(n *html.Node) string {
	if n.DataAtom == atom.Title && n.FirstChild != nil {
		return strings.Join(strings.Fields(n.FirstChild.Data), " ")
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if title := titleOf(c); title != "" {
			return title
		}
	}
	return ""
}

// droppedElements are elements that a reader of the page does not see.
var droppedElements = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Iframe: true, atom.Object: true, atom.Embed: true, atom.Svg: true,
}

// surroundingElements are the parts of a page around its content.
var surroundingElements = map[atom.Atom]bool{atom.Nav: true, atom.Aside: true, atom.Footer: true}

func removeElements(n *html.Node, elements map[atom.Atom]bool) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && elements[c.DataAtom] {
			n.RemoveChild(c)
		} else {
			removeElements(c, elements)
		}
		c = next
	}
}

// removeHidden removes what a reader of the page does not see, because hidden text may be meant
// for models.
func removeHidden(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (droppedElements[c.DataAtom] || isHidden(c)) {
			n.RemoveChild(c)
		} else {
			removeHidden(c)
		}
		c = next
	}
}

func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			style := strings.ToLower(strings.ReplaceAll(a.Val, " ", ""))
			for _, sign := range []string{"display:none", "visibility:hidden", "opacity:0;", "font-size:0"} {
				if strings.Contains(style+";", sign) {
					return true
				}
			}
		}
	}
	return false
}

// PDF returns the text of the pages first to last, counted from 1, and the number of pages.
func PDF(ctx context.Context, data []byte, first, last int) (string, int, error) {
	type result struct {
		text  string
		pages int
	}
	r, err := runBounded(ctx, "the PDF file", func() (result, error) {
		file, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return result{}, err
		}
		r := result{pages: file.NumPage()}
		var text strings.Builder
		for i := max(first, 1); i <= min(last, r.pages); i++ {
			if err := ctx.Err(); err != nil {
				return result{}, err
			}
			if i-max(first, 1) >= maxPages || text.Len() > maxPDFText {
				fmt.Fprintf(&text, "\n\n[pages %d to %d were not read: the document is too large]", i, min(last, r.pages))
				break
			}
			page := file.Page(i)
			if page.V.IsNull() {
				continue
			}
			content, err := page.GetPlainText(nil)
			if err != nil {
				return r, fmt.Errorf("page %d: %w", i, err)
			}
			if text.Len() > 0 {
				text.WriteString("\n\n")
			}
			fmt.Fprintf(&text, "[page %d]\n%s", i, strings.TrimSpace(content))
		}
		r.text = strings.ToValidUTF8(text.String(), "\uFFFD")
		return r, nil
	})
	return r.text, r.pages, err
}

// DOCX returns the text of a Word document: one line for each paragraph.
func DOCX(ctx context.Context, data []byte) (string, error) {
	return runBounded(ctx, "the DOCX file", func() (string, error) {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return "", err
		}
		for _, f := range archive.File {
			if f.Name != "word/document.xml" {
				continue
			}
			part, err := f.Open()
			if err != nil {
				return "", err
			}
			defer part.Close()
			limited := &io.LimitedReader{R: part, N: maxXML}
			text, err := paragraphs(ctx, limited)
			if limited.N == 0 {
				return "", toolroom.Errorf(toolroom.CodeResourceLimit, "the document is larger than %d bytes once unpacked", maxXML)
			}
			return text, err
		}
		return "", errors.New("it contains no word/document.xml")
	})
}

func paragraphs(ctx context.Context, r io.Reader) (string, error) {
	var text strings.Builder
	decoder := xml.NewDecoder(r)
	inText := false
	for ctx.Err() == nil {
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(text.String()), nil
		}
		if err != nil {
			return "", err
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "t":
				inText = true
			case "tab":
				text.WriteString("\t")
			case "br", "cr":
				text.WriteString("\n")
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText = false
			case "p":
				text.WriteString("\n")
			}
		case xml.CharData:
			if inText {
				text.Write(t)
			}
		}
	}
	return "", ctx.Err()
}

// runBounded runs a conversion that may panic or take long. A conversion that exceeds its time
// keeps running in the background; its input is small enough for that.
func runBounded[T any](ctx context.Context, what string, convert func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, convertTime)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		if panicked := panics.Catch(func() { r.value, r.err = convert() }); panicked != nil {
			r.err = errors.New("it is damaged")
		}
		done <- r
	}()
	var none T
	select {
	case r := <-done:
		if errors.Is(ctx.Err(), context.Canceled) {
			return none, context.Cause(ctx)
		}
		if _, known := errors.AsType[*toolroom.Error](r.err); r.err != nil && !known {
			r.err = toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be read: %w", what, r.err)
		}
		return r.value, r.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return none, context.Cause(ctx)
		}
		return none, toolroom.Errorf(toolroom.CodeResourceLimit, "%s takes longer than %s to read", what, convertTime)
	}
}
