package server

import (
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/visible"
)

// cardPath is the path of the card of the MCP server at /mcp.
const cardPath = "/mcp/server-card"

// card describes an MCP server to clients that have not connected yet (SEP-2127): its
// name and address, but not its tools.
type card struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Remotes     []remote `json:"remotes"`
}

type remote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Versions []string `json:"supportedProtocolVersions"`
}

// newCard returns a handler that serves the card of a server at the URL base. It
// returns nil if base is not a URL; the Host of a request cannot be trusted instead.
func newCard(base, version string) (http.Handler, error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return nil, nil
	}
	// The name begins with the labels of the domain in reverse order. Addresses are
	// not reversed.
	labels := strings.Split(strings.ToLower(u.Hostname()), ".")
	if strings.Trim(u.Hostname(), "0123456789.:") != "" {
		slices.Reverse(labels)
	}
	text, err := json.Marshal(card{
		Schema:      "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
		Name:        strings.ReplaceAll(strings.Join(labels, "."), ":", "-") + "/toolroom",
		Version:     version,
		Title:       "Toolroom",
		Description: "A gateway and runtime for the tools of many sources.",
		Remotes: []remote{{
			Type: "streamable-http", URL: strings.TrimSuffix(base, "/") + "/mcp",
			Versions: []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"},
		}},
	})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(digest[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// The card is public, so pages of any origin may read it.
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
		h.Set("Access-Control-Expose-Headers", "ETag")
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/mcp-server-card+json")
		_, _ = w.Write(text) // an error means that the client has gone
	}), nil
}

//go:embed page.html
var pageHTML string

// page returns a handler that serves the page at /. Only the page's own script runs; it
// has the token that decisions need.
func page(version string, key auth.PageKey) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-"+nonce+
			"'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		// An error means that the client has gone.
		who := ""
		if id := auth.Identity(r.Context()); !auth.IsLocal(id) {
			who = id.Subject
		}
		_, _ = strings.NewReplacer("{{version}}", html.EscapeString(version), "{{who}}", html.EscapeString(visible.Text(who)), "{{nonce}}", nonce, "{{token}}", key.Token(r.Host)).WriteString(w, pageHTML)
	})
}
