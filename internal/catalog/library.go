package catalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/yosida95/uritemplate/v3"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Names of the tools with which the resources and prompts of a source are read.
const (
	ReadTool = "resources.read"
	GetTool  = "prompts.get"
)

// Offer is the set of entries of one source. It must not be changed after Set.
type Offer struct {
	Resources []source.Resource
	Templates []source.Template
	Prompts   []source.Prompt
	// Skills are the listed skills; nil means that the source serves none.
	Skills []source.Skill
	// Plain shows prompts under their bare names if these are unique.
	Plain bool
	// Source completes arguments and watches resources if it supports that.
	Source source.Source
}

// Resource is a resource of one provider, under its shown URI.
type Resource struct {
	source.Resource
	Provider string
	// Shown is the resource's own URI, or one under toolroom://sources if another
	// source has the same URI.
	Shown string
}

// Template is a template of one provider.
type Template struct {
	source.Template
	Provider string
}

// Prompt is a prompt of one provider, under its shown name.
type Prompt struct {
	source.Prompt
	Provider string
	Shown    string
}

// Change names the lists that may have changed.
type Change struct {
	Resources, Prompts bool
	// Source says that the lists are of another source object, as after a reload.
	Source bool
}

func sameSource(a, b source.Source) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && (a == nil || reflect.TypeOf(a).Comparable() && a == b)
}

// Library is the set of all resources and prompts. The zero Library is ready to use. Its
// methods are safe for concurrent use.
type Library struct {
	// Changes has the listeners for changed lists, Updates those for changed resources, and
	// Notifications those for what providers send.
	Changes       Listeners[Change]
	Updates       Listeners[Update]
	Notifications Listeners[Notification]

	mu     sync.RWMutex
	offers map[string]Offer
}

// Update is a resource that has changed.
type Update struct {
	Provider string
	// URI is the resource's own URI, and Shown its shown URI.
	URI, Shown string
	// Params are the parameters of the source's notification (MCP), or nil.
	Params json.RawMessage
}

// Notification is a message of a provider to its clients outside of calls.
type Notification struct {
	source.Notification
	Provider string
}

// Set replaces the offer of a provider.
func (l *Library) Set(provider string, o Offer) {
	l.mu.Lock()
	if l.offers == nil {
		l.offers = map[string]Offer{}
	}
	before := l.offers[provider]
	l.offers[provider] = o
	l.mu.Unlock()
	l.notifyChange(before, o)
}

// Remove removes a provider.
func (l *Library) Remove(provider string) {
	l.mu.Lock()
	before := l.offers[provider]
	delete(l.offers, provider)
	l.mu.Unlock()
	l.notifyChange(before, Offer{})
}

// notifyChange notifies the listeners of Changes if a list differs.
func (l *Library) notifyChange(before, after Offer) {
	c := Change{
		Resources: !slices.EqualFunc(before.Resources, after.Resources, sameResource) || !slices.EqualFunc(before.Templates, after.Templates, sameTemplate) ||
			!slices.EqualFunc(before.Skills, after.Skills, sameSkill),
		Source:  before.Source != nil && !sameSource(before.Source, after.Source),
		Prompts: !slices.EqualFunc(before.Prompts, after.Prompts, samePrompt),
	}
	if c != (Change{}) {
		l.Changes.Notify(c)
	}
}

// ReportUpdate notifies the listeners of Updates of a changed resource.
func (l *Library) ReportUpdate(provider, uri string, params json.RawMessage) {
	l.Updates.Notify(Update{provider, uri, l.shownURI(provider, uri), params})
}

// Resources lists the resources of the providers for which visible returns true, in the
// order of providers and then in that of the source.
func (l *Library) Resources(visible func(provider string) bool) []Resource {
	var all []Resource
	uris := shownURIs{}
	for _, o := range l.snapshot() {
		seen := visible(o.provider)
		for _, r := range o.Resources {
			shown := uris.assign(o.provider, r.URI, scopedURI)
			if seen {
				all = append(all, Resource{Resource: r, Provider: o.provider, Shown: shown})
			}
		}
	}
	return all
}

// shownURIs is the set of URIs shown so far. It includes those of providers that the caller
// cannot see, so that callers with different permissions see the same URIs.
type shownURIs map[string]bool

// assign returns the URI under which a provider's URI is shown, and adds it to the set: the
// same URI, or the one that scoped returns if another provider has it.
func (s shownURIs) assign(provider, uri string, scoped func(provider, uri string) string) string {
	if s[uri] {
		uri = scoped(provider, uri)
	}
	s[uri] = true
	return uri
}

// Templates lists the templates of the providers for which visible returns true.
func (l *Library) Templates(visible func(provider string) bool) []Template {
	var all []Template
	for _, o := range l.snapshot() {
		if !visible(o.provider) {
			continue
		}
		for _, t := range o.Templates {
			all = append(all, Template{Template: t, Provider: o.provider})
		}
	}
	return all
}

// Prompts lists the prompts of the providers for which visible returns true.
func (l *Library) Prompts(visible func(provider string) bool) []Prompt {
	offers, count := l.snapshot(), map[string]int{}
	for _, o := range offers {
		for _, p := range o.Prompts {
			count[p.Name]++
		}
	}
	var all []Prompt
	for _, o := range offers {
		if !visible(o.provider) {
			continue
		}
		for _, p := range o.Prompts {
			shown := promptName(o.provider, p.Name)
			if o.Plain && count[p.Name] == 1 {
				shown = p.Name
			}
			all = append(all, Prompt{Prompt: p, Provider: o.provider, Shown: shown})
		}
	}
	slices.SortStableFunc(all, func(a, b Prompt) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Shown, b.Shown))
	})
	return all
}

// FindResource returns the source of a shown URI and the source's own URI. The URI may be
// that of a listed resource, match a template, name a file of a skill, or be any under
// toolroom://sources.
func (l *Library) FindResource(uri string, visible func(provider string) bool) (provider, own string, ok bool) {
	if provider, own, ok := cutScoped(uri); ok {
		_, known := l.Source(provider)
		return provider, own, known && visible(provider)
	}
	for _, r := range l.Resources(visible) {
		if r.Shown == uri {
			return r.Provider, r.URI, true
		}
	}
	for _, t := range l.Templates(visible) {
		if matchesTemplate(t.URITemplate, uri) {
			return t.Provider, uri, true
		}
	}
	provider, ok = l.skillFile(uri, visible)
	return provider, uri, ok
}

// FindPrompt returns the prompt with a shown name.
func (l *Library) FindPrompt(name string, visible func(provider string) bool) (Prompt, bool) {
	for _, p := range l.Prompts(visible) {
		if p.Shown == name || promptName(p.Provider, p.Name) == name {
			return p, true
		}
	}
	return Prompt{}, false
}

// Source returns the source of a provider.
func (l *Library) Source(provider string) (source.Source, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	o, ok := l.offers[provider]
	return o.Source, ok
}

// snapshot returns the offers in the order of providers. The functions that callers pass to
// a Library may use the catalog, so the lock is not held while they run.
func (l *Library) snapshot() []providerOffer {
	l.mu.RLock()
	defer l.mu.RUnlock()
	offers := make([]providerOffer, 0, len(l.offers))
	for _, provider := range slices.Sorted(maps.Keys(l.offers)) {
		offers = append(offers, providerOffer{l.offers[provider], provider})
	}
	return offers
}

type providerOffer struct {
	Offer
	provider string
}

func (l *Library) shownURI(provider, uri string) string {
	for _, r := range l.Resources(func(p string) bool { return p == provider }) {
		if r.URI == uri {
			return r.Shown
		}
	}
	return uri
}

// promptName returns namespace__name. Unlike a tool's name, a prompt's name is not sent to
// model APIs and may be anything.
func promptName(provider, name string) string { return provider + "__" + name }

const scopedPrefix = "toolroom://sources/"

func scopedURI(provider, uri string) string {
	return scopedPrefix + provider + "/" + url.PathEscape(uri)
}

func cutScoped(uri string) (provider, own string, ok bool) {
	rest, ok := strings.CutPrefix(uri, scopedPrefix)
	if !ok {
		return "", "", false
	}
	provider, escaped, ok := strings.Cut(rest, "/")
	own, err := url.PathUnescape(escaped)
	return provider, own, ok && err == nil
}

func sameResource(a, b source.Resource) bool {
	return string(a.Raw) == string(b.Raw) && a.URI == b.URI && a.Name == b.Name && a.Title == b.Title &&
		a.Description == b.Description && a.MIMEType == b.MIMEType && a.Size == b.Size
}

func sameTemplate(a, b source.Template) bool {
	return string(a.Raw) == string(b.Raw) && a.URITemplate == b.URITemplate && a.Name == b.Name &&
		a.Title == b.Title && a.Description == b.Description && a.MIMEType == b.MIMEType
}

func samePrompt(a, b source.Prompt) bool {
	return string(a.Raw) == string(b.Raw) && a.Name == b.Name && a.Title == b.Title &&
		a.Description == b.Description && slices.Equal(a.Arguments, b.Arguments)
}

// ToolID returns the id of the tool with which a provider's resources (ReadTool) or
// prompts (GetTool) are read.
func ToolID(provider, tool string) toolroom.ID { return toolroom.ID{Namespace: provider, Name: tool} }

// Limits of a match. Its time grows with the square of the number of variables, which the
// source chooses, and with the length of the URI, which the caller chooses.
const (
	maxTemplate  = 4 << 10 // bytes
	maxVariables = 20
	maxMatch     = 50_000 // variables times bytes of the URI
)

// matchesTemplate reports whether a URI matches an RFC 6570 template. A template that is
// invalid or takes too long matches nothing.
func matchesTemplate(template, uri string) bool {
	// The text before the first expression excludes most URIs quickly.
	if at := strings.IndexByte(template, '{'); at < 0 || !strings.HasPrefix(uri, template[:at]) {
		return template == uri
	}
	variables := strings.Count(template, "{") + strings.Count(template, ",")
	if len(template) > maxTemplate || variables > maxVariables || variables*len(uri) > maxMatch {
		return false
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Match(uri) != nil
}
