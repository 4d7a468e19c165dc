package mcp

import (
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// fitsQuestion reports whether an answer has the form that its question asks for. An
// answer that does not fit counts as missing: the question is asked again.
func fitsQuestion(q source.Question, answer json.RawMessage) bool {
	switch q.Method {
	case source.MethodElicit:
		return fitsElicitation(q.Params, answer)
	case source.MethodSample:
		var got struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		return jsonx.Unmarshal(answer, &got, jsonx.Limits{Bytes: maxBody}) == nil && got.Role != "" && len(got.Content) > 0
	case source.MethodRoots:
		var got struct {
			Roots []json.RawMessage `json:"roots"`
		}
		return jsonx.Unmarshal(answer, &got, jsonx.Limits{Bytes: maxBody}) == nil && got.Roots != nil
	default:
		return false
	}
}

func fitsElicitation(params, answer json.RawMessage) bool {
	var got source.Elicited
	if jsonx.Unmarshal(answer, &got, jsonx.Limits{Bytes: maxBody}) != nil {
		return false
	}
	switch got.Action {
	case "decline", "cancel":
		return true
	case "accept":
	default:
		return false
	}
	var asked struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if json.Unmarshal(params, &asked) != nil || len(asked.Schema) == 0 {
		return true // a question with a URL has no form
	}
	form, err := schema.Compile(asked.Schema, schema.Limits{})
	if err != nil {
		return false
	}
	content := got.Content
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	document, err := jsonx.Decode(content, jsonx.Limits{})
	return err == nil && form.Validate(document) == nil
}
