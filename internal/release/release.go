// Package release keeps the versions of tools and decides which version each environment
// serves. A version is immutable. A release is a pointer to one, moved by compare-and-set,
// so that a rollback is a move back. Start at [Service].
package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Environments that always exist. Prod is the one of calls that name none.
const (
	Prod = "prod"
	Test = "test"
)

// Draft, as the environment of a call, selects the newest version, released or not. Only the
// authoring commands use it: no surface accepts it from a caller.
const Draft = "draft"

// Status is the state of a version.
type Status string

// The states. At most one version of a tool is active: the one that prod serves.
const (
	StatusDraft      Status = "draft"
	StatusActive     Status = "active"
	StatusDeprecated Status = "deprecated"
)

// Word returns the status as people read it: a version that is no longer served is replaced,
// unless a person has deprecated it and said why.
func (s Status) Word(reason string) string {
	if s == StatusDeprecated && reason == "" {
		return "replaced"
	}
	return string(s)
}

// Spec is the immutable content of a version: of a function that is written here, or of a
// definition that a source offers.
type Spec struct {
	Language string `json:"language"`
	// Source is the name of the source that defines the tool; empty for a function. Then
	// Definition is the tool, and Raw what the source sent, if its text is passed on.
	Source     string          `json:"source,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
	Raw        json.RawMessage `json:"raw,omitempty"`
	// Files are the texts by name, and File is the name of the one that has Entry, the
	// function that is the tool.
	Files map[string]string `json:"files"`
	File  string            `json:"file"`
	Entry string            `json:"entry"`

	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Tags         []string        `json:"tags,omitempty"`
	ReadOnly     bool            `json:"read_only,omitempty"`

	// Plan is how the function is called, as the inspection of its code found.
	Plan Plan `json:"plan,omitzero"`

	// Requires are the declared dependencies, Lock their resolution with the hashes of all
	// files, and Layer the digest of the unpacked files.
	Requires []string `json:"requires,omitempty"`
	Lock     string   `json:"lock,omitempty"`
	Layer    string   `json:"layer,omitempty"`
	// Built says which packages were built here, and from what.
	Built []string `json:"built,omitempty"`
	// Preload are the modules that are imported before there is a call.
	Preload []string `json:"preload,omitempty"`
	// Node says that a function in JavaScript or TypeScript runs in Node only.
	Node bool `json:"node,omitempty"`

	Engine string `json:"engine,omitempty"`
	// Profile is the sandbox profile; empty means standard.
	Profile string          `json:"profile,omitempty"`
	Limits  Limits          `json:"limits,omitzero"`
	Egress  []string        `json:"egress,omitempty"`
	Secrets []string        `json:"secrets,omitempty"` // references: secret://scope/name
	Config  json.RawMessage `json:"config,omitempty"`
}

// Plan says how to call a function.
type Plan struct {
	// Async functions return awaitables.
	Async bool `json:"async,omitempty"`
	// Convert names the parameters whose values must become objects of the code's own
	// types, such as dataclasses.
	Convert []string `json:"convert,omitempty"`
	// Context is the parameter that receives the context; Rest the one that receives all
	// further arguments.
	Context string `json:"context,omitempty"`
	// Positional are parameters that can only be passed by position, in order. "*" is all
	// arguments as one object.
	Positional []string `json:"positional,omitempty"`
	// Shapes says which arguments of a function in JavaScript become objects, such as dates.
	Shapes json.RawMessage `json:"shapes,omitempty"`
	// Private functions are not exported by their module.
	Private bool `json:"private,omitempty"`
	// Output says how what a script or module prints becomes its value: text, json or
	// lines.
	Output string `json:"output,omitempty"`
}

// Limits bound one call. Zero fields have the room's defaults.
type Limits struct {
	TimeoutMS   int64 `json:"timeout_ms,omitempty" yaml:"timeout_ms"`
	CPUMS       int64 `json:"cpu_ms,omitempty" yaml:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes,omitempty" yaml:"memory_bytes"`
	Calls       int   `json:"max_calls,omitempty" yaml:"max_calls"`
}

// Digest returns the SHA-256 of the canonical form of the spec, in hex. For a definition from
// outside it covers what a model, a client or a person sees of the tool.
func (s *Spec) Digest() (string, error) {
	if s.Source != "" {
		doc, err := s.visibleContent()
		if err != nil {
			return "", err
		}
		text, err := canonical(doc)
		if err != nil {
			return "", err
		}
		return hash(text), nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	canonical, err := jsonx.Canonical(text)
	if err != nil {
		return "", err
	}
	return hash(canonical), nil
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// LockDigest returns the digest of the lock, or "" if there is none.
func (s *Spec) LockDigest() string {
	if s.Lock == "" {
		return ""
	}
	return hash([]byte(s.Lock))
}

// Version is one version of a tool.
type Version struct {
	Tool    string    `json:"tool"`
	Number  int       `json:"version"`
	Digest  string    `json:"digest"`
	Status  Status    `json:"status"`
	Reason  string    `json:"reason,omitempty"` // why a person deprecated it
	Message string    `json:"message,omitempty"`
	Author  string    `json:"author"`
	Created time.Time `json:"created"`
	Spec    Spec      `json:"spec"`
}

// Card is what people say of a tool, apart from its versions, of which it may have none yet.
type Card struct {
	Tool        string    `json:"tool"`
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Author      string    `json:"author"`
	Created     time.Time `json:"created"`
}

// Identity returns what receipts record of the version.
func (v *Version) Identity() *toolroom.Release {
	return &toolroom.Release{Version: v.Number, Digest: v.Digest, Lock: v.Spec.LockDigest(), Layer: v.Spec.Layer, Built: v.Spec.Built}
}

// Release is what an environment serves of a tool.
type Release struct {
	Tool        string `json:"tool"`
	Environment string `json:"environment"`
	Version     int    `json:"version"`
	// Canary is a version that serves some callers; zero means none.
	Canary int `json:"canary,omitempty"`
	CanaryRule
}

// CanaryRule says which calls a canary serves: those of Weight percent of the callers, and
// of Callers, which are subjects or group:NAME. A Shadow answers no call: it runs beside the
// version that does, and the values are compared, except at the places in Ignore.
type CanaryRule struct {
	Weight  int      `json:"weight,omitempty"`
	Callers []string `json:"callers,omitempty"`
	Shadow  bool     `json:"shadow,omitempty"`
	Ignore  []string `json:"ignore,omitempty"`
}

// Takes reports whether the rule selects a caller of a tool.
func (r *CanaryRule) Takes(tool string, who toolroom.Identity) bool {
	for _, caller := range r.Callers {
		if group, ok := strings.CutPrefix(caller, "group:"); ok && slices.Contains(who.Groups, group) || caller == who.Key() {
			return true
		}
	}
	return r.Weight > 0 && callerPercent(tool, who) < r.Weight
}

// Action is a kind of entry in the log.
type Action string

// The actions.
const (
	ActionPush      Action = "push"
	ActionOffer     Action = "offer" // a source offers a definition
	ActionRelease   Action = "release"
	ActionPromote   Action = "promote"
	ActionRollback  Action = "rollback"
	ActionDeprecate Action = "deprecate"
	ActionRestore   Action = "restore"
)

// Entry is one line of the log: who did what when. Entries are never changed.
type Entry struct {
	Seq         int64     `json:"seq"`
	Time        time.Time `json:"time"`
	Who         string    `json:"who"`
	Action      Action    `json:"action"`
	Tool        string    `json:"tool"`
	Environment string    `json:"environment,omitempty"`
	// Version is the version that was pushed, or that the environment serves from then on;
	// zero means none. Previous is the one before.
	Version  int `json:"version"`
	Previous int `json:"previous,omitempty"`
	Canary   int `json:"canary,omitempty"`
	CanaryRule
	Reason string `json:"reason,omitempty"`
	// Verdict is why an automatic rollback happened.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Forced lists the gates that were overridden.
	Forced []string `json:"forced,omitempty"`
}

// Summary describes the entry in one sentence.
func (e *Entry) Summary() string {
	var text string
	switch {
	case e.Action == ActionOffer && e.Environment == "":
		text = fmt.Sprintf("version %d is offered, and waits for its release", e.Version)
	case e.Action == ActionPush:
		text = fmt.Sprintf("version %d was pushed", e.Version)
	case e.Environment == "":
		text = fmt.Sprintf("version %d: %s", e.Version, e.Action)
	case e.Canary != 0 && e.Shadow:
		text = fmt.Sprintf("%s: version %d runs as a shadow of version %d", e.Environment, e.Canary, e.Version)
	case e.Canary != 0:
		text = fmt.Sprintf("%s: version %d serves %s, version %d the others", e.Environment, e.Canary, e.CanaryRule.String(), e.Version)
	default:
		text = fmt.Sprintf("%s: %s from version %d to %d", e.Environment, e.Action, e.Previous, e.Version)
	}
	if len(e.Forced) > 0 {
		text += "; forced in spite of " + strings.Join(e.Forced, ", ")
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// String describes which callers the rule selects.
func (r *CanaryRule) String() string {
	var parts []string
	if r.Weight > 0 {
		parts = append(parts, fmt.Sprintf("%d%% of the callers", r.Weight))
	}
	if len(r.Callers) > 0 {
		parts = append(parts, strings.Join(r.Callers, ", "))
	}
	return strings.Join(parts, " and ")
}

// Move changes what an environment serves.
type Move struct {
	// From is the version that the environment is expected to serve, zero for none, and
	// FromCanary the expected canary. If it serves another one, the move is refused with
	// code conflict.
	From, FromCanary int
	// To is the new release. A version of zero ends the release.
	To Release
	// Demoted is the status of the version that is no longer active.
	Demoted Status
	Entry   Entry
}

// Store keeps versions, releases, their log and the saved cases. Every method is one
// transaction. It is safe for concurrent use, also by several processes on one store.
type Store interface {
	// PutVersion stores a new version and sets its Number, one above the newest. If the
	// newest version of the tool has the same digest, that version is returned, and created
	// is false. If base is not negative and the newest version has a higher number,
	// PutVersion stores nothing and returns a conflict.
	PutVersion(ctx context.Context, v *Version, base int) (stored *Version, created bool, err error)
	// Version returns a version, or an error with code not_found.
	Version(ctx context.Context, tool string, number int) (*Version, error)
	// Versions returns all versions of a tool, newest first. It is no error if there are
	// none.
	Versions(ctx context.Context, tool string) ([]*Version, error)
	// VersionedTools returns the newest versions of all tools that have any, in the order
	// of their ids.
	VersionedTools(ctx context.Context) ([]Head, error)
	// Heads returns all versions of the tools of a namespace, newest first for each tool.
	Heads(ctx context.Context, namespace string) ([]Head, error)
	// PutOffers stores the definitions of a source. Of a tool whose definition changes all the
	// time it keeps the newest 100, what is served, and what a person has decided on.
	PutOffers(ctx context.Context, offers []Offer) error
	// SetVersionStatus changes the status of a version and appends the entry to the log.
	// It returns not_found for an unknown version.
	SetVersionStatus(ctx context.Context, tool string, number int, status Status, e Entry) error

	// MoveRelease moves a release and appends to the log. With To.Environment prod it also
	// makes the new version active and the old one Demoted. It returns a conflict if the
	// environment does not serve From, and not_found if a version does not exist.
	MoveRelease(ctx context.Context, m Move) error
	// Releases returns all releases, by tool and environment.
	Releases(ctx context.Context) ([]Release, error)
	// ReleaseRevision returns the number of the last log entry. It changes with every
	// change of a version or release.
	ReleaseRevision(ctx context.Context) (int64, error)
	// ReleaseLog returns at most limit entries, newest first; an empty tool selects all, and
	// a negative limit means no limit.
	ReleaseLog(ctx context.Context, tool string, limit int) ([]Entry, error)

	// PutShadowRun stores a run, and drops the oldest of the version beyond keep.
	PutShadowRun(ctx context.Context, r *ShadowRun, keep int) error
	// ShadowRuns returns at most limit runs of a version, newest first.
	ShadowRuns(ctx context.Context, tool, environment string, version, limit int) ([]*ShadowRun, error)

	// PutCard stores the card of a tool, replacing the one before. Cards returns all.
	PutCard(ctx context.Context, c Card) error
	Cards(ctx context.Context) ([]Card, error)

	// PutCase stores a case of a tool, replacing the one of that name.
	PutCase(ctx context.Context, c *Case) error
	// Cases returns the cases of a tool by name; an empty tool selects all.
	Cases(ctx context.Context, tool string) ([]*Case, error)
	// RemoveCase removes a case. It returns not_found if there is none of that name.
	RemoveCase(ctx context.Context, tool, name string) error
}
