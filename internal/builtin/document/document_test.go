package document

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// pages is a PDF file with groups of pages, all with the same content.
func pages(groups, each int) []byte {
	var b strings.Builder
	var at []int
	object := func(text string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), text)
	}
	b.WriteString("%PDF-1.4\n")
	object("<</Type/Catalog/Pages 2 0 R>>")
	object(fmt.Sprintf("<</Type/Pages/Kids[%s]/Count %d>>", strings.Repeat("6 0 R ", groups), groups*each))
	object("<</Type/Page/Parent 6 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>")
	content := "BT /F1 12 Tf 10 100 Td (hello) Tj ET"
	object(fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(content), content))
	object("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
	object(fmt.Sprintf("<</Type/Pages/Parent 2 0 R/Kids[%s]/Count %d>>", strings.Repeat("3 0 R ", each), each))
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return []byte(b.String())
}

func TestAPartOfAPDFNeverCountsAsAllOfIt(t *testing.T) {
	t.Parallel()
	file := pages(22, (maxPages+2)/22)
	text, n, err := PDF(t.Context(), file, 1, 1<<30)
	if want := fmt.Sprintf("hello\n\n[pages %d to %d were not read: the document is too large]", maxPages+1, maxPages+2); n != maxPages+2 || err != nil || !strings.HasSuffix(text, want) {
		t.Errorf("%d pages, %v, which end in %q", n, err, text[max(0, len(text)-200):])
	}
	text, _, err = PDF(t.Context(), file, maxPages+1, maxPages+2)
	if want := fmt.Sprintf("[page %d]\nhello\n\n[page %d]\nhello", maxPages+1, maxPages+2); err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
}

func TestLinksOfAPageBeginWhereItSays(t *testing.T) {
	t.Parallel()
	paragraphs := strings.Repeat("<p>"+strings.Repeat("A sentence of an article, with commas, and more. ", 10)+"</p>", 8)
	for _, test := range []struct{ address, body, want string }{
		{"https://u:pw@example.com/a/b?q=1", `<a href="c">x</a>`, "[x](https://example.com/a/c)"},
		{"https://example.com/a/", `<a href="c">x</a>`, "[x](https://example.com/a/c)"},
		{"https://example.com/a/b", `<a href="/c">x</a>`, "[x](https://example.com/c)"},
		{"https://example.com/a/b", `<a href="../c">x</a>`, "[x](https://example.com/c)"},
		{"https://example.com/a/b", `<a href="#c">x</a>`, "[x](https://example.com/a/b#c)"},
		{"https://example.com/a/b", `<a href="//other.example/c">x</a>`, "[x](https://other.example/c)"},
		{"https://example.com/a/b", `<img src="c.png" alt="x">`, "![x](https://example.com/a/c.png)"},
		{"https://example.com/a/b", `<base target="_top"><base href="/d/"><a href="c">x</a>`, "[x](https://example.com/d/c)"},
		{"https://example.com/a/b", `<base href="javascript:1"><a href="c">x</a>`, "[x](https://example.com/a/c)"},
		{"https://example.com/a/b", "<base href='/d/'><article><h1>Title</h1>" + paragraphs + `<p>More: <a href="c">x</a>, and an end.</p></article>`, "[x](https://example.com/d/c)"},
	} {
		address, err := url.Parse(test.address)
		if err != nil {
			t.Fatal(err)
		}
		page, err := HTML(t.Context(), []byte("<html><body>"+test.body), address, false)
		if err != nil || !strings.Contains(page.Markdown, test.want) || strings.Contains(page.Markdown, "pw") {
			t.Errorf("%s of %s: %q, %v, want %q", test.body[:min(len(test.body), 60)], test.address, page.Markdown, err, test.want)
		}
	}
}
