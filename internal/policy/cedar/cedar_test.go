package cedar

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
)

func compile(t testing.TB, o Options, text string) *Rules {
	t.Helper()
	r, err := Compile([]Text{{Name: "rules.cedar", Body: []byte(text)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// with is a call with arguments.
func with(arguments string) *policy.Context {
	return &policy.Context{
		Arguments: func() (any, error) { return jsonx.Decode([]byte(arguments), jsonx.Limits{}) },
		Surface:   "mcp", Time: time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC), // a Saturday
		Taint: []string{"untrusted"}, Budget: policy.Budget{Calls: 3},
	}
}

func shell() *toolroom.Tool {
	return &toolroom.Tool{ID: toolroom.MustParseID("shell:exec"), Source: toolroom.SourceMCP, Tags: []string{"risky"}}
}

func TestRulesDecideAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	ann := toolroom.Identity{Subject: "ann", Agent: "coder", Provider: "ollama", Skill: "s", Environment: "test", Groups: []string{"dev"}}
	effects := with(`{}`)
	effects.Effects = []toolroom.Effect{
		{Kind: toolroom.EffectFile, Mode: "write", Target: "/etc/passwd"},
		{Kind: toolroom.EffectCommand, Target: "/usr/bin/rm -rf x"},
	}
	unknown := with(`{}`)
	unknown.Effects = []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write"}, {Kind: toolroom.EffectCommand, Target: "… -rf /"}}
	docker := with(`{}`)
	docker.Isolation = func() toolroom.Isolation { return "docker" }
	spend := func(amounts ...string) *policy.Context {
		c := with(`{}`)
		for _, a := range amounts {
			c.Effects = append(c.Effects, toolroom.Effect{Kind: toolroom.EffectSpend, Target: a})
		}
		return c
	}
	const (
		above = `forbid(principal, action, resource) when { context.arguments has amount && context.arguments.amount > 100 };`
		only  = `forbid(principal, action, resource) unless { [1, 2, 3].containsAll(context.arguments.ids) };`
		costs = `forbid(principal, action, resource) when { context.effects has amount && context.effects.amount.greaterThan(decimal("100.0")) };`
	)
	for name, tt := range map[string]struct {
		rules   string
		call    *policy.Context
		deny    bool // by default
		effect  toolroom.Verdict
		because string
		least   toolroom.Isolation
		engine  string
	}{
		"a forbid denies":                  {rules: `forbid(principal, action, resource == Tool::"shell:exec");`, effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"a forbid of another does not":     {rules: `forbid(principal, action, resource == Tool::"x:y");`, effect: toolroom.VerdictAllow},
		"nothing is permitted by default":  {deny: true, effect: toolroom.VerdictDeny, because: "policy.default: deny"},
		"a permit permits":                 {deny: true, rules: `@id("p") permit(principal in Team::"dev", action, resource in Namespace::"shell");`, effect: toolroom.VerdictAllow, because: "rules.cedar:1:1 (p)"},
		"a forbid beats a permit":          {deny: true, rules: `permit(principal, action, resource); @reason("no shell") forbid(principal, action, resource in Tag::"risky");`, effect: toolroom.VerdictDeny, because: "rules.cedar:1:38: no shell"},
		"the environment of the token":     {rules: `forbid(principal, action, resource) when { principal.environment == "test" };`, effect: toolroom.VerdictDeny},
		"another environment":              {rules: `forbid(principal, action, resource) when { principal.environment == "prod" };`, effect: toolroom.VerdictAllow},
		"a group is a parent":              {rules: `forbid(principal, action, resource in Group::"runtime");`, effect: toolroom.VerdictDeny},
		"a source is a parent":             {rules: `forbid(principal, action == Action::"call", resource in Source::"mcp");`, effect: toolroom.VerdictDeny},
		"hints are attributes":             {rules: `forbid(principal, action, resource) when { resource.destructive && !resource.read_only };`, effect: toolroom.VerdictDeny},
		"what the caller acts as":          {rules: `forbid(principal == Identity::"ann", action, resource) when { principal.agent == "coder" && principal.provider == "ollama" && principal.skill == "s" };`, effect: toolroom.VerdictDeny},
		"an argument":                      {rules: `forbid(principal, action, resource) when { context.arguments.command like "*rm *" };`, call: with(`{"command":"rm -r x"}`), effect: toolroom.VerdictDeny},
		"another argument":                 {rules: `forbid(principal, action, resource) when { context.arguments.command like "*rm *" };`, call: with(`{"command":"ls"}`), effect: toolroom.VerdictAllow},
		"a missing argument is no way out": {rules: `forbid(principal, action, resource) when { context.arguments.command like "*rm *" };`, call: with(`{}`), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a missing argument permits nothing": {
			deny: true, rules: `permit(principal, action, resource) when { context.arguments.safe };`, call: with(`{}`), effect: toolroom.VerdictDeny, because: "policy.default",
		},
		"has asks first":               {rules: `forbid(principal, action, resource) when { context.arguments has command && context.arguments.command like "*rm*" };`, call: with(`{}`), effect: toolroom.VerdictAllow},
		"one number has one form":      {rules: `forbid(principal, action, resource) when { context.arguments.n >= 100 };`, call: with(`{"n":1e2}`), effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"a number beyond 64 bits":      {rules: `forbid(principal, action, resource) when { context.arguments.n >= 100 };`, call: with(`{"n":99999999999999999999}`), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a fraction is no Long":        {rules: `forbid(principal, action, resource) when { context.arguments.n >= 100 };`, call: with(`{"n":100.5}`), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a fraction is a decimal":      {rules: `forbid(principal, action, resource) when { context.arguments.n.greaterThan(decimal("100.0")) };`, call: with(`{"n":100.5}`), effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"has, beyond 64 bits":          {rules: above, call: with(`{"amount":99999999999999999999}`), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"has, digits behind the point": {rules: above, call: with(`{"amount":1000000.00001}`), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"has, a small number":          {rules: above, call: with(`{"amount":1}`), effect: toolroom.VerdictAllow},
		"has, a decimal":               {rules: `forbid(principal, action, resource) when { context.arguments has amount && context.arguments.amount.greaterThan(decimal("100.0")) };`, call: with(`{"amount":1000000.00001}`), effect: toolroom.VerdictDeny},
		"has alone":                    {rules: `forbid(principal, action, resource) when { context.arguments has amount };`, call: with(`{"amount":1e300}`), effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"has within":                   {rules: `forbid(principal, action, resource) when { context.arguments has a && context.arguments.a has b && context.arguments.a.b > 1 };`, call: with(`{"a":{"b":99999999999999999999}}`), effect: toolroom.VerdictDeny},
		"a list of other numbers":      {rules: only, call: with(`{"ids":[1,99999999999999999999]}`), effect: toolroom.VerdictDeny},
		"a list of a list of them":     {rules: only, call: with(`{"ids":[1,[0.00001]]}`), effect: toolroom.VerdictDeny},
		"a list with null":             {rules: only, call: with(`{"ids":[1,null]}`), effect: toolroom.VerdictDeny},
		"a list as it should be":       {rules: only, call: with(`{"ids":[1,3]}`), effect: toolroom.VerdictAllow},
		"an empty list of them":        {rules: `forbid(principal, action, resource) unless { context.arguments.ids.isEmpty() };`, call: with(`{"ids":[99999999999999999999]}`), effect: toolroom.VerdictDeny},
		"amounts that overflow":        {rules: costs, call: spend("5000 EUR", "9000000000000 EUR", "8999999999999 EUR"), effect: toolroom.VerdictDeny},
		"an amount nobody knows":       {rules: costs, call: spend("much"), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"amounts of two units":         {rules: costs, call: spend("5 EUR", "5000 USD"), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"amounts, one without a unit":  {rules: costs, call: spend("5", "1 USD"), effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a small amount":               {rules: costs, call: spend("5 EUR"), effect: toolroom.VerdictAllow},
		"has, a file nobody knows":     {rules: `forbid(principal, action, resource) when { context.effects has write && context.effects.write.contains("/etc/passwd") };`, call: unknown, effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a list is a set":              {rules: `forbid(principal, action, resource) when { context.arguments.args.contains("--force") };`, call: with(`{"args":["push","--force"]}`), effect: toolroom.VerdictDeny},
		"escapes are undone":           {rules: `forbid(principal, action, resource) when { context.arguments.p == "rm" };`, call: with(`{"p":"\u0072m"}`), effect: toolroom.VerdictDeny},
		"unreadable arguments":         {rules: `forbid(principal, action, resource) when { context.arguments.p == "rm" };`, call: with(`{"p":"a","p":"rm"}`), effect: toolroom.VerdictDeny, because: "cannot be checked"},
		"time and surface":             {rules: `forbid(principal, action, resource) when { context.weekday == "saturday" && context.hour < 8 && context.surface == "mcp" };`, effect: toolroom.VerdictDeny},
		"taint":                        {rules: `forbid(principal, action, resource) when { context.taint.contains("untrusted") && resource.open_world };`, effect: toolroom.VerdictDeny},
		"the environment":              {rules: `forbid(principal, action, resource) when { context.environment == "prod" };`, effect: toolroom.VerdictDeny},
		"the budget":                   {rules: `forbid(principal, action, resource) when { context.budget.calls < 5 };`, effect: toolroom.VerdictDeny},
		"effects":                      {rules: `forbid(principal, action, resource) when { context.effects.write.contains("/etc/passwd") };`, call: effects, effect: toolroom.VerdictDeny},
		"a program":                    {rules: `forbid(principal, action, resource) when { context.effects.commands.contains("rm") };`, call: effects, effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"no such effect":               {rules: `forbid(principal, action, resource) when { context.effects.read.contains("/etc/passwd") };`, call: effects, effect: toolroom.VerdictAllow},
		"a file that nobody knows":     {rules: `forbid(principal, action, resource) when { context.effects.write.contains("/etc/passwd") };`, call: unknown, effect: toolroom.VerdictDeny, because: "counts as matching"},
		"a program nobody knows":       {rules: `forbid(principal, action, resource) when { context.effects.commands.contains("rm") };`, call: unknown, effect: toolroom.VerdictDeny, because: "counts as matching"},
		"what is not known permits nothing": {
			deny: true, rules: `permit(principal, action, resource) unless { context.effects.write.contains("/etc/passwd") };`, call: unknown, effect: toolroom.VerdictDeny, because: "policy.default",
		},
		"effects that nobody knows":  {rules: `forbid(principal, action, resource) unless { context.effects.known };`, effect: toolroom.VerdictDeny},
		"an outcome of a permit":     {rules: `@outcome("confirm") permit(principal, action, resource);`, effect: toolroom.VerdictConfirm},
		"an outcome of a forbid":     {rules: `@outcome("confirm") forbid(principal, action, resource);`, effect: toolroom.VerdictConfirm},
		"a question does not permit": {deny: true, rules: `@outcome("confirm") forbid(principal, action, resource);`, effect: toolroom.VerdictDeny},
		"a question that fails asks": {rules: `@outcome("confirm") permit(principal, action, resource) when { context.arguments.x };`, call: with(`{}`), effect: toolroom.VerdictConfirm},
		"isolation":                  {rules: `@isolation("gvisor") permit(principal, action, resource); @isolation("docker") permit(principal, action, resource);`, effect: toolroom.VerdictAllow, least: "gvisor"},
		"what it runs in":            {rules: `forbid(principal, action, resource) unless { ["gvisor", "vm"].contains(context.isolation) };`, call: docker, effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"a driver has a strength":    {rules: `forbid(principal, action, resource) unless { context.isolation == "container" };`, call: docker, effect: toolroom.VerdictAllow},
		"it runs in none":            {rules: `forbid(principal, action, resource) when { context.isolation == "none" };`, effect: toolroom.VerdictDeny, because: "rules.cedar:1:1"},
		"nothing is known of walls":  {rules: `forbid(principal, action, resource) when { context.isolation == "none" };`, call: &policy.Context{}, effect: toolroom.VerdictAllow},
		"an engine":                  {rules: `@engine("gvisor") permit(principal, action, resource); @engine("gvisor") @isolation("vm") permit(principal, action, resource);`, effect: toolroom.VerdictAllow, least: "vm", engine: "gvisor"},
		"an engine of another case":  {rules: `@engine("gvisor") permit(principal, action, resource) when { context.surface == "cli" };`, effect: toolroom.VerdictAllow},
		"an engine that fails":       {rules: `@engine("gvisor") permit(principal, action, resource) when { context.arguments.x };`, call: with(`{}`), effect: toolroom.VerdictAllow, engine: "gvisor"},
		"two engines are none":       {rules: `@engine("gvisor") permit(principal, action, resource); @engine("docker") permit(principal, action, resource);`, effect: toolroom.VerdictDeny, because: "rules.cedar:1:1: on gvisor alone, and rules.cedar:1:56: on docker alone", engine: "gvisor"},
		"a question and isolation":   {rules: `@isolation("vm") @outcome("confirm") permit(principal, action, resource);`, effect: toolroom.VerdictConfirm, least: "vm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := compile(t, Options{DenyByDefault: tt.deny, Environment: "prod", Groups: policy.Config{}.GroupPatterns()}, tt.rules)
			call := tt.call
			if call == nil {
				call = with(`{}`)
			}
			got := r.View(shell(), ann).Decide(call)
			if got.Effect != tt.effect || !strings.Contains(got.Rule, tt.because) || got.Isolation != tt.least || got.Engine != tt.engine {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAListLeavesOutWhatDependsOnTheCall(t *testing.T) {
	t.Parallel()
	const when = ` when { resource.id == "shell:exec" && context.arguments.x == 1 };`
	for name, tt := range map[string]struct {
		rules  string
		deny   bool
		effect toolroom.Verdict
	}{
		"a forbid takes nothing away":     {`forbid(principal, action, resource)` + when, false, toolroom.VerdictAllow},
		"a permit may permit":             {`permit(principal, action, resource)` + when, true, toolroom.VerdictAllow},
		"a permit of another tool cannot": {`permit(principal, action, resource == Tool::"x:y")` + when, true, toolroom.VerdictDeny},
		"a question is not put":           {`@outcome("confirm") permit(principal, action, resource)` + when, false, toolroom.VerdictAllow},
		"a settled forbid takes away":     {`forbid(principal, action, resource) when { resource.id == "shell:exec" };`, false, toolroom.VerdictDeny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := compile(t, Options{DenyByDefault: tt.deny}, tt.rules).View(shell(), toolroom.Identity{})
			if got := v.Decide(nil); got.Effect != tt.effect {
				t.Errorf("a list: %+v", got)
			}
			if got := v.Decide(&policy.Context{}); got.Effect != tt.effect {
				t.Errorf("a call without known arguments: %+v", got)
			}
		})
	}
}

func TestMistakesInRulesHaveTheirPlaceAndTheNearestName(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"permit(principal, action, resource":                                                                             `rules.cedar:1:35: not Cedar: expected ")", but the text ends`,
		"permit(principal; action, resource)":                                                                            `rules.cedar:1:19: not Cedar: expected ",", got ";"`,
		"\n  permit(principal, action, resource) when { context.a = 3 };":                                                "rules.cedar:2:58: not Cedar",
		"permit(principal, action, resource) when { \"abc };":                                                            "rules.cedar:1:44: not Cedar: literal not terminated",
		"forbid(principal, action, resource)\nwhen { principal.agnet == \"x\" };":                                        "rules.cedar:2:18: principal has no attribute agnet; did you mean agent?",
		"forbid(principal, action, resource)\nwhen { context.effects.wirte.contains(\"x\") };":                           "rules.cedar:2:24: context.effects has no attribute wirte; did you mean write?",
		"// one\npermit(principal, action, resource);\nforbid(principal in Taem::\"x\", action, resource);":              "rules.cedar:3:21: there is no type of entity Taem; did you mean Team?",
		"forbid(principal, action == Action::\"run\", resource);":                                                        "rules.cedar:1:38: there is no action \"run\"; write Action::\"call\"",
		"@outcome(\"ask\") forbid(principal, action, resource);":                                                         "rules.cedar:1:1: there is no outcome \"ask\"",
		"@outcom(\"confirm\") forbid(principal, action, resource);":                                                      "did you mean outcome?",
		"@isolation(\"gvizor\") permit(principal, action, resource);":                                                    "did you mean gvisor?",
		"@engine(\"py-natve\") permit(principal, action, resource);":                                                     "rules.cedar:1:1: there is no engine \"py-natve\"; did you mean py-native?",
		"@isolation(\"gvisor\") forbid(principal, action, resource);":                                                    "rules.cedar:1:1: a forbid has no @isolation: it lets the tool run in nothing; put it on a permit",
		"@engine(\"js\") @outcome(\"confirm\") forbid(principal, action, resource);":                                     "rules.cedar:1:1: a forbid has no @engine",
		"@engine(\"\") permit(principal, action, resource);":                                                             "\"\" is no engine",
		"forbid(principal, action, resource) when { context.hour == \"x\" && context.hour < \"y\" };":                    "rules.cedar:1:1: ",
		"forbid(principal, action, resource) when { resource.tags == 3 || resource.tags.contains(1) || context.depth };": "rules.cedar:1:1: ",
	} {
		_, err := Compile([]Text{{Name: "rules.cedar", Body: []byte(rules)}}, Options{Engines: []string{"js", "py-native"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgot  %v\n\twant %s", rules, err, want)
		}
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Compile([]Text{
		{Name: "b.cedar", Body: []byte(`forbid(principal, action, resource) when { principal.x && context.y };`)},
		{Name: "a.cedar", Body: []byte(`not cedar`)},
		{Name: "c.cedar", Body: []byte(strings.Repeat(" ", MaxText+1))},
	}, Options{})
	var problems *Problems
	if p, ok := err.(*Problems); ok {
		problems = p
	}
	if problems == nil || len(problems.Found) != 4 || problems.Found[0].File != "a.cedar" || problems.Found[3].File != "c.cedar" {
		t.Fatalf("%v", err)
	}
	if _, err := json.Marshal(problems.Found); err != nil {
		t.Error(err)
	}
}

func TestMoreMistakesInRulesHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		`forbid(principal is Persn, action, resource);`:                                                                  "rules.cedar:1:21: there is no type of entity Persn",
		`forbid(principal is Persn in Team::"x", action, resource);`:                                                     "rules.cedar:1:21: there is no type of entity Persn",
		`forbid(principal is Identity in Taem::"x", action, resource);`:                                                  "rules.cedar:1:33: there is no type of entity Taem; did you mean Team?",
		`forbid(principal, action in [Action::"call", Action::"run"], resource);`:                                        "rules.cedar:1:55: there is no action \"run\"",
		`forbid(principal, action, resource) when { principal is Persn };`:                                               "there is no type of entity Persn",
		`forbid(principal, action, resource) when { principal is Persn in Team::"x" };`:                                  "there is no type of entity Persn",
		`forbid(principal, action, resource) when { principal in Taem::"x" };`:                                           "did you mean Team?",
		`forbid(principal, action, resource) when { resource has naem };`:                                                "resource has no attribute naem; did you mean name?",
		`forbid(principal, action, resource) when { context has surfac };`:                                               "context has no attribute surfac; did you mean surface?",
		`forbid(principal, action, resource) when { context.budget.cals > 1 };`:                                          "context.budget has no attribute cals; did you mean calls?",
		`forbid(principal, action, resource) when { context == {} };`:                                                    "the context as a whole is no value to judge by",
		`forbid(principal, action, resource) when { context has time && context == {} };`:                                "the context as a whole is no value to judge by",
		"forbid(principal, action, resource)\n  when { \"é agnet\" == principal.agnet };":                                "rules.cedar:2:13: principal has no attribute agnet",
		"forbid(principal, action, resource) when { \"agnets xagnet agnet_ agnetZ 0agnet agnet9\" == principal.agnet };": "rules.cedar:1:101: principal has no attribute agnet",
		`forbid(principal, action, resource) when { resource.agnet == principal.x };`:                                    "resource has no attribute agnet",
	} {
		_, err := Compile([]Text{{Name: "rules.cedar", Body: []byte(rules)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgot  %v\n\twant %s", rules, err, want)
		}
	}
	for _, rules := range []string{
		`forbid(principal is Identity in Team::"x", action in [Action::"call"], resource is Tool in Source::"mcp");`,
		`forbid(principal, action, resource) when { context has arguments && context.arguments has x && context.arguments.x.effects == 3 };`,
		`forbid(principal, action, resource) when { principal is Identity && resource is Tool in Namespace::"x" };`,
		strings.Repeat(" ", MaxText),
	} {
		if _, err := Compile([]Text{{Name: "rules.cedar", Body: []byte(rules)}}, Options{}); err != nil {
			t.Errorf("%.100s: %v", rules, err)
		}
	}
	if !strings.Contains(Schema(), "entity Identity") {
		t.Error("the schema names no identity")
	}
	if n := compile(t, Options{}, `permit(principal, action, resource); forbid(principal, action, resource) when { context.depth > 3 };`).Len(); n != 2 {
		t.Errorf("%d rules", n)
	}
}

func TestMistakesInOneRuleOrTextHideNoOthers(t *testing.T) {
	t.Parallel()
	_, err := Compile([]Text{
		{Name: "b", Body: []byte("forbid(principal, action, resource) when { principal.a };\nforbid(principal, action, resource) when { principal.b };")},
		{Name: "a", Body: []byte(strings.Repeat(" ", MaxText+1))},
	}, Options{})
	if err == nil || strings.Count(err.Error(), "\n") != 2 || !strings.HasPrefix(err.Error(), "a:1:1: it has more than") {
		t.Errorf("%v", err)
	}
}

func TestAViewIsSettledWhenNoRuleDependsOnTheCall(t *testing.T) {
	t.Parallel()
	for rules, settled := range map[string]bool{
		``:                                     true,
		`forbid(principal, action, resource);`: true,
		`forbid(principal, action, resource) when { context.depth > 3 };`:                                               false,
		`forbid(principal, action, resource == Tool::"x:y") when { context.depth > 3 };`:                                true,
		`forbid(principal, action, resource) when { resource.id == "x:y" && context.depth > 3 };`:                       true,
		`forbid(principal, action, resource) when { resource.id == "shell:exec" && context.depth > 3 };`:                false,
		`forbid(principal, action, resource) when { context.depth > 3 } unless { resource.id == "shell:exec" };`:        true,
		`forbid(principal, action, resource) when { context.depth > 3 } unless { resource.id == "x:y" };`:               false,
		`forbid(principal, action, resource) when { resource.id == "x:y" } unless { context.depth > 3 };`:               true,
		`forbid(principal, action, resource) when { resource.id == "shell:exec" } unless { context.depth > 3 };`:        false,
		`forbid(principal, action, resource) when { context.depth > 3 || resource.id == "x:y" };`:                       false,
		`forbid(principal, action, resource) when { if resource.id == "x:y" then true else context.hour == 1 };`:        false,
		`forbid(principal, action, resource) when { context.depth > 3 && (context.hour == 1 && resource.id == "x:y")};`: true,
	} {
		v := compile(t, Options{}, rules).View(shell(), toolroom.Identity{})
		if v.IsConstant() != settled {
			t.Errorf("%s is settled: %v", rules, v.IsConstant())
		}
	}
	// Without arguments a rule that needs none is judged all the same.
	v := compile(t, Options{}, `forbid(principal, action, resource) when { context.surface == "cli" };`).View(shell(), toolroom.Identity{})
	if got := v.Decide(&policy.Context{Surface: "cli"}); got.Effect != toolroom.VerdictDeny {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsKnownOfACall(t *testing.T) {
	t.Parallel()
	many := with(`{"n": 1e400, "yes": true}`)
	many.Effects = []toolroom.Effect{
		{Kind: toolroom.EffectFile, Mode: "read", Target: "/a"},
		{Kind: toolroom.EffectFile, Target: "/b"},
		{Kind: toolroom.EffectHost, Mode: "get", Target: "a.example:443"},
		{Kind: toolroom.EffectSend, Target: "x"},
		{Kind: toolroom.EffectSpend, Target: "2 EUR"},
		{Kind: toolroom.EffectSpend, Target: "0.5 EUR"},
	}
	for condition, want := range map[string]bool{
		`context.effects.read.containsAll(["/a", "/b"])`:                                 true,
		`context.effects.read.contains("/c")`:                                            false,
		`context.effects.write == ["/b"]`:                                                true,
		`context.effects.hosts == ["a.example:443"]`:                                     true,
		`context.effects.commands.isEmpty()`:                                             true,
		`context.effects.amount == decimal("2.5") && context.effects.unit == "EUR"`:      true,
		`context.arguments.yes`:                                                          true,
		`context.effects.known`:                                                          true,
		`context.weekday == "saturday" && context.hour == 7 && context.surface == "mcp"`: true,
	} {
		rules := compile(t, Options{}, "forbid(principal, action, resource) when { "+condition+" };")
		if got := rules.View(shell(), toolroom.Identity{}).Decide(many); (got.Effect == toolroom.VerdictDeny) != want {
			t.Errorf("%s: %+v", condition, got)
		}
	}
	// The clock stands in where the time of a call is not known.
	now := compile(t, Options{}, `forbid(principal, action, resource) when { context.time > datetime("2020-01-01") };`)
	if got := now.View(shell(), toolroom.Identity{}).Decide(&policy.Context{}); got.Effect != toolroom.VerdictDeny {
		t.Errorf("%+v", got)
	}
	null := &policy.Context{Arguments: func() (any, error) { return nil, nil }}
	r := compile(t, Options{}, `forbid(principal, action, resource) when { context.arguments.x == 1 };`)
	if got := r.View(shell(), toolroom.Identity{}).Decide(null); got.Effect != toolroom.VerdictDeny || !strings.Contains(got.Rule, "cannot be checked") {
		t.Errorf("%+v", got)
	}
}
