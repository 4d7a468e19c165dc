package api

import (
	"net/http"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Readiness reports whether the server can take calls.
type Readiness struct {
	Ready bool `json:"ready"`
	// Missing has the reasons why the server is not ready, by part.
	Missing map[string]string `json:"missing,omitempty"`
}

// routeHealth adds the probes, which are not part of the API.
func (s *Server) routeHealth() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		x := Exchange{w, r}
		x.writeJSON(http.StatusOK, map[string]bool{"alive": true})
	})
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		x := Exchange{w, r}
		ready := s.readiness()
		status := http.StatusOK
		if !ready.Ready {
			status = http.StatusServiceUnavailable
		}
		x.writeJSON(status, ready)
	})
	if s.o.Metrics != nil {
		metrics := s.o.Metrics.Handler()
		s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if !auth.IsOperator(auth.Identity(r.Context())) { // metrics name all tools, and count the calls of all callers
				problem.Write(w, toolroom.Errorf(toolroom.CodeDenied, "metrics are for operators").
					WithHint("use a token of the group %s", auth.Operators))
				return
			}
			metrics.ServeHTTP(w, r)
		})
	}
}

func (s *Server) readiness() Readiness {
	missing := map[string]string{}
	if receipts := s.o.Runner.Receipts; receipts != nil {
		if err := receipts.Ready(); err != nil {
			missing["receipts"] = err.Error()
		}
	}
	if waiting := s.unlistedSources(); len(waiting) > 0 {
		missing["sources"] = "not listed yet: " + strings.Join(waiting, ", ")
	}
	return Readiness{Ready: len(missing) == 0, Missing: missing}
}

// unlistedSources returns the names of the sources that have neither listed their tools nor
// failed. A failed source does not count: the others serve without it.
func (s *Server) unlistedSources() []string {
	if s.o.Sources == nil {
		return nil
	}
	var names []string
	for _, source := range s.o.Sources() {
		if !source.Listed && source.Error == "" {
			names = append(names, source.Name)
		}
	}
	return names
}
