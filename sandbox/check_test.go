package sandbox_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

func TestARuntimeOrImageThatADriverDoesNotSupportIsRefused(t *testing.T) {
	t.Parallel()
	all := map[sandbox.Limit]string{sandbox.LimitNetwork: "yes"}
	none := sandbox.Probe{State: sandbox.Available, Holds: all}
	choice := sandbox.Probe{State: sandbox.Available, Holds: all, Runtimes: map[string]string{}, Images: true}
	for name, tt := range map[string]struct {
		probe sandbox.Probe
		spec  sandbox.Spec
		want  toolroom.Code
	}{
		"neither is named":              {none, sandbox.Spec{}, ""},
		"a runtime where there is none": {none, sandbox.Spec{Runtime: "runsc"}, toolroom.CodeInvalidArguments},
		"not for best effort either":    {none, sandbox.Spec{Runtime: "runsc", BestEffort: true}, toolroom.CodeInvalidArguments},
		"an image where there is none":  {none, sandbox.Spec{Image: "debian"}, toolroom.CodeInvalidArguments},
		"both where there is a choice":  {choice, sandbox.Spec{Runtime: "runsc", Image: "debian"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := sandbox.Check("driver", tt.probe, tt.spec)
			if got := toolroom.CodeOf(err); err == nil != (tt.want == "") || err != nil && got != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
