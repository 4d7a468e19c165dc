package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

// questionKey is the key of our one input request.
const questionKey = "approval"

// question turns a call that needs a person's approval into a question that the
// client puts to its user. Clients of 2026-07-28 get it as a result and repeat
// the call with the answer; for older ones the SDK asks at once and repeats.
//
// The state that goes with the question is the approval's id. It is no secret
// and grants nothing: an answer counts only for the identity that asked, and
// the call that follows must be the very one that was approved.
func (s *Server) question(ctx context.Context, r *toolroom.Result) (*mcp.CallToolResult, error) {
	id, _ := r.Error.Details["approval"].(string)
	asked, err := s.o.Desk.Get(ctx, id)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	args, err := json.MarshalIndent(asked.Arguments, "", "  ")
	if err != nil {
		args = asked.Arguments
	}
	return &mcp.CallToolResult{
		RequestState: id,
		InputRequests: mcp.InputRequestMap{questionKey: &mcp.ElicitParams{
			Mode:            "form",
			Message:         fmt.Sprintf("Allow this call of %s?\n%s\nAsked because of %s.", asked.Tool, args, asked.Reason),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"approve":{"type":"boolean","title":"Allow this call once","default":false}},"required":["approve"]}`),
		}},
	}, nil
}

// takeAnswer records the answer that a repeated call brings along, and names the
// question that was answered.
func (s *Server) takeAnswer(ctx context.Context, req *mcp.CallToolRequest, who toolroom.Identity) (id string, err error) {
	response, ok := req.Params.InputResponses[questionKey].(*mcp.ElicitResult)
	if !ok {
		return "", nil
	}
	asked, err := s.o.Desk.Get(ctx, req.Params.RequestState)
	if err != nil {
		return "", err
	}
	if asked.Identity.Key() != who.Key() {
		return "", toolroom.Errorf(toolroom.CodeNotFound, "there is no approval %s", req.Params.RequestState)
	}
	if asked.State != approval.Pending {
		return asked.ID, nil // answered elsewhere meanwhile; the call will see
	}
	approve := response.Action == "accept" && response.Content["approve"] == true
	_, err = s.o.Desk.Answer(ctx, asked.ID, approval.Answer{
		Approve: approve,
		By:      who.Key(),
		Comment: "answered in the MCP client: " + response.Action,
	})
	return asked.ID, err
}
