package source

import "encoding/json"

// Skill describes a skill: a folder with instructions for agents, whose files are
// resources (the MCP extension io.modelcontextprotocol/skills, SEP-2640).
type Skill struct {
	// URI is the URI of its SKILL.md.
	URI string `json:"uri"`
	// Raw is its whole entry in the extension's format, with the frontmatter and
	// the digests of its files.
	Raw json.RawMessage `json:"-"`
}
