package toolroom

import "encoding/json"

// Found is the result of a search. Hint is set if there are no hits.
type Found struct {
	Query string `json:"query"`
	Hits  []Hit  `json:"hits"`
	// Total is the number of tools that the caller could find. It is counted only if there
	// are no hits, and for a blank query.
	Total int    `json:"total,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// Note says why the search was by words alone, if it should not have been.
	Note string `json:"note,omitempty"`
}

// Hit is one tool that a search has found.
type Hit struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"` // for model APIs
	Title string  `json:"title,omitempty"`
	Text  string  `json:"summary"`
	Score float64 `json:"score"` // comparable within one search only
	// Why lists the words of the query that matched, and where.
	Why []Match `json:"why"`
	// Call shows how to call the tool.
	Call string `json:"call"`
}

// Match says that a word of the query, or what it stands for (a synonym, the right
// spelling), occurs in a field of the tool.
type Match struct {
	Term  string `json:"term"`
	Field string `json:"field"`
}

// Page is a part of the list of tools, in the order of ids.
type Page struct {
	Tools []Tool `json:"tools"`
	// Next is the cursor of the next page, empty at the end.
	Next string `json:"next,omitempty"`
}

// Level is the level of detail of a [Description].
type Level string

// Levels. Each includes the previous one.
const (
	LevelSummary Level = "summary"
	LevelSchema  Level = "schema"
	LevelFull    Level = "full"
)

// Form is the syntax of a ready call.
type Form string

// Forms of a ready call.
const (
	FormCLI  Form = "cli"
	FormMCP  Form = "mcp"
	FormCode Form = "code"
	// FormPython is FormCode in Python.
	FormPython Form = "python"
	// FormMCPSearch is for clients that call through the tool call_tool.
	FormMCPSearch Form = "mcp_search"
)

// Description describes a tool.
type Description struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"` // for model APIs
	Title   string     `json:"title,omitempty"`
	Summary string     `json:"summary"`
	Source  SourceKind `json:"source"`
	Version Version    `json:"version,omitempty"`
	Call    string     `json:"call"`

	// From LevelSchema on.
	InputSchema json.RawMessage   `json:"input_schema,omitempty"`
	Required    []string          `json:"required,omitempty"`
	Defaults    map[string]any    `json:"defaults,omitempty"`
	Types       map[string]string `json:"types,omitempty"`
	Guarantee   Guarantee         `json:"guarantee,omitempty"`

	// At LevelFull.
	Text         string          `json:"description,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Hints        *Hints          `json:"hints,omitempty"`
	Notes        string          `json:"notes,omitempty"`
	Examples     []Example       `json:"examples,omitempty"`
	Tags         []string        `json:"tags,omitempty"`
	Aliases      []string        `json:"aliases,omitempty"`
	// Problem says why a schema of the tool cannot be used, so that calls fail.
	Problem string `json:"problem,omitempty"`

	// Providers are the sources that offer the tool, from LevelSchema on and only if there
	// are several. ServedBy is then the one that serves it.
	Providers []string `json:"providers,omitempty"`
	ServedBy  string   `json:"served_by,omitempty"`
}

// ChangeKind is a kind of [Change].
type ChangeKind string

// Kinds of changes.
const (
	ChangeRegistered ChangeKind = "registered"
	ChangeUpdated    ChangeKind = "updated"
	ChangeRemoved    ChangeKind = "removed"
)

// Change says that a tool was added, replaced or removed.
type Change struct {
	Kind ChangeKind `json:"kind"`
	ID   ID         `json:"id"`
}
