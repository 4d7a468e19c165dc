package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// The suite reads any skill. This one also has a second file.
const skillURI = "skill://fixtures/careful-greeting/SKILL.md"

var skillFiles = []struct{ uri, text string }{
	{skillURI, "---\nname: careful-greeting\ndescription: Greets people with care.\nlicense: Apache-2.0\n---\n\nRead [the guide](references/GUIDE.md) first.\n"},
	{"skill://fixtures/careful-greeting/references/GUIDE.md", "# Guide\n\nSay hello, and mean it.\n"},
}

// Skills lists the skill.
func (p *pack) Skills(ctx context.Context) ([]source.Skill, error) {
	skill, err := p.Skill(ctx, skillURI)
	return []source.Skill{skill}, err
}

// Skill returns the skill.
func (p *pack) Skill(_ context.Context, uri string) (source.Skill, error) {
	if uri != skillURI {
		return source.Skill{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no skill %s", uri)
	}
	files := []map[string]any{}
	for _, f := range skillFiles {
		digest := sha256.Sum256([]byte(f.text))
		files = append(files, map[string]any{"uri": f.uri, "digest": "sha256:" + hex.EncodeToString(digest[:]), "size": len(f.text)})
	}
	raw, err := json.Marshal(map[string]any{
		"uri": uri, "resources": files,
		"frontmatter": map[string]string{"name": "careful-greeting", "description": "Greets people with care.", "license": "Apache-2.0"},
	})
	return source.Skill{URI: uri, Raw: raw}, err
}

// skillFile returns a file of the skill, or an empty text if there is none.
func skillFile(uri string) string {
	for _, f := range skillFiles {
		if f.uri == uri {
			return f.text
		}
	}
	return ""
}
