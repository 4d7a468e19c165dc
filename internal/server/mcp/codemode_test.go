package mcpserver

import (
	"encoding/json"
	"testing"
)

// Models count about four characters of JSON to a token, and never fewer than
// three and a half: 2,450 characters are at most 700 tokens.
func TestTheToolsOfTheModeCodeTakeUpAtMostSevenHundredTokens(t *testing.T) {
	t.Parallel()
	s := &Server{o: Options{Expose: Exposure{Code: true}}}
	s.meta = s.metaTools()
	size := 0
	for _, name := range s.metaToolsShown() {
		text, err := json.Marshal(shortly(s.meta[name].definition))
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if size > 2450 {
		t.Errorf("the definitions have %d characters", size)
	}
	if len(s.metaToolsShown()) != 4 {
		t.Errorf("the mode code shows %v", s.metaToolsShown())
	}
}
