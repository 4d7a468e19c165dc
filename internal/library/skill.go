package library

import (
	"path"
	"strings"

	"github.com/toolroom/toolroom/source"
)

// Skill is a skill of one provider, under the URI that is shown.
type Skill struct {
	source.Skill
	Provider string
	// Shown is the skill's own URI, or one under toolroom://sources where another
	// source has the same. Those of its files are as its own is.
	Shown string
}

// Scoped reports whether the skill is shown under another URI than its own.
func (s *Skill) Scoped() bool { return s.Shown != s.URI }

// ShownFile is the URI of a file of the skill, as it is shown.
func (s *Skill) ShownFile(uri string) string {
	if s.Scoped() {
		return scopedFile(s.Provider, uri)
	}
	return uri
}

// Skills lists the skills of the providers that visible accepts, in the order of
// providers and then as each source has them.
func (l *Library) Skills(visible func(provider string) bool) []Skill {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []Skill
	uris := taken{}
	for _, provider := range l.providers() {
		seen := visible(provider)
		for _, s := range l.offers[provider].Skills {
			shown := uris.shown(provider, s.URI, scopedFile)
			if seen {
				all = append(all, Skill{Skill: s, Provider: provider, Shown: shown})
			}
		}
	}
	return all
}

// SkillProviders gives the sources that may know the skill with a shown URI, and
// the URI that they know: the one that lists it, or else all that serve skills,
// since none need list all of its own.
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
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, provider := range l.providers() {
		if l.offers[provider].Skills != nil && visible(provider) {
			providers = append(providers, provider)
		}
	}
	return providers, uri
}

// skillFile gives the source of a file of a skill: of one that is listed, or of
// the only source that serves skills.
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

// scopedFile is a URI under toolroom://sources that keeps its path: the last parts
// of a skill's URI say what it is called and where its files are.
func scopedFile(provider, uri string) string {
	return scopedPrefix + provider + "/" + strings.ReplaceAll(uri, "%", "%25")
}

func sameSkill(a, b source.Skill) bool { return a.URI == b.URI && string(a.Raw) == string(b.Raw) }
