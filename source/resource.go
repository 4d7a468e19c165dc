package source

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
)

// Resources is implemented by sources that offer resources besides tools. A
// change of the list is told as a change of the tools is, by [Notifier].
//
// Reading a resource is a call of the tool NAMESPACE:resources.read, and so
// policy, limits and receipts apply to it.
type Resources interface {
	// Resources lists the resources, and Templates the forms of URIs that can
	// be read besides. Both are called whenever Tools is.
	Resources(ctx context.Context) ([]Resource, error)
	Templates(ctx context.Context) ([]Template, error)

	// ReadResource reads one resource and is called concurrently. The answer is
	// the result of resources/read as MCP has it. Whether the URI is listed is
	// for the source to care; the error for one that is not there has code
	// not_found.
	ReadResource(ctx context.Context, uri string, req *Request) (json.RawMessage, error)
}

// Watcher is implemented by sources that tell when a resource changes.
type Watcher interface {
	// Watch sets the function that the source calls with the URI of a resource
	// that has changed, and with what it says of the change, as MCP has it; nil for
	// no more than the URI. It is called at most once, before any other method.
	Watch(changed func(uri string, said json.RawMessage))
	// Subscribe asks to hear of one resource, and Unsubscribe to hear no more.
	Subscribe(ctx context.Context, uri string) error
	Unsubscribe(ctx context.Context, uri string) error
}

// Resource is something that can be read under a URI.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	// Size is in bytes, zero where it is not known.
	Size int64 `json:"size,omitempty"`

	// Raw is the definition as the source has it. When set it is what clients
	// see, so that fields which are not modelled here reach them.
	Raw json.RawMessage `json:"-"`
}

// Template is a form of URIs (RFC 6570) that can be read.
type Template struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`

	// Raw is as in [Resource].
	Raw json.RawMessage `json:"-"`
}

// Prompts is implemented by sources that offer prompts. A change of the list is
// told by [Notifier]. Getting one is a call of the tool NAMESPACE:prompts.get.
type Prompts interface {
	// Prompts lists the prompts. It is called whenever Tools is.
	Prompts(ctx context.Context) ([]Prompt, error)

	// GetPrompt fills a prompt in and is called concurrently. The answer is the
	// result of prompts/get as MCP has it. The error for a prompt that is not
	// there has code not_found.
	GetPrompt(ctx context.Context, name string, args map[string]string, req *Request) (json.RawMessage, error)
}

// Prompt is a text with places to fill in.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`

	// Raw is as in [Resource].
	Raw json.RawMessage `json:"-"`
}

// PromptArgument is a place to fill in.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Completer is implemented by sources that complete what a user types into a
// prompt's argument or into a variable of a template.
type Completer interface {
	// Complete suggests values. It is called on key strokes and should be fast.
	Complete(ctx context.Context, c Completion) (Completions, error)
}

// Completion asks for values of an argument.
type Completion struct {
	// Prompt is the name of a prompt, or Template that of a template.
	Prompt   string
	Template string
	// Argument is what is typed into, Value what has been typed, and Known the
	// values of the other arguments.
	Argument string
	Value    string
	Known    map[string]string
	// Identity is who types, and Meta what the client says of the request, in
	// MCP's _meta; nil for nothing.
	Identity toolroom.Identity
	Meta     json.RawMessage
	// Params are those of the request as the client wrote them, nil where it has
	// none. What they refer to goes by the names that this struct has.
	Params json.RawMessage
}

// Completions are suggested values, at most 100 and best first.
type Completions struct {
	Values []string `json:"values"`
	// Total is how many there are, zero where that is not known.
	Total   int  `json:"total,omitempty"`
	HasMore bool `json:"hasMore,omitempty"`

	// Raw is the result of an MCP server, as it sent it, nil where there is none.
	Raw json.RawMessage `json:"-"`
}
