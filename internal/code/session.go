package code

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/source"
)

// inSession runs a program when its turn in the session has come, on the engine
// that the session's state is of.
func (s *Service) inSession(ctx context.Context, req *source.Request, r *Request) (out *source.Output, err error) {
	held, err := s.o.Sessions.Begin(ctx, req.Identity.Key(), r.Session)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ended := held.End(); err == nil {
			err = ended
		}
	}()
	if made := held.Info.Engine; made != "" {
		for _, asked := range []string{r.Engine, r.Runtime} {
			if asked != "" && asked != "auto" && asked != made {
				return nil, toolroom.Errorf(toolroom.CodeConflict, "session %s is of the engine %s, and %s cannot read it", r.Session, made, asked).
					WithHint("leave the engine out, or begin another session")
			}
		}
		if r.Runtime == "" {
			r.Engine = made
		}
	}
	return s.execute(ctx, req, r, held)
}

// keep replaces the session's state by that after a run which ended by itself,
// also by failing. One that was stopped never gets here: for its session it has
// not been.
func (h *host) keep(ctx context.Context, job engine.Job, result *engine.Result) error {
	if h.session == nil || len(result.Outcome.State) == 0 {
		return nil
	}
	return h.session.Keep(ctx, result.Engine, job.Program.Language, result.Outcome.State)
}

func keepsSessions(e engine.Engine, language string) bool {
	keeper, ok := e.(engine.SessionKeeper)
	return ok && slices.Contains(keeper.Sessions(), language)
}

// stateless is the error of a session on engines that keep none.
func (s *Service) stateless(language string, names []string) error {
	verb := "keep"
	if len(names) == 1 {
		verb = "keeps"
	}
	e := toolroom.Errorf(toolroom.CodeUnsupported, "%s %s no sessions in %s", strings.Join(names, ", "), verb, language)
	var able []string
	for _, other := range s.o.Engines {
		if keeper, ok := other.(engine.SessionKeeper); ok {
			able = append(able, fmt.Sprintf("%s (%s)", other.Name(), strings.Join(keeper.Sessions(), ", ")))
		}
	}
	if len(able) == 0 {
		return e.WithHint("no engine here keeps sessions: pass what the next program needs as inputs")
	}
	return e.WithHint("leave the session out, or use an engine that keeps them: %s", strings.Join(able, "; "))
}
