package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// The smallest files of their kinds: a red dot and silence.
const (
	dot     = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silence = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

func bytesOf(encoded string) []byte {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		panic(err)
	}
	return data
}

func embeddedResource(uri string) toolroom.Content {
	return toolroom.Content{Type: toolroom.ContentResource, URI: uri, MIMEType: "text/plain", Text: "This is an embedded resource content."}
}

// contentTools returns tools that return each kind of content, report progress and log.
func contentTools() map[string]fixture {
	image := toolroom.Content{Type: toolroom.ContentImage, Data: bytesOf(dot), MIMEType: "image/png"}
	audio := toolroom.Content{Type: toolroom.ContentAudio, Data: bytesOf(silence), MIMEType: "audio/wav"}
	always := func(content ...toolroom.Content) func(context.Context, *source.Request) (*source.Output, error) {
		return func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Content: content}, nil
		}
	}
	return map[string]fixture{
		"test_simple_text":       {description: "Answers with text.", call: always(toolroom.TextContent("This is a simple text response for testing."))},
		"test_image_content":     {description: "Answers with an image.", call: always(image)},
		"test_audio_content":     {description: "Answers with a sound.", call: always(audio)},
		"test_embedded_resource": {description: "Answers with a resource.", call: always(embeddedResource("test://embedded-resource"))},
		"test_multiple_content_types": {
			description: "Answers with text, an image and a resource.",
			call:        always(toolroom.TextContent("Multiple content types test:"), image, embeddedResource("test://mixed-content-resource")),
		},
		"test_tool_with_logging": {description: "Logs three lines.", call: logging},
		"test_logging_tool": {description: "Logs one line.", call: func(ctx context.Context, req *source.Request) (*source.Output, error) {
			logLine(req, "logged")
			return text("logged"), nil
		}},
		"test_tool_with_progress": {description: "Tells of its progress three times.", call: progressing},
		"test_error_handling": {description: "Fails.", call: func(context.Context, *source.Request) (*source.Output, error) {
			return nil, errors.New("this tool intentionally returns an error for testing")
		}},
		"test_reconnection": {description: "Takes long enough for its stream to be closed in the middle.", call: func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			return text("Reconnection test completed."), pause(ctx, 500*time.Millisecond)
		}},
		"test_streaming_elicitation": {description: "Answers with nothing but a result in its stream.", call: always(toolroom.TextContent("only a result"))},
		"json_schema_2020_12_tool": {description: "Has a schema with the words of 2020-12.", schema: schema2020, call: func(_ context.Context, req *source.Request) (*source.Output, error) {
			return text("called with " + string(req.Arguments)), nil
		}},
		"test_x_mcp_header": {
			description: "Has an argument that is in a header as well.",
			schema: `{"type":"object","properties":{
				"region":{"type":"string","description":"in Mcp-Param-Region too","x-mcp-header":"Region"},
				"level":{"type":"integer","description":"in the body alone"}}}`,
			call: func(_ context.Context, req *source.Request) (*source.Output, error) {
				return text("called with " + string(req.Arguments)), nil
			},
		},
		"greet": {description: "Greets.", schema: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`, call: func(_ context.Context, req *source.Request) (*source.Output, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(req.Arguments, &in); err != nil {
				return nil, err
			}
			return text(fmt.Sprintf("Hello, %s!", in.Name)), nil
		}},
	}
}

const schema2020 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

func logLine(req *source.Request, message string) {
	req.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: "info", Message: message}})
}

func logging(ctx context.Context, req *source.Request) (*source.Output, error) {
	for i, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
		}
		logLine(req, line)
	}
	return text("Tool with logging executed successfully"), nil
}

func progressing(ctx context.Context, req *source.Request) (*source.Output, error) {
	for _, done := range []float64{0, 50, 100} {
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: 100, Message: fmt.Sprintf("Completed step %.0f of 100", done)}})
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return text("done"), nil
}
