package policy

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

const denylistLayer = "tools.immutable_denylist"

// denial is a compiled entry of the immutable denylist.
type denial struct {
	rule
	args   *regexp.Regexp // nil denies every call
	reason string
}

func (p *parser) denylist(list []Denial) []denial {
	var out []denial
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", denylistLayer, i)
		d := denial{reason: one.Reason}
		if one.ArgsPattern != "" {
			args, err := regexp.Compile(one.ArgsPattern)
			if err != nil {
				p.problem(at+".args_pattern", "%w", err)
				continue
			}
			d.args = args
		}
		pattern, ok := p.pattern(at+".tool", one.Tool)
		if !ok {
			continue
		}
		d.rule = rule{pattern: pattern, text: fmt.Sprintf("%s: %q", at, one.Tool)}
		if one.ArgsPattern != "" {
			d.text += fmt.Sprintf(" with arguments like %q", one.ArgsPattern)
		}
		if one.Reason != "" {
			d.text += ": " + one.Reason
		}
		out = append(out, d)
	}
	return out
}

// entries returns the entries of the denylist that match a tool.
func entries(list []denial, t *toolroom.Tool) (out []*denial) {
	for i := range list {
		if list[i].pattern.Catches(t) {
			out = append(out, &list[i])
		}
	}
	return out
}

// refuse returns the step of the first entry that denies the call. Unreadable
// arguments are denied because their content cannot be checked.
func refuse(list []*denial, call *Context) (toolroom.PolicyStep, bool) {
	step := toolroom.PolicyStep{Layer: denylistLayer, Effect: toolroom.VerdictDeny}
	var forms []string
	for _, d := range list {
		if d.args == nil {
			step.Rule = d.text
			return step, true
		}
		if call == nil || call.Arguments == nil {
			continue
		}
		if forms == nil {
			args, err := call.Arguments()
			if err != nil {
				step.Rule = d.text + " (the arguments cannot be checked: " + err.Error() + ")"
				return step, true
			}
			forms = formsOf(args)
		}
		if slices.ContainsFunc(forms, d.args.MatchString) {
			step.Rule = d.text
			return step, true
		}
	}
	return step, false
}

// formsOf are the texts that a pattern over arguments is tried on: the whole as
// JSON, every text in it, every list of texts as one line, and each of these
// made plain.
func formsOf(args any) []string {
	var forms []string
	add := func(text string) {
		forms = append(forms, text)
		if p := plain(text); p != text {
			forms = append(forms, p)
		}
	}
	if whole, err := jsonx.Marshal(args); err == nil {
		add(string(whole))
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case json.Number:
			add(v.String())
		case map[string]any:
			for key, value := range v {
				add(key)
				walk(value)
			}
		case []any:
			var words []string
			for _, item := range v {
				walk(item)
				if word, ok := item.(string); ok {
					words = append(words, word)
				}
			}
			if len(words) > 1 {
				add(strings.Join(words, " "))
			}
		}
	}
	walk(args)
	return forms
}

// plain undoes what makes a text look other than it is: compatibility forms
// (full-width letters, ligatures) become plain ones, invisible characters go,
// and every run of white space is one space.
func plain(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	space := false
	for _, r := range norm.NFKC.String(text) {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case unicode.Is(unicode.Cf, r), unicode.IsControl(r), unicode.Is(unicode.Variation_Selector, r):
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// isPlain tells the texts that plain leaves as they are, but for rare ones.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c >= 0x7f || c == ' ' && (i == 0 || i == len(text)-1 || text[i-1] == ' ') {
			return false
		}
	}
	return true
}

func cutPort(address string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, false
	}
	port, err = strconv.Atoi(text)
	return strings.TrimSuffix(host, "."), port, err == nil
}
