package code

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func TestHostsWithoutAPortAreThoseOfTheWeb(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		egress []string
		want   []string
	}{
		{nil, nil},
		{[]string{"api.example.com:8443", "example.com"}, []string{"api.example.com:8443", "example.com:443", "example.com:80"}},
		{[]string{"*.example.com", "10.1.2.3", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:22"}, []string{
			"*.example.com:443", "*.example.com:80", "10.1.2.3:443", "10.1.2.3:80",
			"[2001:db8::1]:443", "[2001:db8::1]:80", "[2001:db8::1]:443", "[2001:db8::1]:80", "[2001:db8::1]:22",
		}},
	} {
		got, err := (&Request{Program: toolroom.Program{Egress: tt.egress}}).hosts()
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", tt.egress, err, diff)
		}
	}
	many := make([]string, maxHosts+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example.com", i)
	}
	for _, bad := range [][]string{{""}, {"http://example.com"}, {"example.com/path"}, {"10.0.0.0/8"}, {"0x7f000001"}, {"example.com:0"}, {"example.com:http"}, {"user@example.com"}, {"*"}, many} {
		if got, err := (&Request{Program: toolroom.Program{Egress: bad}}).hosts(); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%.60q is taken as %v, %v", bad, got, err)
		}
	}
}

func TestPolicySeesWhichHostsAProgramMayReach(t *testing.T) {
	t.Parallel()
	none := toolroom.Effect{Kind: toolroom.EffectNone}
	connect := func(host string) toolroom.Effect {
		return toolroom.Effect{Kind: toolroom.EffectHost, Mode: "connect", Target: host}
	}
	send := func(host string) toolroom.Effect { return toolroom.Effect{Kind: toolroom.EffectSend, Target: host} }
	for arguments, want := range map[string][]toolroom.Effect{
		`{"language": "python", "code": "1"}`:                                                     {none},
		`{"language": "python", "code": "1", "egress": ["a.example:443"]}`:                        {none, connect("a.example:443"), send("a.example:443")},
		`{"language": "python", "code": "1", "profile": "dev", "egress": ["a.example:443"]}`:      {none, connect("a.example:443"), send("a.example:443")},
		`{"language": "python", "code": "1", "profile": "dev"}`:                                   {none, connect(""), send("")},
		`{"language": "python", "code": "1", "egress": ["http://not.readable", "a.example:443"]}`: {none, connect(""), send("")},
		`{"language": "python", "code": "1", "egress": ["b.example"], "profile": "hardened"}`:     {none, connect("b.example:443"), send("b.example:443"), connect("b.example:80"), send("b.example:80")},
	} {
		got, _ := (&Service{}).PredictEffects(&source.Request{Arguments: []byte(arguments)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", arguments, diff)
		}
	}
}

func TestPolicySeesThatAProgramWithoutASandboxMayDoAnything(t *testing.T) {
	t.Parallel()
	s := &Service{}
	want, _ := s.PredictEffects(&source.Request{Arguments: []byte(`{"language": "python", "code": "1", "runtime": "host"}`)})
	if !slices.Contains(want, toolroom.Effect{Kind: toolroom.EffectCommand}) {
		t.Fatalf("on the runtime host: %+v", want)
	}
	for _, named := range []string{`"engine": "host"`, `"runtime": "host/"`, `"runtime": "host/x"`} {
		got, _ := s.PredictEffects(&source.Request{Arguments: []byte(`{"language": "python", "code": "1", ` + named + `}`)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", named, diff)
		}
	}
}
