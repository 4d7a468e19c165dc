package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
)

type executeInput struct {
	Delivery
}

func (s *Server) routeExecute() {
	ok := jsonResponse[toolroom.Result](s, "The program succeeded; execution has its runtime and output")
	ok.Content[eventStream] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "the program's output as chunk events, its tool calls, then one done or error"}}
	register(s, huma.Operation{
		OperationID: "execute", Method: http.MethodPost, Path: "/execute", Tags: []string{"calls"},
		Summary: "Run a program that calls tools", RequestBody: jsonBody[code.Request](s),
		Responses: map[string]*huma.Response{
			"200": ok,
			"202": jsonResponse[Accepted](s, "The run is durable and will start; Location is its address"),
			"4XX": failure[toolroom.Result](s, "The program was refused"),
			"5XX": failure[toolroom.Result](s, "The program failed"),
		},
	}, s.execute)
}

// execute calls code:execute with the body as its arguments.
func (s *Server) execute(ctx context.Context, in *executeInput) (*raw, error) {
	body, err := readJSON[code.Request](&in.Exchange)
	if err != nil {
		return nil, err
	}
	// The same names as on the command line: js, ts, py, sh.
	if language, ok := code.Language(body.Language); ok {
		body.Language = language
	}
	arguments, err := body.Arguments()
	if err != nil {
		return nil, err
	}
	return s.deliver(ctx, &in.Delivery, NamedCallRequest{Tool: code.Tool, CallRequest: CallRequest{Arguments: arguments}})
}
