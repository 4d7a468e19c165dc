package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

const watchedURI = "test://watched-resource"

// Resources lists the fixtures of the suite.
func (p *pack) Resources(context.Context) ([]source.Resource, error) {
	return []source.Resource{
		{URI: "test://static-text", Name: "static-text", Description: "A text.", MIMEType: "text/plain"},
		{URI: "test://static-binary", Name: "static-binary", Description: "An image.", MIMEType: "image/png"},
		{URI: skillURI, Name: "careful-greeting", Description: "Greets people with care.", MIMEType: "text/markdown"},
		{URI: watchedURI, Name: "watched-resource", Description: "Changes every three seconds.", MIMEType: "text/plain"},
	}, nil
}

// Templates lists the resource templates of the suite.
func (p *pack) Templates(context.Context) ([]source.Template, error) {
	return []source.Template{{URITemplate: "test://template/{id}/data", Name: "template", Description: "A resource for each id.", MIMEType: "application/json"}}, nil
}

var templated = regexp.MustCompile(`^test://template/([^/]+)/data$`)

// ReadResource reads a fixture.
func (p *pack) ReadResource(_ context.Context, uri string, _ *source.Request) (json.RawMessage, error) {
	content := map[string]any{"uri": uri, "mimeType": "text/plain"}
	switch id := templated.FindStringSubmatch(uri); {
	case uri == "test://static-text":
		content["text"] = "This is the content of the static text resource."
	case uri == "test://static-binary":
		content["mimeType"], content["blob"] = "image/png", dot
	case uri == watchedURI:
		content["text"] = "Watched resource content"
	case skillFile(uri) != "":
		content["mimeType"], content["text"] = "text/markdown", skillFile(uri)
	case id != nil:
		content["mimeType"] = "application/json"
		content["text"] = fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id[1], id[1])
	default:
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no resource %s", uri)
	}
	return json.Marshal(map[string]any{"contents": []any{content}})
}

// Subscribe begins to send updates.
func (p *pack) Subscribe(_ context.Context, uri string) error {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.watching[uri] = cancel
	p.mu.Unlock()
	go func() {
		for pause(ctx, time.Second) == nil {
			p.updated(uri, nil)
		}
	}()
	return nil
}

// Unsubscribe stops sending updates.
func (p *pack) Unsubscribe(_ context.Context, uri string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stop := p.watching[uri]; stop != nil {
		stop()
	}
	return nil
}

// promptFixture is a prompt of the suite.
type promptFixture struct {
	source.Prompt
	get func(ctx context.Context, args map[string]string, req *source.Request) ([]any, error)
}

func message(content any) any { return map[string]any{"role": "user", "content": content} }

func textPart(t string) any { return map[string]string{"type": "text", "text": t} }

func promptFixtures() map[string]promptFixture {
	return map[string]promptFixture{
		"test_simple_prompt": {
			source.Prompt{Title: "Simple", Description: "A prompt without arguments."},
			func(context.Context, map[string]string, *source.Request) ([]any, error) {
				return []any{message(textPart("This is a simple prompt for testing."))}, nil
			},
		},
		"test_prompt_with_arguments": {
			source.Prompt{Description: "A prompt with two arguments.", Arguments: []source.PromptArgument{
				{Name: "arg1", Description: "First test argument", Required: true}, {Name: "arg2", Description: "Second test argument", Required: true},
			}},
			func(_ context.Context, args map[string]string, _ *source.Request) ([]any, error) {
				return []any{message(textPart(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])))}, nil
			},
		},
		"test_prompt_with_embedded_resource": {
			source.Prompt{Description: "A prompt with a resource.", Arguments: []source.PromptArgument{{Name: "resourceUri", Description: "URI of the resource to embed", Required: true}}},
			func(_ context.Context, args map[string]string, _ *source.Request) ([]any, error) {
				return []any{
					message(map[string]any{"type": "resource", "resource": map[string]string{"uri": args["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content for testing."}}),
					message(textPart("Please process the embedded resource above.")),
				}, nil
			},
		},
		"test_prompt_with_image": {
			source.Prompt{Description: "A prompt with an image."},
			func(context.Context, map[string]string, *source.Request) ([]any, error) {
				return []any{
					message(map[string]string{"type": "image", "data": dot, "mimeType": "image/png"}),
					message(textPart("Please analyze the image above.")),
				}, nil
			},
		},
		"test_input_required_result_prompt": {
			source.Prompt{Description: "A prompt that asks for its context."},
			func(ctx context.Context, _ map[string]string, req *source.Request) ([]any, error) {
				a, err := source.Elicit(ctx, req.Ask, "user_context", "What context should the prompt use?",
					json.RawMessage(`{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}`))
				return []any{message(textPart("Context: " + string(a.Content)))}, err
			},
		},
	}
}

// Prompts lists the prompts of the suite.
func (p *pack) Prompts(context.Context) ([]source.Prompt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var prompts []source.Prompt
	for name, f := range p.prompts {
		f.Name = name
		prompts = append(prompts, f.Prompt)
	}
	slices.SortFunc(prompts, func(a, b source.Prompt) int { return strings.Compare(a.Name, b.Name) })
	if p.transient["prompt"] {
		prompts = append(prompts, source.Prompt{Name: "transient", Description: "Comes and goes."})
	}
	return prompts, nil
}

// GetPrompt returns a prompt with its arguments filled in.
func (p *pack) GetPrompt(ctx context.Context, name string, args map[string]string, req *source.Request) (json.RawMessage, error) {
	f, ok := p.prompts[name]
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no prompt %s", name)
	}
	messages, err := f.get(ctx, args, req)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"description": f.Description, "messages": messages})
}

// Complete completes the argument of the suite.
func (p *pack) Complete(_ context.Context, c source.Completion) (source.Completions, error) {
	return source.Completions{Values: []string{c.Value + "-first", c.Value + "-second"}, Total: 2}, nil
}
