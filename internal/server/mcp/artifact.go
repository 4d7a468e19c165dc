package mcp

import (
	"context"
	"encoding/base64"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
)

// maxArtifact is the size, in bytes, of the largest artifact that can be read as one
// resource. read_result returns larger ones in pages.
const maxArtifact = 16 << 20

// readArtifact returns a stored result or artifact as a resource, to its owner only.
func (s *Server) readArtifact(ctx context.Context, r *request, handle string) (*result, error) {
	if s.o.Artifacts == nil {
		return nil, resourceNotFound(r.ServerRequest, r.Name)
	}
	file, about, err := s.o.Artifacts.Open(ctx, identity.Owner(r.who), handle)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return nil, resourceNotFound(r.ServerRequest, r.Name)
	}
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	defer file.Close()
	if about.Size > maxArtifact {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeNotFound, "%s is too large for a resource: it has %d bytes", handle, about.Size).
			WithHint("read it in pages with %s", readResult))
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	content := map[string]any{"uri": r.Name}
	if about.MIMEType != "" {
		content["mimeType"] = about.MIMEType
	}
	if isText(about.MIMEType) && utf8.Valid(data) {
		content["text"] = string(data)
	} else {
		content["blob"] = base64.StdEncoding.EncodeToString(data)
	}
	out := &result{members: newObject(map[string]any{"contents": []any{content}})}
	if r.Modern() {
		out.members.set("cacheScope", "private")
		out.members.set("ttlMs", 0)
	}
	return out, nil
}

func isText(mimeType string) bool {
	return strings.HasPrefix(mimeType, "text/") || strings.HasPrefix(mimeType, "application/json")
}
