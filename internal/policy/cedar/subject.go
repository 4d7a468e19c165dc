package cedar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// The entity types and the action of toolroom.cedarschema.
const (
	typeIdentity  = "Identity"
	typeTeam      = "Team"
	typeTool      = "Tool"
	typeNamespace = "Namespace"
	typeSource    = "Source"
	typeTag       = "Tag"
	typeGroup     = "Group"
	typeAction    = "Action"
	actionCall    = "call"
)

// subject is a caller and a tool as Cedar entities.
type subject struct{ caller, tool cedar.Entity }

// Get implements Cedar's EntityGetter.
func (s subject) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch uid {
	case s.caller.UID:
		return s.caller, true
	case s.tool.UID:
		return s.tool, true
	default:
		return cedar.Entity{}, false
	}
}

func (s subject) request(context cedar.Record) cedar.Request {
	return cedar.Request{
		Principal: s.caller.UID, Action: cedar.NewEntityUID(typeAction, actionCall), Resource: s.tool.UID, Context: context,
	}
}

func (r *Rules) subject(t *toolroom.Tool, who toolroom.Identity) subject {
	teams := make([]cedar.EntityUID, len(who.Groups))
	for i, team := range who.Groups {
		teams[i] = cedar.NewEntityUID(typeTeam, cedar.String(team))
	}
	id := t.ID.Unversioned().String()
	parents := []cedar.EntityUID{
		cedar.NewEntityUID(typeNamespace, cedar.String(t.ID.Namespace)),
		cedar.NewEntityUID(typeSource, cedar.String(t.Source)),
	}
	for _, tag := range t.Tags {
		parents = append(parents, cedar.NewEntityUID(typeTag, cedar.String(tag)))
	}
	for name, group := range r.o.Groups {
		if group.Matches(t) {
			parents = append(parents, cedar.NewEntityUID(typeGroup, cedar.String(name)))
		}
	}
	return subject{
		caller: cedar.Entity{
			UID:     cedar.NewEntityUID(typeIdentity, cedar.String(who.Key())),
			Parents: cedar.NewEntityUIDSet(teams...),
			Attributes: cedar.NewRecord(cedar.RecordMap{
				"agent": cedar.String(who.Agent), "provider": cedar.String(who.Provider), "skill": cedar.String(who.Skill), "set": cedar.String(who.Set),
				"environment": cedar.String(who.Environment),
			}),
		},
		tool: cedar.Entity{
			UID:     cedar.NewEntityUID(typeTool, cedar.String(id)),
			Parents: cedar.NewEntityUIDSet(parents...),
			Attributes: cedar.NewRecord(cedar.RecordMap{
				"id": cedar.String(id), "namespace": cedar.String(t.ID.Namespace), "name": cedar.String(t.ID.Name),
				"version": cedar.String(t.ID.Version), "source": cedar.String(t.Source), "tags": stringSet(t.Tags),
				"read_only": cedar.Boolean(t.Hints.IsReadOnly()), "destructive": cedar.Boolean(t.Hints.IsDestructive()),
				"idempotent": cedar.Boolean(t.Hints.IsIdempotent()), "open_world": cedar.Boolean(t.Hints.IsOpenWorld()),
			}),
		},
	}
}

// contextRecord returns the context of a call for rules, with the given members only. Times are
// in UTC.
func (r *Rules) contextRecord(c *policy.Context, members map[string]bool) (cedar.Record, error) {
	record := make(cedar.RecordMap, len(members))
	for name := range members {
		if name == "arguments" && c.Arguments == nil {
			continue
		}
		member, err := r.contextMember(name, c)
		if err != nil {
			return cedar.Record{}, err
		}
		record[cedar.String(name)] = member
	}
	return cedar.NewRecord(record), nil
}

// contextMember returns one attribute of the context, as toolroom.cedarschema defines it.
func (r *Rules) contextMember(name string, c *policy.Context) (cedar.Value, error) {
	at := c.Time.UTC()
	if at.IsZero() {
		at = time.Now().UTC()
	}
	switch name {
	case "arguments":
		tree, err := c.Arguments()
		if err != nil {
			return nil, err
		}
		arguments, ok := cedarValue(tree)
		if !ok {
			return nil, fmt.Errorf("they are %T", tree)
		}
		return arguments, nil
	case "environment":
		return cedar.String(r.o.Environment), nil
	case "surface":
		return cedar.String(c.Surface), nil
	case "session":
		return cedar.String(c.Session), nil
	case "time":
		return cedar.NewDatetime(at), nil
	case "hour":
		return cedar.Long(at.Hour()), nil
	case "weekday":
		return cedar.String(strings.ToLower(at.Weekday().String())), nil
	case "depth":
		return cedar.Long(c.Depth), nil
	case "effects":
		return effectsRecord(c), nil
	case "taint":
		return stringSet(c.Taint), nil
	case "isolation":
		if c.Isolation == nil {
			return cedar.String(toolroom.IsolationNone), nil
		}
		return cedar.String(policy.Strength(c.Isolation())), nil
	case "budget":
		return cedar.NewRecord(cedar.RecordMap{"calls": cedar.Long(c.Budget.Calls), "bytes": cedar.Long(c.Budget.Bytes)}), nil
	default:
		return nil, fmt.Errorf("nothing is known of context.%s", name)
	}
}

// effectsRecord returns the predicted effects of a call. A set with an unknown member is
// unrepresentable: a rule that uses it cannot be evaluated, and counts as matching if it
// restricts.
func effectsRecord(c *policy.Context) cedar.Record {
	sets := map[cedar.String][]string{"read": nil, "write": nil, "hosts": nil, "commands": nil}
	unknown := map[cedar.String]bool{}
	add := func(set cedar.String, values ...string) {
		unknown[set] = unknown[set] || slices.Contains(values, "")
		sets[set] = append(sets[set], values...)
	}
	for _, e := range c.Effects {
		if e.Reads() {
			add("read", e.Target)
		}
		if e.Writes() {
			add("write", e.Target)
		}
		switch e.Kind {
		case toolroom.EffectHost:
			add("hosts", e.Target)
		case toolroom.EffectCommand:
			add("commands", policy.ProgramNames(e.Target)...)
		}
	}
	record := cedar.RecordMap{"known": cedar.Boolean(c.Effects != nil), "secrets": stringSet(c.Secrets)}
	addSpending(record, c.Effects)
	for name, set := range sets {
		record[name] = stringSet(set)
		if unknown[name] {
			record[name] = unrepresentable
		}
	}
	return cedar.NewRecord(record)
}

func stringSet(list []string) cedar.Set {
	values := make([]cedar.Value, len(list))
	for i, text := range list {
		values[i] = cedar.String(text)
	}
	return cedar.NewSet(values...)
}

// unrepresentable stands for a value that Cedar cannot represent. The operator has finds it, and
// every comparison with it is an error, so that a rule that uses it cannot be evaluated and counts
// as matching if it restricts.
var unrepresentable = cedar.NewRecord(cedar.RecordMap{"unknown": cedar.True})

// cedarValue converts JSON to a Cedar value. Whole numbers of 64 bits become Long, others decimal
// if four digits after the point suffice, and lists become sets. Other numbers are
// unrepresentable, and so is a list with one of them or a null: a set without it would mean
// another list. A null is false, and is omitted from objects.
func cedarValue(v any) (cedar.Value, bool) {
	switch v := v.(type) {
	case string:
		return cedar.String(v), true
	case bool:
		return cedar.Boolean(v), true
	case json.Number:
		if n, ok := cedarNumber(v); ok {
			return n, true
		}
		return unrepresentable, true
	case []any:
		items := make([]cedar.Value, 0, len(v))
		for _, item := range v {
			one, ok := cedarValue(item)
			if !ok || one.Equal(unrepresentable) {
				return unrepresentable, true
			}
			items = append(items, one)
		}
		return cedar.NewSet(items...), true
	case map[string]any:
		members := make(cedar.RecordMap, len(v))
		for key, item := range v {
			if one, ok := cedarValue(item); ok {
				members[cedar.String(key)] = one
			}
		}
		return cedar.NewRecord(members), true
	default:
		return nil, false
	}
}
