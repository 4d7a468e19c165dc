package policy

import (
	"fmt"

	"github.com/toolroom/toolroom"
)

// Action is the action of a hook.
type Action string

// The actions: ask a person, log the call, or neither (the default).
const (
	ActionConfirm Action = "confirm"
	ActionLog     Action = "log"
	ActionSilent  Action = "silent"
)

// Autonomy is how much an agent may do without asking.
type Autonomy string

// The levels. Conservative asks before every tool of a fixed set, whatever the hooks say.
// Standard (the default) follows the hooks. Autonomous logs a call if a hook asks.
// Confirmations by layers, written rules and sensitive tools do not depend on the level.
const (
	Conservative Autonomy = "conservative"
	Standard     Autonomy = "standard"
	Autonomous   Autonomy = "autonomous"
)

// rank orders the levels. An empty one ranks like Standard.
func (a Autonomy) rank() int {
	switch a {
	case Conservative:
		return 0
	case Autonomous:
		return 2
	default:
		return 1
	}
}

// AtMost reports whether a is level or a more conservative one. An empty a means Standard.
func (a Autonomy) AtMost(level Autonomy) bool { return a.rank() <= level.rank() }

// ConservativeTools returns the tools that need confirmation at the level
// conservative, as in the reference (Flynn).
func ConservativeTools() []string {
	return []string{"file.write", "file.edit", "file.patch", "shell.exec", "process.start", "process.write", "process.kill"}
}

type hooks struct {
	list []hook
	// conservative are the rules for the tools that need confirmation at that level.
	conservative rules
}

type hook struct {
	rule
	action Action
}

func (p *parser) checkAutonomy(path string, a Autonomy) {
	known := map[string]bool{string(Conservative): true, string(Standard): true, string(Autonomous): true}
	if a != "" && !known[string(a)] {
		p.addProblem(path+".autonomy", "there is no autonomy %q%s", a, didYouMean(string(a), known))
	}
}

func (p *parser) parseHooks(list []Hook) hooks {
	known := map[string]bool{string(ActionConfirm): true, string(ActionLog): true, string(ActionSilent): true}
	var h hooks
	for i, one := range list {
		at := fmt.Sprintf("tools.hooks[%d]", i)
		if !known[string(one.Action)] {
			p.addProblem(at+".action", "there is no action %q%s", one.Action, didYouMean(string(one.Action), known))
		}
		if pattern, ok := p.parsePattern(at+".tool", one.Tool); ok {
			text := fmt.Sprintf("%s: %s %q", at, one.Action, one.Tool)
			h.list = append(h.list, hook{rule{pattern: pattern, text: text}, one.Action})
		}
	}
	for _, text := range ConservativeTools() {
		pattern, _ := p.parsePattern("tools.autonomy", text)
		h.conservative = append(h.conservative, rule{pattern: pattern, text: fmt.Sprintf("tools.autonomy: conservative asks before %q", text)})
	}
	return h
}

// judge returns the step of the hooks at a level of autonomy; ok is false if no
// hook matches the tool.
func (h hooks) judge(t *toolroom.Tool, level Autonomy) (step toolroom.PolicyStep, log, ok bool) {
	step = toolroom.PolicyStep{Layer: "tools.hooks", Effect: toolroom.VerdictAllow}
	for i := range h.list {
		if !h.list[i].pattern.MatchesAnySpelling(t) {
			continue
		}
		step.Rule, ok = h.list[i].text, true
		switch h.list[i].action {
		case ActionConfirm:
			step.Effect = toolroom.VerdictConfirm
			if level == Autonomous {
				step.Effect, step.Rule, log = toolroom.VerdictAllow, step.Rule+" (autonomous: logged, not asked)", true
			}
		case ActionLog:
			log = true
		case ActionSilent:
		}
		break
	}
	if level != Conservative || step.Effect == toolroom.VerdictConfirm {
		return step, log, ok
	}
	if text, _, asks := h.conservative.firstRestriction(t, nil); asks {
		step.Effect, step.Rule, ok = toolroom.VerdictConfirm, text, true
	}
	return step, log, ok
}
