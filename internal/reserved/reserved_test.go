package reserved_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/reserved"
)

func TestNamesThatBreakProgramsOrBuiltinsAreReserved(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields(`code Code CODE system System tools Tools mcp MCP cli Cli
		file shell process web browser memory Memory storage minio k8s media sessions agents cron message google
		call_tool call-tool call.tool Call_Tool run_chain run-chain search_tools describe_tool artifacts results progress log print run ToolError toolerror
		list dict str class lambda None import JSON Math Promise console Object encodeURIComponent
		__proto__ __class__ constructor prototype then toJSON`) {
		if err := reserved.Check(name); toolroom.CodeOf(err) != toolroom.CodeConflict || toolroom.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want conflict with a hint", name, err)
		}
		free := reserved.Alternative(name)
		if err := reserved.Check(free); err != nil || (toolroom.ID{Namespace: free, Name: "x"}).Validate() != nil {
			t.Errorf("%s is to be called %s: %v", name, free, err)
		}
	}
	for _, name := range strings.Fields(`git filesystem weather issues petstore github slack notes math json time fetch files mail code2 my-tools
		toolsmith system-a coder license new _code`) {
		if err := reserved.Check(name); err != nil || reserved.Alternative(name) != name {
			t.Errorf("%s: %v, %s", name, err, reserved.Alternative(name))
		}
	}
	long := "__" + strings.Repeat("a", toolroom.MaxIDPart-4) + "__"
	if err := (toolroom.ID{Namespace: reserved.Alternative(long), Name: "x"}).Validate(); err != nil || reserved.Check(reserved.Alternative(long)) != nil {
		t.Errorf("%s: %v", reserved.Alternative(long), err)
	}
}
