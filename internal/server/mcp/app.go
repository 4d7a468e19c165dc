package mcpserver

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/catalog"
)

// appsExtension is MCP Apps (SEP-1865): tools with a page, which is a resource.
const appsExtension = "io.modelcontextprotocol/ui"

func showsPages(caps *mcp.ClientCapabilities) bool {
	if caps == nil {
		return false
	}
	_, shows := caps.Extensions[appsExtension]
	return shows
}

// pagesOnly reports whether a tool is for its page alone. A client that shows no
// pages would take it for one of the model's.
func pagesOnly(e *catalog.Entry) bool {
	if !bytes.Contains(e.Tool.Raw, []byte(`"visibility"`)) {
		return false
	}
	var sent struct {
		Meta struct {
			UI struct {
				Visibility []string `json:"visibility"`
			} `json:"ui"`
		} `json:"_meta"`
	}
	if json.Unmarshal(e.Tool.Raw, &sent) != nil {
		return false
	}
	audience := sent.Meta.UI.Visibility
	return len(audience) > 0 && !slices.Contains(audience, "model")
}
