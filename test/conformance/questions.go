package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom/source"
)

const nameForm = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

func elicit(message, form string) source.Question {
	params, err := json.Marshal(map[string]any{"message": message, "requestedSchema": json.RawMessage(form)})
	if err != nil {
		panic(err)
	}
	return source.Question{Method: source.MethodElicit, Params: params}
}

func sample(prompt string) source.Question {
	params, err := json.Marshal(map[string]any{
		"messages":  []any{map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": prompt}}},
		"maxTokens": 100,
	})
	if err != nil {
		panic(err)
	}
	return source.Question{Method: source.MethodSample, Params: params}
}

func roots() source.Question {
	return source.Question{Method: source.MethodRoots, Params: json.RawMessage(`{}`)}
}

// asks returns a tool that asks the client questions and returns the answers.
func asks(title string, questions map[string]source.Question) func(context.Context, *source.Request) (*source.Output, error) {
	return func(ctx context.Context, req *source.Request) (*source.Output, error) {
		answers, err := req.Ask.Ask(ctx, questions)
		if err != nil {
			return nil, err
		}
		shown, err := json.Marshal(answers)
		return text(title + ": " + string(shown)), err
	}
}

// questionTools returns tools that ask the client as the suites of revisions with sessions
// expect.
func questionTools() map[string]fixture {
	return map[string]fixture{
		"test_sampling": {
			description: "Asks the client's model.",
			schema:      `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
			call: func(ctx context.Context, req *source.Request) (*source.Output, error) {
				var in struct{ Prompt string }
				if err := json.Unmarshal(req.Arguments, &in); err != nil {
					return nil, err
				}
				return asks("LLM response", map[string]source.Question{"prompt": sample(in.Prompt)})(ctx, req)
			},
		},
		"test_elicitation": {
			description: "Asks the client's user.",
			schema:      `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			call: func(ctx context.Context, req *source.Request) (*source.Output, error) {
				var in struct{ Message string }
				if err := json.Unmarshal(req.Arguments, &in); err != nil {
					return nil, err
				}
				a, err := source.Elicit(ctx, req.Ask, "user", in.Message,
					json.RawMessage(`{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`))
				return text(fmt.Sprintf("User response: action=%s, content=%s", a.Action, a.Content)), err
			},
		},
		"test_elicitation_sep1034_defaults": {
			description: "Asks with a form that has defaults.",
			call: asks("Elicitation completed", map[string]source.Question{"form": elicit("Test defaults for primitives", `{"type":"object","properties":{
				"name":{"type":"string","description":"User name","default":"John Doe"},
				"age":{"type":"integer","description":"User age","default":30},
				"score":{"type":"number","description":"User score","default":95.5},
				"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},
				"verified":{"type":"boolean","description":"Verification status","default":true}}}`)}),
		},
		"test_elicitation_sep1330_enums": {
			description: "Asks with a form that has every kind of choice.",
			call: asks("Elicitation completed", map[string]source.Question{"form": elicit("Test enum schemas", `{"type":"object","properties":{
				"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
				"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
				"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
				"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
				"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)}),
		},
		"test_missing_capability": {
			description: "Needs a client whose model it may ask.",
			call: func(_ context.Context, req *source.Request) (*source.Output, error) {
				if !req.Ask.Can(source.MethodSample) {
					return nil, source.Unanswerable(source.MethodSample)
				}
				return text("the client lets servers use its model"), nil
			},
		},
	}
}
