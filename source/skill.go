package source

import (
	"context"
	"encoding/json"
)

// Skills is implemented by sources that serve skills (the MCP extension
// io.modelcontextprotocol/skills, SEP-2640): folders with instructions for
// agents, whose files are resources. A change of the list is told as a change of
// the resources is.
type Skills interface {
	// Skills lists the skills, which need not be all that there are. It is called
	// whenever Tools is. Nil, and no error, is of a source that serves none.
	Skills(ctx context.Context) ([]Skill, error)

	// Skill gives one skill by the URI of its SKILL.md, listed or not. The error
	// for one that is not there has code not_found.
	Skill(ctx context.Context, uri string) (Skill, error)
}

// Skill is what is said of a skill.
type Skill struct {
	// URI is that of its SKILL.md.
	URI string `json:"uri"`
	// Raw is its whole entry, with the frontmatter and the digests of its files,
	// as the extension has it.
	Raw json.RawMessage `json:"-"`
}
