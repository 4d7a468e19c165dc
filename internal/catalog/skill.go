package catalog

import (
	"path"
	"strings"

	"github.com/toolroom/toolroom/source"
)

// Skill is a skill of one provider, under its shown URI.
type Skill struct {
	source.Skill
	Provider string
	// Shown is the skill's own URI, or one under toolroom://sources if another source
	// has the same URI. The URIs of its files have the same form.
	Shown string
}

// Scoped reports whether the shown URI differs from the skill's own.
func (s *Skill) Scoped() bool { return s.Shown != s.URI }

// ShownFile returns the shown URI of a file of the skill.
func (s *Skill) ShownFile(uri string) string {
	if s.Scoped() {
		return scopedFile(s.Provider, uri)
	}
	return uri
}

// Skills lists the skills of the providers for which visible returns true, in the order
// of providers and then in that of the source.
func (l *Library) Skills(visible func(provider string) bool) []Skill {
	var all []Skill
	uris := shownURIs{}
	for _, o := range l.snapshot() {
		seen := visible(o.provider)
		for _, s := range o.Skills {
			shown := uris.assign(o.provider, s.URI, scopedFile)
			if seen {
				all = append(all, Skill{Skill: s, Provider: o.provider, Shown: shown})
			}
		}
	}
	return all
}

// SkillProviders returns the sources that may have the skill with a shown URI, and their
// own URI for it: the source that lists it, else all sources that serve skills, because a
// source need not list all its skills.
func (l *Library) SkillProviders(uri string, visible func(provider string) bool) (providers []string, own string) {
	if provider, own, ok := cutScoped(uri); ok {
		if visible(provider) {
			return []string{provider}, own
		}
		return nil, ""
	}
	for _, s := range l.Skills(visible) {
		if s.Shown == uri {
			return []string{s.Provider}, s.URI
		}
	}
	for _, o := range l.snapshot() {
		if o.Skills != nil && visible(o.provider) {
			providers = append(providers, o.provider)
		}
	}
	return providers, uri
}

// skillFile returns the source of a file of a skill: of a listed skill, or the only source
// that serves skills.
func (l *Library) skillFile(uri string, visible func(provider string) bool) (provider string, ok bool) {
	for _, s := range l.Skills(visible) {
		if !s.Scoped() && strings.HasPrefix(uri, strings.TrimSuffix(s.URI, path.Base(s.URI))) {
			return s.Provider, true
		}
	}
	providers, _ := l.SkillProviders(uri, visible)
	if len(providers) != 1 || !strings.HasPrefix(uri, "skill://") {
		return "", false
	}
	return providers[0], true
}

// scopedFile returns a URI under toolroom://sources that keeps the path, because the last
// parts of a skill's URI are its name and the paths of its files.
func scopedFile(provider, uri string) string {
	return scopedPrefix + provider + "/" + strings.ReplaceAll(uri, "%", "%25")
}

func sameSkill(a, b source.Skill) bool { return a.URI == b.URI && string(a.Raw) == string(b.Raw) }
