package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestAQuestionShowsHiddenCharacters(t *testing.T) {
	t.Parallel()
	q, err := approvalQuestion(&toolroom.Approval{
		Tool: "e:pay", Arguments: json.RawMessage("{\"to\":\"bob\u202e500 ot\u202c\"}"), Effects: []string{"sends \u200bit"}, Diff: "+\u2066x\n", Reason: "a rule\U000e0041",
	})
	if err != nil {
		t.Fatal(err)
	}
	var params struct{ Message string }
	if err := json.Unmarshal(q.Params, &params); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`bob\u202e500 ot\u202c`, `sends \u200bit`, `+\u2066x`, `a rule\U000e0041`} {
		if !strings.Contains(params.Message, want) {
			t.Errorf("%q is not in %q", want, params.Message)
		}
	}
}

func TestAQuestionNamesTheEnvironmentOfTheCall(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{"": "Allow this call of a:b?\n", "test": "Allow this call of a:b in the environment test?\n"} {
		if got := questionText(&toolroom.Approval{Tool: "a:b", Environment: environment}, []byte("{}")); !strings.HasPrefix(got, want) {
			t.Errorf("%q", got)
		}
	}
}
