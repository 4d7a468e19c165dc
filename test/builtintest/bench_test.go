package builtintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// The benchmarks run each tool through the whole pipeline, beside the program that people
// use in its place. scripts/bench-builtins.sh installs these and calls them.

// newBench returns a world whose file tools have the folders.
func newBench(b *testing.B, site http.Handler, roots ...string) *world {
	b.Helper()
	s := httptest.NewServer(site)
	b.Cleanup(s.Close)
	base, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	if err := writeWorld(base, s.URL, ""); err != nil {
		b.Fatal(err)
	}
	if len(roots) > 0 {
		config := filepath.Join(base, "toolroom.yaml")
		text, err := os.ReadFile(config)
		if err != nil {
			b.Fatal(err)
		}
		list, _ := json.Marshal(roots) // strings
		if err := os.WriteFile(config, bytes.Replace(text, []byte("builtin:\n"), fmt.Appendf(nil, "builtin:\n  file: {roots: %s}\n", list), 1), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	w, err := openWorld(b.Context(), base, s.URL)
	if w == nil { // a site that is not Google only fails the login
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close() })
	return w
}

// call makes a call that must succeed.
func (w *world) call(b *testing.B, tool string, args toolroom.Args) *toolroom.Result {
	b.Helper()
	r := w.run(b.Context(), "", tool, args)
	if !r.OK() {
		b.Fatalf("%s: %+v", tool, r.Error)
	}
	return r
}

func program(b *testing.B, name string, args ...string) []byte {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), name, args...).Output()
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return out
}

func BenchmarkFile(b *testing.B) {
	w := newBench(b, http.NotFoundHandler())
	path := filepath.Join(w.dir, "long.txt")
	text := strings.Repeat("a line of text that is as long as lines often are\n", 2000)
	if err := os.WriteFile(path, []byte(text+"before\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("file:read", func(b *testing.B) {
		for b.Loop() {
			w.call(b, "file:read", toolroom.Args{"path": "long.txt"})
		}
	})
	b.Run("cat", func(b *testing.B) {
		for b.Loop() {
			program(b, "cat", path)
		}
	})
	b.Run("file:edit", func(b *testing.B) {
		from, to := "before", "behind"
		for b.Loop() {
			w.call(b, "file:edit", toolroom.Args{"path": "long.txt", "search": from, "replace": to})
			from, to = to, from
		}
	})
	b.Run("sed", func(b *testing.B) {
		for b.Loop() {
			program(b, "sed", "-i", "s/before/behind/", path)
		}
	})
}

// serveArticle is a page of 40 paragraphs, with what surrounds articles.
func serveArticle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html><head><title>Harbours</title></head><body><nav>"+strings.Repeat("<a href=/x>link</a> ", 100)+"</nav><article><h1>Harbours</h1>")
	for i := range 40 {
		fmt.Fprintf(w, "<p>Paragraph %d tells of ships, of their captains, and of the towns that they have seen, in <b>some</b> detail and <a href=/%d>with links</a>.</p>", i, i)
	}
	fmt.Fprint(w, "</article><aside>"+strings.Repeat("<p>An advertisement.</p>", 50)+"</aside></body></html>")
}

func BenchmarkFetch(b *testing.B) {
	w := newBench(b, http.HandlerFunc(serveArticle))
	b.Run("web:fetch", func(b *testing.B) {
		for i := 0; b.Loop(); i++ { // each address is new, so that none comes from the cache
			w.call(b, "web:fetch", toolroom.Args{"url": fmt.Sprintf("%s/%d", w.url, i)})
		}
	})
	b.Run("curl_and_readability", func(b *testing.B) {
		python := os.Getenv("BENCH_PYTHON")
		for b.Loop() {
			program(b, "sh", "-c", "curl -s "+w.url+"/a | "+python+" -c 'import sys; from readability import Document; print(Document(sys.stdin.read()).summary())'")
		}
	})
}

// serveShop is a page of 200 products.
func serveShop(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<title>Shop</title><h1>Shop</h1><nav><a href=/>Home</a><a href=/cart>Cart</a></nav><ul>")
	for i := range 200 {
		fmt.Fprintf(w, `<li><h3>Product %d</h3><p>A description of product %d that says what it is for.</p><span>%d €</span><button>Add to cart</button> <a href="/p/%d">Details</a></li>`, i, i, i, i)
	}
	fmt.Fprint(w, "</ul>")
}

// tokens is an estimate: four bytes each.
func tokens(b *testing.B, text string) { b.ReportMetric(float64(len(text))/4, "tokens") }

func BenchmarkSnapshot(b *testing.B) {
	w := newBench(b, http.HandlerFunc(serveShop))
	w.call(b, "browser:navigate", toolroom.Args{"url": w.url})
	for _, tool := range []string{"browser:snapshot", "browser:click"} {
		b.Run(tool, func(b *testing.B) {
			text := ""
			for b.Loop() {
				args := toolroom.Args{}
				if tool == "browser:click" {
					args["selector"] = "li:nth-child(1) button"
				}
				text = w.call(b, tool, args).Text()
			}
			tokens(b, text)
		})
	}
	cli := os.Getenv("BENCH_PLAYWRIGHT")
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	cmd := exec.Command("node", cli, "--headless", "--no-sandbox", "--isolated", "--executable-path", "/usr/bin/chromium")
	cmd.Dir = b.TempDir() // it writes its snapshots there
	session, err := client.Connect(b.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 5 * time.Second}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	ask := func(tool string, args map[string]any) string {
		r, err := session.CallTool(b.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil || r.IsError {
			b.Fatalf("%s: %v %+v", tool, err, r)
		}
		var text strings.Builder
		for _, c := range r.Content {
			if c, ok := c.(*mcp.TextContent); ok {
				text.WriteString(c.Text)
			}
		}
		return text.String()
	}
	ask("browser_navigate", map[string]any{"url": w.url})
	b.Run("playwright_mcp_snapshot", func(b *testing.B) {
		text := ""
		for b.Loop() {
			text = ask("browser_snapshot", map[string]any{})
		}
		tokens(b, text)
	})
}
