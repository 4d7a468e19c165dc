package run_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// deciderFunc decides by a function.
type deciderFunc func(policy.Request) policy.Decision

func (f deciderFunc) Decide(_ context.Context, r policy.Request) policy.Decision { return f(r) }

func TestAToolThatIsNotIsolatedEnoughDoesNotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(policy.Request) policy.Decision {
			return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r", Isolation: toolroom.IsolationGVisor}
		})
	})
	b.add(tool("a:b"), value(`1`))
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"})
	if r.Error == nil || r.Error.Code != toolroom.CodeSandboxUnavailable || r.Effects != toolroom.EffectsNone || !strings.Contains(r.Error.Message, "gvisor") {
		t.Errorf("%+v", r)
	}
}

// The names and types of arguments are not for callers who may not call the tool at all.
func TestACallerWhoIsDeniedDoesNotLearnTheArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
			if r.Who.Subject == "ann" {
				return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r"}
			}
			return policy.Decision{Effect: toolroom.VerdictDeny, Rule: "r"}
		})
	})
	hidden := tool("a:b")
	hidden.InputSchema = []byte(`{"type":"object","properties":{"payroll":{"type":"integer"}},"required":["payroll"],"additionalProperties":false}`)
	b.add(hidden, value(`1`))
	for _, arguments := range []string{"", `{"payroll":1}`, `{"payroll":"x"}`, `{"other":1}`, `[]`, `{`} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "a:b", Arguments: []byte(arguments), Identity: toolroom.Identity{Subject: "bob"}})
		if r.Status != toolroom.StatusDenied || r.Error.Phase != toolroom.PhasePolicy || r.Error.Message != "bob may not call a:b: r" || r.Error.Hint != "" {
			t.Errorf("with %q: %s, %+v", arguments, r.Status, r.Error)
		}
	}
	steps := []toolroom.Step{{Tool: "a:b", Arguments: []byte(`{"payroll":1}`), ContinueOnError: true}, {Tool: "a:b", Arguments: []byte(`{}`)}}
	out := b.Chain(t.Context(), toolroom.Call{Identity: toolroom.Identity{Subject: "bob"}}, steps)
	if out.Error == nil || out.Error.Code != toolroom.CodeDenied || strings.Contains(out.Error.Message, "payroll") {
		t.Errorf("in a chain: %+v", out.Error)
	}
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:b", Identity: toolroom.Identity{Subject: "ann"}})
	if r.Error == nil || r.Error.Code != toolroom.CodeInvalidArguments || !strings.Contains(r.Error.Message, "payroll") {
		t.Errorf("who may call it is told %+v", r.Error)
	}
}

func TestAHookThatLogsWritesALine(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	b := newBench(t, func(o *run.Options) {
		o.Log = slog.New(slog.NewTextHandler(&lines, nil))
		o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
			return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r", Log: r.Tool.ID.Name == "loud"}
		})
	})
	b.add(tool("a:loud"), value(`1`))
	b.add(tool("a:quiet"), value(`1`))
	b.Run(t.Context(), toolroom.Call{Tool: "a:loud", Surface: "mcp", Identity: toolroom.Identity{Subject: "ann"}})
	b.Run(t.Context(), toolroom.Call{Tool: "a:quiet"})
	if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "tool=a:loud identity=ann surface=mcp effect=allow rule=r") {
		t.Errorf("the log is\n%s", got)
	}
}

func TestTheDeciderIsToldOfTheCall(t *testing.T) {
	t.Parallel()
	var asked []*policy.Context
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
			if r.Call != nil {
				asked = append(asked, r.Call)
			}
			return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r"}
		})
	})
	b.add(tool("a:b"), value(`1`))
	b.Run(t.Context(), toolroom.Call{Tool: "a:b", Surface: "mcp", Session: "s", Arguments: []byte(`{"n":1}`)})
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	got := asked[0]
	arguments, err := got.Arguments()
	if object, ok := arguments.(map[string]any); err != nil || !ok || len(object) != 1 {
		t.Errorf("%v %v", arguments, err)
	}
	if got.Surface != "mcp" || got.Session != "s" || got.Time.IsZero() || got.Budget.Calls != toolroom.DefaultMaxCalls || got.Budget.Bytes != toolroom.DefaultMaxBytes {
		t.Errorf("%+v", got)
	}
}

// isolator is a source that holds a call to the isolation that it is asked for.
type isolator struct {
	source.Source
	asked, engine string
}

func (i *isolator) Isolation(_ context.Context, req *source.Request) string {
	if policy.AtLeast(policy.IsolationOf("ns+net"), toolroom.Isolation(req.Isolation)) {
		return "ns+net"
	}
	return "gvisor(systrap)+seccomp"
}

func (*isolator) Resumes(context.Context, string) bool { return false }

func (i *isolator) Call(_ context.Context, req *source.Request) (*source.Output, error) {
	i.asked, i.engine = req.Isolation, req.Engine
	return &source.Output{Value: []byte("1")}, nil
}

func TestASourceThatIsolatesIsToldHowMuch(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(policy.Request) policy.Decision {
			return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r", Isolation: toolroom.IsolationGVisor}
		})
	})
	src := &isolator{}
	if err := b.Catalog.SetProvider("a", src, []toolroom.Tool{tool("a:b")}); err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); !r.OK() || src.asked != "gvisor" {
		t.Errorf("it was asked for %q: %v", src.asked, r.Error)
	}
}

// silent is a source whose calls have no output at all.
type silent struct{ isolator }

func (*silent) Call(context.Context, *source.Request) (*source.Output, error) { return nil, nil }

func TestACallWithoutOutputIsOK(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.Catalog.SetProvider("a", &silent{}, []toolroom.Tool{tool("a:b")}); err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); !r.OK() || len(r.Value)+len(r.Content) > 0 {
		t.Errorf("got %+v", r)
	}
}

func TestACallThatNeedsASandboxSaysWhich(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(policy.Request) policy.Decision {
			return policy.Decision{Effect: toolroom.VerdictAllow, Rule: "r", Isolation: toolroom.IsolationGVisor, Engine: "docker"}
		})
	})
	b.add(tool("a:b"), value(`1`))
	e := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}).Error
	if e == nil || e.Code != toolroom.CodeSandboxUnavailable || e.Details["isolation"] != toolroom.IsolationGVisor || e.Details["engine"] != "docker" {
		t.Errorf("got %+v", e)
	}
}

// enforcer is a source that enforces rules about files.
type enforcer struct{ isolator }

func (*enforcer) PredictEffects(*source.Request) ([]toolroom.Effect, string) {
	return []toolroom.Effect{{Kind: toolroom.EffectFile}, {Kind: toolroom.EffectHost}}, ""
}

func (*enforcer) Enforces(_ *source.Request, rule toolroom.Effect, _ []toolroom.Effect) bool {
	return rule.Kind == toolroom.EffectFile
}

func (*enforcer) Preview(context.Context, *source.Request) (source.Preview, error) {
	return source.Preview{}, nil
}

func TestARuleThatTheSourceEnforcesLetsThroughWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]toolroom.Code{"effect:file:/secret/**": "", "effect:host:evil.example": toolroom.CodeDenied} {
		b := newBench(t, func(o *run.Options) {
			layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{rule}}})
			if err != nil {
				t.Fatal(err)
			}
			o.Policy = layers
		})
		if err := b.Catalog.SetProvider("a", &enforcer{}, []toolroom.Tool{tool("a:b")}); err != nil {
			t.Fatal(err)
		}
		if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); toolroom.CodeOf(r.Err()) != want {
			t.Errorf("%s: %v", rule, r.Error)
		}
	}
}

func TestARuleSeesWhatTheCallRunsInAndIsReliedOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		decide   func(isolation toolroom.Isolation) policy.Decision
		want     toolroom.Code
		isolated string
	}{
		"a rule that looks": {
			func(i toolroom.Isolation) policy.Decision {
				if i != toolroom.IsolationContainer {
					return policy.Decision{Effect: toolroom.VerdictDeny, Rule: string(i)}
				}
				return policy.Decision{Effect: toolroom.VerdictAllow}
			}, "", "container",
		},
		"a rule that looks for more than there is": {
			func(i toolroom.Isolation) policy.Decision {
				if i != toolroom.IsolationGVisor {
					return policy.Decision{Effect: toolroom.VerdictDeny, Rule: string(i)}
				}
				return policy.Decision{Effect: toolroom.VerdictAllow}
			}, toolroom.CodeDenied, "",
		},
		"another rule brings what the first looks for": {
			func(i toolroom.Isolation) policy.Decision {
				d := policy.Decision{Effect: toolroom.VerdictAllow, Isolation: toolroom.IsolationGVisor}
				if i != toolroom.IsolationGVisor {
					d.Effect = toolroom.VerdictDeny
				}
				return d
			}, "", "gvisor",
		},
		"what is asked for ends with the second look, and the walls stay": {
			func(i toolroom.Isolation) policy.Decision {
				if i == toolroom.IsolationContainer {
					return policy.Decision{Effect: toolroom.VerdictDeny, Isolation: toolroom.IsolationGVisor}
				}
				return policy.Decision{Effect: toolroom.VerdictAllow}
			}, "", "gvisor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(o *run.Options) {
				o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
					if r.Call == nil {
						return policy.Decision{Effect: toolroom.VerdictAllow}
					}
					return tt.decide(r.Call.Isolation())
				})
			})
			src := &isolator{}
			if err := b.Catalog.SetProvider("a", src, []toolroom.Tool{tool("a:b")}); err != nil {
				t.Fatal(err)
			}
			r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"})
			if toolroom.CodeOf(r.Err()) != tt.want || src.asked != tt.isolated {
				t.Errorf("%v; it ran in %q, want %q", r.Err(), src.asked, tt.isolated)
			}
		})
	}
}

func TestAToolOfASourceThatDoesNotIsolateRunsInNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
			if r.Call != nil && r.Call.Isolation() != toolroom.IsolationNone {
				return policy.Decision{Effect: toolroom.VerdictDeny}
			}
			return policy.Decision{Effect: toolroom.VerdictAllow, Isolation: "host"} // which is none
		})
	})
	b.add(tool("a:b"), value(`1`))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); !r.OK() {
		t.Error(r.Error)
	}
}

func TestAToolThatPolicyLetsRunOnAnEngineAloneRunsThereOrNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Policy = deciderFunc(func(policy.Request) policy.Decision {
			return policy.Decision{Effect: toolroom.VerdictAllow, Engine: "gvisor"}
		})
	})
	src := &isolator{}
	if err := b.Catalog.SetProvider("a", src, []toolroom.Tool{tool("a:b")}); err != nil {
		t.Fatal(err)
	}
	b.add(tool("c:d"), value(`1`))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); !r.OK() || src.engine != "gvisor" {
		t.Errorf("it was told %q: %v", src.engine, r.Error)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "c:d"}); toolroom.CodeOf(r.Err()) != toolroom.CodeSandboxUnavailable || !strings.Contains(r.Error.Message, "only run on gvisor") {
		t.Errorf("a tool that runs in no sandbox: %v", r.Error)
	}
}

func TestThePolicyIsAskedAgainOnlyIfItReliedOnAnotherIsolation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		looks    bool
		decision policy.Decision
		asked    int
		isolated string
	}{
		"no rule looks":                      {false, policy.Decision{}, 1, ""},
		"no rule looks, one requires more":   {false, policy.Decision{Isolation: toolroom.IsolationGVisor}, 1, "gvisor"},
		"no rule looks, one names an engine": {false, policy.Decision{Engine: "gvisor"}, 1, ""},
		"a rule looks":                       {true, policy.Decision{}, 1, "container"},
		"a rule looks, one requires as much": {true, policy.Decision{Isolation: toolroom.IsolationContainer}, 1, "container"},
		"a rule looks, one requires more":    {true, policy.Decision{Isolation: toolroom.IsolationGVisor}, 2, "gvisor"},
		"a rule looks, one names an engine":  {true, policy.Decision{Engine: "gvisor"}, 2, "container"},
	} {
		asked := 0
		b := newBench(t, func(o *run.Options) {
			o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
				d := tt.decision
				d.Effect = toolroom.VerdictAllow
				if r.Call != nil {
					asked++
					if tt.looks {
						r.Call.Isolation()
						r.Call.Isolation()
					}
				}
				return d
			})
		})
		src := &isolator{}
		if err := b.Catalog.SetProvider("a", src, []toolroom.Tool{tool("a:b")}); err != nil {
			t.Fatal(err)
		}
		if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b"}); !r.OK() || asked != tt.asked || src.asked != tt.isolated || src.engine != tt.decision.Engine {
			t.Errorf("%s: %v; asked %d times, ran in %q on %q", name, r.Error, asked, src.asked, src.engine)
		}
	}
}
