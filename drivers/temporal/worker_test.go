package temporal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestAResultThatIsTooLargeForAHistoryIsAnError(t *testing.T) {
	t.Parallel()
	small := &toolroom.Result{Status: toolroom.StatusOK, Value: json.RawMessage(`1`)}
	if got := limitSize(small); got != small {
		t.Errorf("a small result became %+v", got)
	}
	large := &toolroom.Result{Call: "call_1", Tool: "code:execute", Status: toolroom.StatusOK, Effects: toolroom.EffectsDone}
	large.Value = json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	got := limitSize(large)
	text, err := json.Marshal(got)
	if err != nil || len(text) > maxResult || got.Call != large.Call || got.Effects != large.Effects || toolroom.CodeOf(got.Error) != toolroom.CodeResourceLimit {
		t.Errorf("a large result became %.300s, %v", text, err)
	}
}
