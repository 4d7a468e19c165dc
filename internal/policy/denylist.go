package policy

import (
	"bytes"
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

func (p *parser) parseDenylist(list []Denial) []denial {
	var out []denial
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", denylistLayer, i)
		d := denial{reason: one.Reason}
		if one.ArgsPattern != "" {
			args, err := regexp.Compile(one.ArgsPattern)
			if err != nil {
				p.addProblem(at+".args_pattern", "%w", err)
				continue
			}
			d.args = args
		}
		pattern, ok := p.parsePattern(at+".tool", one.Tool)
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

// matchingDenials returns the entries of the denylist that match a tool.
func matchingDenials(list []denial, t *toolroom.Tool) (out []*denial) {
	for i := range list {
		if list[i].pattern.MatchesAnySpelling(t) {
			out = append(out, &list[i])
		}
	}
	return out
}

// checkDenials returns the step of the first entry that denies the call, and whether there is
// one. Unreadable arguments are denied because their content cannot be checked.
func checkDenials(list []*denial, call *Context) (toolroom.PolicyStep, bool) {
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
			forms = searchableTexts(args)
		}
		if slices.ContainsFunc(forms, d.args.MatchString) {
			step.Rule = d.text
			return step, true
		}
	}
	return step, false
}

// searchableTexts returns the texts against which a pattern for arguments is matched: the
// arguments as JSON, every string and number in them, every list of strings as one line, and each
// of these normalized. Numbers are matched as they are written and in their shortest form: 2.0 and
// 2e0 also as 2, because that is what a tool may get.
func searchableTexts(args any) []string {
	var forms []string
	add := func(text string) {
		forms = append(forms, text)
		if p := normalizeText(text); p != text {
			forms = append(forms, p)
		}
	}
	if whole, err := jsonx.Marshal(args); err == nil {
		add(string(whole))
		if shortest, err := jsonx.Marshal(shortenNumbers(args)); err == nil && !bytes.Equal(shortest, whole) {
			add(string(shortest))
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case json.Number:
			add(v.String())
			if shortest := shorten(v); shortest != v {
				add(shortest.String())
			}
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

// shortenNumbers returns v with its numbers in their shortest form. It works on the numbers, not on
// the whole text, so that nothing beside a number can keep it as it is written.
func shortenNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return shorten(v)
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, value := range v {
			object[key] = shortenNumbers(value)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = shortenNumbers(item)
		}
		return list
	}
	return v
}

// shorten returns a number in its shortest form. One that is too large for that stays as it is.
func shorten(n json.Number) json.Number {
	if shortest, err := jsonx.Canonical([]byte(n)); err == nil {
		return json.Number(shortest)
	}
	return n
}

// normalizeText replaces compatibility forms (full-width letters, ligatures) by ordinary
// characters, removes invisible characters, and replaces every run of white space by one space.
func normalizeText(text string) string {
	if isNormalized(text) {
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

// isNormalized reports whether normalizeText would not change text. It is false for a few such
// texts, too.
func isNormalized(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c >= 0x7f || c == ' ' && (i == 0 || i == len(text)-1 || text[i-1] == ' ') {
			return false
		}
	}
	return true
}

func splitHostPort(address string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, false
	}
	port, err = strconv.Atoi(text)
	return strings.TrimSuffix(host, "."), port, err == nil
}
