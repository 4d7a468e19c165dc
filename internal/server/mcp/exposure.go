package mcp

import (
	"encoding/json"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
)

// Exposure selects how tools are listed to clients.
type Exposure struct {
	// Search lists search_tools, describe_tools, call_tool and read_result.
	Search bool
	// Code lists search_tools, describe_tools, execute_code and read_result.
	Code bool
	// PerSource also lists a search tool for each namespace.
	PerSource bool
	// Direct selects the tools that are listed themselves, except those of
	// NotDirect. Clients can find and call the other tools, too.
	Direct, NotDirect []policy.Pattern
	// Hidden selects tools that clients of this surface can neither list nor find.
	Hidden []policy.Pattern
	// Plain lists tools by their names without namespace if these are unique.
	Plain bool
	// Large, if not nil, is the exposure to callers whose list would be longer than
	// MaxDirectTools or MaxDirectTokens otherwise. It has the same Hidden and Plain.
	Large *Exposure
	// Sets are the exposures to callers of tool sets, by the set's name. Each has its own
	// Hidden; Plain is that of the whole.
	Sets map[string]*Exposure
}

// The length of a list, in tools and in estimated tokens, above which Exposure.Large
// applies. The built-in tools count only in tokens: they are small, and a room has them
// to be used.
const (
	MaxDirectTools  = 40
	MaxDirectTokens = 20_000
)

// Tokens estimates the tokens of a text: one for each four bytes of JSON.
func Tokens(bytes int) int { return (bytes + 3) / 4 }

// maxLargeCallers limits the callers in exposures.largeCallers.
const maxLargeCallers = 10_000

// exposures holds the server's current exposure.
type exposures struct {
	current atomic.Pointer[Exposure]
	// largeCallers are the identities, as JSON, of callers to whom Exposure.Large applies.
	largeCallers *lru.Cache[string, struct{}]
}

// load returns the exposure to callers without a tool set, which also names the tools.
func (x *exposures) load() *Exposure { return x.current.Load() }

// forCaller returns the exposure to a caller, without regard to Exposure.Large.
func (x *exposures) forCaller(who toolroom.Identity) *Exposure {
	e := x.load()
	if set, ok := e.Sets[who.Set]; ok && who.Set != "" {
		return set
	}
	return e
}

func (x *exposures) set(e Exposure) {
	if x.largeCallers == nil {
		large, err := lru.New[string, struct{}](maxLargeCallers)
		if err != nil { // only a size below one is an error
			panic(err)
		}
		x.largeCallers = large
	}
	x.largeCallers.Purge()
	x.current.Store(&e)
}

// SetExposure changes how tools are listed and notifies the clients.
func (s *Server) SetExposure(e Exposure) {
	s.expose.set(e)
	s.wire.ListChanged("tools")
}

// ownNames returns the names of the server's own tools that clients can call, in list order.
func (e *Exposure) ownNames() []string {
	switch {
	case e.Code:
		return []string{searchTools, describeTools, executeCode, readResult}
	case e.Search || e.Large != nil:
		return []string{searchTools, describeTools, callTool, readResult}
	}
	return []string{readResult}
}

// owns reports whether one of the server's own tools has this name for some caller.
func (e *Exposure) owns(name string) bool {
	if slices.Contains(e.ownNames(), name) {
		return true
	}
	for _, set := range e.Sets {
		if slices.Contains(set.ownNames(), name) {
			return true
		}
	}
	return false
}

// lists reports whether a tool is itself in the list.
func (e *Exposure) lists(tool *catalog.Entry) bool {
	return policy.MatchesTool(e.Direct, &tool.Tool) && !policy.MatchesTool(e.NotDirect, &tool.Tool)
}

// ownTools returns the definitions of the server's own tools that a list contains.
func (s *Server) ownTools(e *Exposure) []*listedTool {
	if e.Large != nil && !e.Search {
		e = &Exposure{}
	}
	var own []*listedTool
	for _, name := range e.ownNames() {
		d := s.meta[name].definition
		if e.Code {
			d = briefDefinition(d)
		}
		own = append(own, d)
	}
	return own
}

// currentDefinitions returns the definitions for the current catalog and exposure.
func (s *Server) currentDefinitions() *definitionSet {
	return s.definitions.at(s.o.Runner.Catalog.Version(), s.expose.load())
}

// exposureFor returns the exposure to a caller, which is Exposure.Large if its list would
// be too long. It then changes back only once the list is clearly shorter, so that one tool
// that is added and removed does not change the list each time.
func (s *Server) exposureFor(who toolroom.Identity) *Exposure {
	e := s.expose.forCaller(who)
	if e.Large == nil {
		return e
	}
	caller, err := json.Marshal(who)
	if err != nil {
		return e.Large
	}
	tools, tokens := MaxDirectTools, MaxDirectTokens
	_, was := s.expose.largeCallers.Get(string(caller))
	if was {
		tools, tokens = tools*3/4, tokens*3/4
	}
	large := s.listExceeds(e, who, tools, tokens)
	switch {
	case large && !was:
		s.expose.largeCallers.Add(string(caller), struct{}{})
	case was && !large:
		s.expose.largeCallers.Remove(string(caller))
	}
	if large {
		return e.Large
	}
	return e
}

// listExceeds reports whether a caller's list has more than the given tools or tokens.
func (s *Server) listExceeds(e *Exposure, who toolroom.Identity, tools, tokens int) bool {
	allowed, defined := s.visibleTo(who), s.currentDefinitions()
	count, size := 0, 0
	for _, entry := range s.o.Runner.Catalog.All(nil) {
		if !e.lists(entry) || !allowed(entry) {
			continue
		}
		one, err := defined.get(entry, s.listedName)
		if err != nil {
			continue
		}
		size += len(one.text)
		if entry.Tool.Source != toolroom.SourceBuiltin {
			count++
		}
		if count > tools || Tokens(size) > tokens {
			return true
		}
	}
	return false
}

// Listing describes the tool list of a caller.
type Listing struct {
	// Set is the caller's tool set; empty means none.
	Set string `json:"set,omitempty"`
	// Mode is direct, search or code.
	Mode string `json:"mode"`
	// Tools and Tokens are those in the list, with this server's own. AllTools and
	// AllTokens would be in a list of all tools that the caller may see.
	Tools     int `json:"tools"`
	Tokens    int `json:"tokens"`
	AllTools  int `json:"all_tools"`
	AllTokens int `json:"all_tokens"`
}

// Large reports whether the list is longer than the mode auto allows.
func (l Listing) Large() bool { return l.Mode == "direct" && l.Tokens > MaxDirectTokens }

// Listing describes the list that a caller receives.
func (s *Server) Listing(who toolroom.Identity) Listing {
	e := s.exposureFor(who)
	l := Listing{Set: who.Set, Mode: "direct"}
	switch {
	case e.Code:
		l.Mode = "code"
	case e.Search:
		l.Mode = "search"
	}
	listed, all := 0, 0
	allowed, defined := s.visibleTo(who), s.currentDefinitions()
	for _, t := range append(s.ownTools(e), s.sourceSearchDefinitions(who)...) {
		if text, err := jsonx.Marshal(t); err == nil {
			l.Tools++
			listed += len(text)
		}
	}
	for _, entry := range s.o.Runner.Catalog.All(allowed) {
		one, err := defined.get(entry, s.listedName)
		if err != nil {
			continue
		}
		l.AllTools++
		all += len(one.text)
		if e.lists(entry) {
			l.Tools++
			listed += len(one.text)
		}
	}
	l.Tokens, l.AllTokens = Tokens(listed), Tokens(all)
	return l
}
