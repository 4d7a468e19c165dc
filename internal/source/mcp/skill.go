package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// skillExtension lets a server serve skills (SEP-2640).
const skillExtension = "io.modelcontextprotocol/skills"

// Skills lists all pages of the server's skills, or returns nil if it serves none.
func (s *Source) Skills(ctx context.Context) (skills []source.Skill, err error) {
	err = s.withUpstream(ctx, "list its skills", func(up *upstream) error {
		skills = nil
		if !up.servesSkills() {
			return nil
		}
		items, err := s.readPages(ctx, up, "skills/list", "skills")
		if err == nil {
			skills = decodeDefinitions(s, items, func(k *source.Skill, raw json.RawMessage) string { k.Raw = raw; return k.URI })
		}
		return err
	})
	return skills, err
}

// Skill asks the server for one skill.
func (s *Source) Skill(ctx context.Context, uri string) (source.Skill, error) {
	skill := source.Skill{URI: uri}
	err := s.withUpstream(ctx, "show a skill", func(up *upstream) error {
		if !up.servesSkills() {
			return noSkill(uri)
		}
		raw, err := up.call(ctx, &mcp.Request{Method: "skills/get", Params: []mcp.Field{mcp.String("uri", uri)}})
		if rpc := (*mcp.Error)(nil); errors.As(err, &rpc) && rpc.Code == mcp.CodeInvalidParams {
			return noSkill(uri)
		}
		if err != nil {
			return err
		}
		var got struct {
			Skill json.RawMessage `json:"skill"`
		}
		err = json.Unmarshal(raw, &got)
		skill.Raw = got.Skill
		return err
	})
	return skill, err
}

func noSkill(uri string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "skill %s not found", uri)
}

func (up *upstream) servesSkills() bool {
	var extensions map[string]json.RawMessage
	if json.Unmarshal(up.session.Server().Capabilities["extensions"], &extensions) != nil {
		return false
	}
	_, serves := extensions[skillExtension]
	return serves && up.session.Server().Modern()
}
