package mcp

import (
	"encoding/json"
	"strconv"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// skillsExtension is the extension for skills (SEP-2640). The server lists the skills of all
// sources; a caller sees those of the sources whose resources it may read.
const skillsExtension = "io.modelcontextprotocol/skills"

func (s *Server) listSkills(r *request) (*result, error) {
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	s.o.Ready(r.ctx)
	items := []any{}
	for _, k := range s.o.Library.Skills(s.readableBy(r.who, catalog.ReadTool)) {
		items = append(items, skillEntry(k))
	}
	page, next, err := paginate(items, cursor)
	if err != nil {
		return nil, err
	}
	said := map[string]any{"ttlMs": listTTL, "cacheScope": "private", "skills": page}
	if next != "" {
		said["nextCursor"] = next
	}
	return &result{members: newObject(said)}, nil
}

func (s *Server) getSkill(r *request) (*result, error) {
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	s.o.Ready(r.ctx)
	entry, err := s.skill(r, s.readableBy(r.who, catalog.ReadTool))
	if err != nil {
		return nil, err
	}
	return &result{members: newObject(map[string]any{"ttlMs": listTTL, "cacheScope": "private", "skill": entry})}, nil
}

// skill returns the definition of a skill. It asks the sources that may have the skill, one
// after the other. If policy does not let the caller ask a source, the definition in the
// source's list is used.
func (s *Server) skill(r *request, visible func(string) bool) (any, error) {
	uri := r.Name
	providers, own := s.o.Library.SkillProviders(uri, visible)
	for _, provider := range providers {
		if !s.mayAsk(r.ctx, r.who, catalog.ToolID(provider, catalog.ReadTool), map[string]any{"uri": own}) {
			for _, k := range s.o.Library.Skills(func(p string) bool { return p == provider && visible(p) }) {
				if k.URI == own {
					return skillEntry(catalog.Skill{Skill: k.Skill, Provider: provider, Shown: uri}), nil
				}
			}
			continue
		}
		src, _ := s.o.Library.Source(provider)
		from, ok := source.As[source.Library](src)
		if !ok {
			continue
		}
		found, err := from.Skill(r.ctx, own)
		switch {
		case err == nil:
			return skillEntry(catalog.Skill{Skill: found, Provider: provider, Shown: uri}), nil
		case toolroom.CodeOf(err) != toolroom.CodeNotFound && len(providers) == 1:
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	return nil, invalidParams("there is no skill " + uri + " (skills/list has those that are listed)")
}

// skillEntry returns the definition of a skill for clients: as its source sent it, with URIs
// that are unique in the room.
func skillEntry(k catalog.Skill) any {
	if !k.Scoped() {
		return k.Raw
	}
	entry, err := readObject(k.Raw)
	if err != nil {
		return k.Raw
	}
	entry.set("uri", k.Shown)
	var files []json.RawMessage
	if json.Unmarshal(entry.raw("resources"), &files) != nil { // "dynamic"
		return entry
	}
	shown := make([]object, 0, len(files))
	for _, raw := range files {
		file, err := readObject(raw)
		if err != nil {
			return entry
		}
		var uri string
		if json.Unmarshal(file.raw("uri"), &uri) == nil {
			file.set("uri", k.ShownFile(uri))
		}
		shown = append(shown, file)
	}
	entry.set("resources", shown)
	return entry
}

// paginate returns the page of items at a cursor, and the cursor of the next page.
func paginate(items []any, cursor string) (page []any, next string, err error) {
	start := 0
	if cursor != "" {
		if start, err = strconv.Atoi(cursor); err != nil || start < 0 || start > len(items) {
			return nil, "", invalidParams("the cursor is not of this list (begin again without one)")
		}
	}
	end := min(start+pageSize, len(items))
	if end < len(items) {
		next = strconv.Itoa(end)
	}
	return items[start:end], next, nil
}
