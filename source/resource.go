package source

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
)

// Resources is implemented by sources that offer resources besides tools. Such a
// source announces a changed list like changed tools, through [Notifier].
//
// Reading a resource is a call of the tool NAMESPACE:resources.read, so policy,
// limits and receipts apply to it.
type Resources interface {
	// Resources lists the resources, and Templates lists the URI templates of
	// further resources. Both are called whenever Tools is.
	Resources(ctx context.Context) ([]Resource, error)
	Templates(ctx context.Context) ([]Template, error)

	// ReadResource reads one resource and is called concurrently. It returns a
	// result of the MCP method resources/read. The source decides whether it reads
	// URIs that it does not list. If the resource does not exist, the error has
	// code not_found.
	ReadResource(ctx context.Context, uri string, req *Request) (json.RawMessage, error)
}

// Watcher is implemented by sources that report changes of resources.
type Watcher interface {
	// Watch sets the function that the source calls with the URI of a changed
	// resource and the parameters of MCP's notifications/resources/updated; nil
	// parameters hold nothing but the URI. Watch is called at most once, before any
	// other method.
	Watch(changed func(uri string, params json.RawMessage))
	// Subscribe starts reports about one resource, and Unsubscribe ends them.
	Subscribe(ctx context.Context, uri string) error
	Unsubscribe(ctx context.Context, uri string) error
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

// Prompts is implemented by sources that offer prompts. Such a source announces
// a changed list through [Notifier]. Getting a prompt is a call of the tool
// NAMESPACE:prompts.get.
type Prompts interface {
	// Prompts lists the prompts. It is called whenever Tools is.
	Prompts(ctx context.Context) ([]Prompt, error)

	// GetPrompt fills in a prompt and is called concurrently. It returns a result
	// of the MCP method prompts/get. If the prompt does not exist, the error has
	// code not_found.
	GetPrompt(ctx context.Context, name string, args map[string]string, req *Request) (json.RawMessage, error)
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

// Completer is implemented by sources that suggest values while a user types a
// prompt's argument or a template's variable.
type Completer interface {
	// Complete suggests values. It is called on keystrokes and should be fast.
	Complete(ctx context.Context, c Completion) (Completions, error)
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
