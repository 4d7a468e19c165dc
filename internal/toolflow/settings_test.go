package toolflow

import (
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

func TestThePortOfTheSettingsIsTheOneThatIsListenedOn(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]int{"127.0.0.1:8080": 8080, "[::1]:8081": 8081, ":8082": 8082} {
		c, err := config.Parse("toolroom.yaml", []byte("server: {listen: \""+listen+"\"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := &server{Options{Config: func() *config.Config { return c }}}
		if got := s.settings()["mcp"].(map[string]any)["django_port"]; got != want {
			t.Errorf("%s: %v", listen, got)
		}
	}
}
