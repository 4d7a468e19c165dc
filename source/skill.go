package source

import (
	"context"
	"encoding/json"
)

// Skills is implemented by sources that serve skills (the MCP extension
// io.modelcontextprotocol/skills, SEP-2640): folders with instructions for
// agents, whose files are resources. Such a source announces a changed list like
// changed resources.
type Skills interface {
	// Skills lists skills; the list may be incomplete. It is called whenever Tools
	// is. Nil without an error means that the source serves no skills.
	Skills(ctx context.Context) ([]Skill, error)

	// Skill returns one skill by the URI of its SKILL.md, listed or not. If it does
	// not exist, the error has code not_found.
	Skill(ctx context.Context, uri string) (Skill, error)
}

// Skill describes a skill.
type Skill struct {
	// URI is the URI of its SKILL.md.
	URI string `json:"uri"`
	// Raw is its whole entry in the extension's format, with the frontmatter and
	// the digests of its files.
	Raw json.RawMessage `json:"-"`
}
