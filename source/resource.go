package source

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
)

// Library is implemented by sources that offer resources, prompts or skills besides tools.
// Embed [NoLibrary] to implement only some of its methods. The source announces changed
// lists like changed tools.
//
// Reading a resource is a call of the tool NAMESPACE:resources.read, and getting a prompt
// one of NAMESPACE:prompts.get, so policy, limits and receipts apply to both.
type Library interface {
	// Resources lists the resources, Templates the URI templates of further resources,
	// Prompts the prompts, and Skills the skills, which may be incomplete. They are called
	// whenever Tools is. Nil skills without an error mean that the source serves none.
	Resources(ctx context.Context) ([]Resource, error)
	Templates(ctx context.Context) ([]Template, error)
	Prompts(ctx context.Context) ([]Prompt, error)
	Skills(ctx context.Context) ([]Skill, error)

	// ReadResource reads one resource and is called concurrently. It returns a
	// result of the MCP method resources/read. The source decides whether it reads
	// URIs that it does not list. If the resource does not exist, the error has
	// code not_found.
	ReadResource(ctx context.Context, uri string, req *Request) (json.RawMessage, error)

	// Subscribe starts reports about one resource ([Events.ResourceChanged]), and
	// Unsubscribe ends them. They do nothing if the source reports no changes.
	Subscribe(ctx context.Context, uri string) error
	Unsubscribe(ctx context.Context, uri string) error

	// GetPrompt fills in a prompt and is called concurrently. It returns a result
	// of the MCP method prompts/get. If the prompt does not exist, the error has
	// code not_found.
	GetPrompt(ctx context.Context, name string, args map[string]string, req *Request) (json.RawMessage, error)

	// Complete suggests values while a user types a prompt's argument or a template's
	// variable. It is called on keystrokes and should be fast.
	Complete(ctx context.Context, c Completion) (Completions, error)

	// Skill returns one skill by the URI of its SKILL.md, listed or not. If it does
	// not exist, the error has code not_found.
	Skill(ctx context.Context, uri string) (Skill, error)
}

// NoLibrary is a [Library] of nothing.
type NoLibrary struct{}

// Resources returns none.
func (NoLibrary) Resources(context.Context) ([]Resource, error) { return nil, nil }

// Templates returns none.
func (NoLibrary) Templates(context.Context) ([]Template, error) { return nil, nil }

// Prompts returns none.
func (NoLibrary) Prompts(context.Context) ([]Prompt, error) { return nil, nil }

// Skills returns none.
func (NoLibrary) Skills(context.Context) ([]Skill, error) { return nil, nil }

// ReadResource returns an error with code not_found.
func (NoLibrary) ReadResource(_ context.Context, uri string, _ *Request) (json.RawMessage, error) {
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "resource %q not found", uri)
}

// Subscribe does nothing.
func (NoLibrary) Subscribe(context.Context, string) error { return nil }

// Unsubscribe does nothing.
func (NoLibrary) Unsubscribe(context.Context, string) error { return nil }

// GetPrompt returns an error with code not_found.
func (NoLibrary) GetPrompt(_ context.Context, name string, _ map[string]string, _ *Request) (json.RawMessage, error) {
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "prompt %q not found", name)
}

// Complete suggests nothing.
func (NoLibrary) Complete(context.Context, Completion) (Completions, error) {
	return Completions{}, nil
}

// Skill returns an error with code not_found.
func (NoLibrary) Skill(_ context.Context, uri string) (Skill, error) {
	return Skill{}, toolroom.Errorf(toolroom.CodeNotFound, "skill %q not found", uri)
}

// Resource is data that can be read under a URI.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	// Size is in bytes, or zero if it is unknown.
	Size int64 `json:"size,omitempty"`

	// Raw is the definition as the source wrote it. If it is set, clients receive
	// it, so that fields which this struct lacks reach them.
	Raw json.RawMessage `json:"-"`
}

// Template is a URI template (RFC 6570) of resources that can be read.
type Template struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`

	// Raw is as in [Resource].
	Raw json.RawMessage `json:"-"`
}

// Prompt is a text with arguments to fill in.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`

	// Raw is as in [Resource].
	Raw json.RawMessage `json:"-"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Completion is a request for values of an argument.
type Completion struct {
	// Either Prompt names a prompt, or Template is a URI template.
	Prompt   string
	Template string
	// Argument names the argument, Value is the text typed so far, and Known holds
	// the values of the other arguments.
	Argument string
	Value    string
	Known    map[string]string
	// Identity is the caller. Meta is the request's _meta member (MCP), or nil.
	Identity toolroom.Identity
	Meta     json.RawMessage
	// Params are the request's parameters as the client wrote them, or nil. The
	// names of Prompt, Template and Argument take precedence over those in Params.
	Params json.RawMessage
}

// Completions are suggested values, at most 100, the best first.
type Completions struct {
	Values []string `json:"values"`
	// Total is the number of all matching values, or zero if it is unknown.
	Total   int  `json:"total,omitempty"`
	HasMore bool `json:"hasMore,omitempty"`

	// Raw is an MCP server's result as it was sent, or nil.
	Raw json.RawMessage `json:"-"`
}
