package jsonx

import (
	"encoding/json"
	"regexp"
	"strconv"
)

// or reads the condition of a filter.
func (p *pathParser) or() (condition, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxPathDepth {
		return nil, p.fail("it is nested deeper than %d", maxPathDepth)
	}
	var list anyOf
	for {
		c, err := p.and()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		p.space()
		if !p.take("||") {
			return list, nil
		}
	}
}

func (p *pathParser) and() (condition, error) {
	var list allOf
	for {
		c, err := p.basic()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		p.space()
		if !p.take("&&") {
			return list, nil
		}
	}
}

// basic reads a test, a comparison, or either of them in parentheses.
func (p *pathParser) basic() (condition, error) {
	p.space()
	negated := p.take("!")
	p.space()
	var c condition
	var err error
	if p.take("(") {
		c, err = p.parenthesised()
	} else {
		c, err = p.testOrComparison(negated)
	}
	if err == nil && negated {
		c = not{c}
	}
	return c, err
}

func (p *pathParser) parenthesised() (condition, error) {
	c, err := p.or()
	if err != nil {
		return nil, err
	}
	p.space()
	if !p.take(")") {
		return nil, p.fail("expected )")
	}
	return c, nil
}

func (p *pathParser) testOrComparison(negated bool) (condition, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	afterLeft := p.at
	p.space()
	op := p.operator()
	if op == "" {
		p.at = afterLeft
		if test, ok := left.(pathQuery); ok {
			return test, nil
		}
		return nil, p.fail("expected a comparison")
	}
	if negated {
		return nil, p.fail("a comparison is negated in parentheses: !(… %s …)", op)
	}
	p.space()
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	for _, side := range []operand{left, right} {
		if q, ok := side.(pathQuery); ok && !q.singular() {
			return nil, p.fail("a comparison needs paths that select one value: names and indexes only")
		}
	}
	return comparison{left, right, op}, nil
}

func (p *pathParser) operator() string {
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.take(op) {
			return op
		}
	}
	return ""
}

// singular reports whether q selects one value at most, by its form.
func (q pathQuery) singular() bool {
	for _, seg := range q.segments {
		if seg.descendant || len(seg.selectors) != 1 {
			return false
		}
		switch seg.selectors[0].(type) {
		case nameSelector, indexSelector:
		default:
			return false
		}
	}
	return true
}

var (
	numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	wordForm   = regexp.MustCompile(`^[a-z][a-z0-9_]*`)
)

func (p *pathParser) operand() (operand, error) {
	rest := p.text[p.at:]
	switch c := p.peek(); {
	case c == '@' || c == '$':
		p.at++
		segments, err := p.segments()
		return pathQuery{absolute: c == '$', segments: segments}, err
	case c == '\'' || c == '"':
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		quoted, err := json.Marshal(text)
		return pathLiteral(quoted), err
	case c == '-' || '0' <= c && c <= '9':
		number := numberForm.FindString(rest)
		if number == "" {
			return nil, p.fail("expected a number")
		}
		p.at += len(number)
		return pathLiteral(number), nil
	}
	switch word := wordForm.FindString(rest); {
	case word == "true" || word == "false" || word == "null":
		p.at += len(word)
		return pathLiteral(word), nil
	case word != "" && p.at+len(word) < len(p.text) && p.text[p.at+len(word)] == '(':
		return nil, p.fail("functions such as %s are not supported", strconv.Quote(word))
	default:
		return nil, p.fail("expected @, $, a string, a number, true, false or null")
	}
}
