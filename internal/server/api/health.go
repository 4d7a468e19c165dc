package api

import (
	"net/http"
	"strings"
)

// Readiness says whether the server can take calls.
type Readiness struct {
	Ready bool `json:"ready"`
	// Missing says what it waits for, by part.
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
		s.mux.Handle("GET /metrics", s.o.Metrics.Handler())
	}
}

func (s *Server) readiness() Readiness {
	missing := map[string]string{}
	if receipts := s.o.Runner.Receipts; receipts != nil {
		if err := receipts.Ready(); err != nil {
			missing["receipts"] = err.Error()
		}
	}
	if waiting := s.unlisted(); len(waiting) > 0 {
		missing["sources"] = "not listed yet: " + strings.Join(waiting, ", ")
	}
	return Readiness{Ready: len(missing) == 0, Missing: missing}
}

// unlisted names the sources that nothing is known of. One that has failed is
// not waited for: the others serve without it.
func (s *Server) unlisted() []string {
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
