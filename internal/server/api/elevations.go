package api

import (
	"context"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Elevator manages elevations for operators.
type Elevator interface {
	Elevate(ctx context.Context, e policy.Elevation, lasts time.Duration) (*policy.Elevation, error)
	Elevations(ctx context.Context) ([]*policy.Elevation, error)
	EndElevation(ctx context.Context, id string) error
}

// ElevationRequest asks for an elevation.
type ElevationRequest struct {
	Subject string   `json:"subject" doc:"subject of the token to elevate"`
	Agent   string   `json:"agent,omitempty" doc:"elevate the caller only when it acts as this agent"`
	Tools   []string `json:"tools,omitempty" doc:"patterns of tools; omit for all sensitive tools"`
	Reason  string   `json:"reason,omitempty" maxLength:"2000"`
	Seconds int64    `json:"seconds,omitempty" minimum:"0" doc:"duration in seconds (default 900, at most 86,400)"`
}

type elevationList struct {
	Elevations []*policy.Elevation `json:"elevations"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

// elevator returns the Elevator, or an error if the caller is not an operator.
func (s *Server) elevator(ctx context.Context) (Elevator, error) {
	if s.o.Elevator == nil {
		return nil, unsupportedError("this server does not support elevations")
	}
	if !auth.IsOperator(auth.Identity(ctx)) {
		return nil, toolroom.Errorf(toolroom.CodeDenied, "only an operator may see or change elevations").
			WithHint("use a token of the group %s", auth.Operators)
	}
	return s.o.Elevator, nil
}

func (s *Server) listElevations(ctx context.Context, in *Paging) (*jsonOutput[elevationList], error) {
	elevator, err := s.elevator(ctx)
	if err != nil {
		return nil, err
	}
	list, err := elevator.Elevations(ctx)
	if err != nil {
		return nil, err
	}
	list, next, err := Page(list, *in, func(e *policy.Elevation) string { return e.ID })
	return &jsonOutput[elevationList]{elevationList{Elevations: list, Next: next}}, err
}

func (s *Server) elevate(ctx context.Context, in *Exchange) (*jsonOutput[*policy.Elevation], error) {
	elevator, err := s.elevator(ctx)
	if err != nil {
		return nil, err
	}
	body, err := readJSON[ElevationRequest](in)
	if err != nil {
		return nil, err
	}
	who := auth.Identity(ctx)
	if body.Subject == who.Key() {
		// An agent that holds an operator's token, or calls from the host machine,
		// must not lift its own limits.
		return nil, toolroom.Errorf(toolroom.CodeDenied, "%s may not elevate itself over HTTP", who.Key()).
			WithHint("ask another operator, or a person at the machine of Toolroom")
	}
	seconds := min(max(body.Seconds, -1), int64(policy.MaxElevation/time.Second)+1)
	e := policy.Elevation{Subject: body.Subject, Agent: body.Agent, Tools: body.Tools, By: who.Key(), Reason: body.Reason}
	granted, err := elevator.Elevate(ctx, e, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &jsonOutput[*policy.Elevation]{granted}, nil
}

func (s *Server) endElevation(ctx context.Context, in *idInput) (*struct{}, error) {
	elevator, err := s.elevator(ctx)
	if err != nil {
		return nil, err
	}
	list, err := elevator.Elevations(ctx)
	if err != nil {
		return nil, err
	}
	id, err := nearest.ID(in.ID, idsOf(list, func(e *policy.Elevation) string { return e.ID }))
	if err != nil {
		return nil, err
	}
	return nil, elevator.EndElevation(ctx, id)
}
