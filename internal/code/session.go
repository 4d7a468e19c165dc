package code

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// runInSession waits for the program's turn in its session, and runs it on the engine that
// made the session's state.
func (s *Service) runInSession(ctx context.Context, req *source.Request, r *Request) (out *source.Output, err error) {
	held, err := s.o.Sessions.Begin(ctx, identity.Owner(req.Identity), r.Session)
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
				return nil, toolroom.Errorf(toolroom.CodeConflict, "session %s belongs to engine %s, and %s cannot read it", r.Session, made, asked).
					WithHint("omit the engine, or start another session")
			}
		}
		if r.Runtime == "" {
			r.Engine = made
		}
	}
	run.AddTaint(ctx, held.Info.Labels...) // the program can use all variables
	return s.execute(ctx, req, r, held)
}

// saveSession replaces the session's state after a run that ended by itself, even if it
// failed. It is not called for a stopped run, which does not change its session.
func (h *handler) saveSession(ctx context.Context, job engine.Job, result *engine.Result) error {
	if h.session == nil || len(result.Outcome.State) == 0 {
		return nil
	}
	return h.session.Save(ctx, result.Engine, job.Program.Language, result.Outcome.State, run.TaintOf(ctx)...)
}

func keepsSessions(e engine.Engine, language string) bool {
	keeper, ok := e.(engine.SessionEngine)
	return ok && slices.Contains(keeper.Sessions(), language)
}

// noSessionsError returns the error for a session on engines that keep no session state.
func (s *Service) noSessionsError(language string, names []string) error {
	verb := "keep"
	if len(names) == 1 {
		verb = "keeps"
	}
	e := toolroom.Errorf(toolroom.CodeUnsupported, "%s %s no sessions in %s", strings.Join(names, ", "), verb, language)
	var able []string
	for _, other := range s.o.Engines {
		if keeper, ok := other.(engine.SessionEngine); ok {
			able = append(able, fmt.Sprintf("%s (%s)", other.Name(), strings.Join(keeper.Sessions(), ", ")))
		}
	}
	if len(able) == 0 {
		return e.WithHint("no engine here has sessions: pass what the next program needs as inputs")
	}
	return e.WithHint("omit the session, or use an engine that has sessions: %s", strings.Join(able, "; "))
}
