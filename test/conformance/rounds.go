package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom/source"
)

const confirmForm = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`

// roundTools returns tools that ask the client as the suite of 2026-07-28 expects: a
// question ends the request, and the next request has the answer.
func roundTools() map[string]fixture {
	confirm := asks("state-ok", map[string]source.Question{"confirm": elicit("Please confirm", confirmForm)})
	return map[string]fixture{
		"test_input_required_result_elicitation":    {description: "Asks for a name.", call: greetByName},
		"test_input_required_result_sampling":       {description: "Asks the client's model.", call: asks("Sampling response", map[string]source.Question{"capital_question": sample("What is the capital of France?")})},
		"test_input_required_result_list_roots":     {description: "Asks for the client's folders.", call: asks("Roots", map[string]source.Question{"client_roots": roots()})},
		"test_input_required_result_request_state":  {description: "Asks to confirm.", call: confirm},
		"test_input_required_result_tampered_state": {description: "Asks to confirm, and takes no changed state.", call: confirm},
		"test_input_required_result_multiple_inputs": {description: "Asks three things at once.", call: asks("Answers", map[string]source.Question{
			"user_name": elicit("What is your name?", nameForm), "greeting": sample("Generate a greeting"), "client_roots": roots(),
		})},
		"test_input_required_result_multi_round":  {description: "Asks twice.", call: twoRounds},
		"test_input_required_result_capabilities": {description: "Asks what the client can answer.", call: whatever},
	}
}

func askName(ctx context.Context, req *source.Request) (string, error) {
	a, err := source.Elicit(ctx, req.Ask, "user_name", "What is your name?", json.RawMessage(nameForm))
	if err != nil {
		return "", err
	}
	var form struct{ Name string }
	if len(a.Content) > 0 {
		err = json.Unmarshal(a.Content, &form)
	}
	return form.Name, err
}

func greetByName(ctx context.Context, req *source.Request) (*source.Output, error) {
	name, err := askName(ctx, req)
	return text(fmt.Sprintf("Hello, %s!", name)), err
}

func twoRounds(ctx context.Context, req *source.Request) (*source.Output, error) {
	name, err := source.Elicit(ctx, req.Ask, "step1", "Step 1: What is your name?", json.RawMessage(nameForm))
	if err != nil {
		return nil, err
	}
	color, err := source.Elicit(ctx, req.Ask, "step2", "Step 2: What is your favorite color?",
		json.RawMessage(`{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`))
	return text(fmt.Sprintf("%s likes %s", name.Content, color.Content)), err
}

func whatever(ctx context.Context, req *source.Request) (*source.Output, error) {
	questions := map[string]source.Question{}
	for key, q := range map[string]source.Question{
		"user_name": elicit("What is your name?", nameForm), "greeting": sample("Generate a short greeting"), "client_roots": roots(),
	} {
		if req.Ask.Can(q.Method) {
			questions[key] = q
		}
	}
	if len(questions) == 0 {
		return text("the client answers nothing"), nil
	}
	return asks("Answers", questions)(ctx, req)
}
