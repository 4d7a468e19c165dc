package effects

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// field is a word after expansion. One that is not known may be any text, none,
// or several words.
type field struct {
	text  string
	known bool
	glob  bool // holds a pattern of file names
}

// maxBraces is how many words {a,b} may make of one.
const maxBraces = 200

// fields expands words as the shell would, as far as that can be known.
func (r *shellReader) fields(words []*syntax.Word) []field {
	var out []field
	for _, w := range words {
		copied := *w
		if !syntax.SplitBraces(&copied) {
			out = append(out, r.split(w)...)
			continue
		}
		if wordsOf(&copied) > maxBraces {
			out = append(out, field{text: UnknownProgram})
			continue
		}
		for one, err := range expand.BracesSeq(nil, &copied) {
			if err != nil {
				out = append(out, field{text: UnknownProgram})
				break
			}
			out = append(out, r.split(one)...)
		}
	}
	return out
}

// wordsOf counts the words that braces make, and gives more than maxBraces for
// sequences, whose length is a number in the text.
func wordsOf(w *syntax.Word) int {
	n := 1
	for _, part := range w.Parts {
		b, ok := part.(*syntax.BraceExp)
		if !ok {
			continue
		}
		if b.Sequence {
			return maxBraces + 1
		}
		sum := 0
		for _, e := range b.Elems {
			sum = min(sum+wordsOf(e), maxBraces+1)
		}
		if n *= sum; n > maxBraces {
			return maxBraces + 1
		}
	}
	return n
}

// splitter makes fields of the parts of a word.
type splitter struct {
	r      *shellReader
	fields []field
	text   strings.Builder
	begun  bool
	glob   bool
	lost   bool
}

// split expands one word into its fields.
func (r *shellReader) split(w *syntax.Word) []field {
	s := &splitter{r: r}
	for _, p := range w.Parts {
		s.part(p)
	}
	s.end()
	return s.fields
}

// value expands a word that is not split, such as that of an assignment.
func (r *shellReader) value(w *syntax.Word) field {
	if w == nil {
		return field{known: true}
	}
	s := &splitter{r: r}
	s.quoted(w.Parts)
	s.begun = true
	s.end()
	return s.fields[0]
}

func (s *splitter) end() {
	if s.begun || s.text.Len() > 0 || s.lost {
		f := field{text: s.text.String(), known: !s.lost, glob: s.glob}
		if s.lost {
			f.text = UnknownProgram
		}
		s.fields = append(s.fields, f)
	}
	s.text.Reset()
	s.begun, s.glob, s.lost = false, false, false
}

func (s *splitter) part(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		s.literal(p.Value)
	case *syntax.SglQuoted:
		s.begun = true
		s.single(p)
	case *syntax.DblQuoted:
		s.begun = true
		s.quoted(p.Parts)
	case *syntax.ParamExp:
		value, ok := s.r.parameter(p)
		if !ok {
			s.lost = true
			return
		}
		s.unquotedValue(value)
	default: // substitutions, arithmetic, patterns
		s.lost = true
	}
}

// literal reads text outside quotes, in which a backslash quotes one character.
func (s *splitter) literal(text string) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				s.text.WriteByte(text[i])
			}
			continue
		case c == '*' || c == '?' || c == '[':
			s.glob = true
		}
		s.text.WriteByte(c)
	}
}

func (s *splitter) single(p *syntax.SglQuoted) {
	if !p.Dollar {
		s.text.WriteString(p.Value)
		return
	}
	value, _, err := expand.Format(nil, p.Value, nil)
	if err != nil || strings.Contains(p.Value, "%") || doubtfulEscape(p.Value) {
		s.lost = true
		return
	}
	value, _, _ = strings.Cut(value, "\x00")
	s.text.WriteString(value)
}

// doubtfulEscape reports whether $'…' has an escape that is not read here as by the shell.
func doubtfulEscape(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '\\' {
			if i++; strings.IndexByte(`abefnrtvx\'"1234567`, text[i]) < 0 || text[i] == 'x' && !(i+1 < len(text) && isHex(text[i+1])) {
				return true
			}
		}
	}
	return false
}

// quoted reads the parts within double quotes, or of an assignment.
func (s *splitter) quoted(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s.quotedLiteral(p.Value)
		case *syntax.SglQuoted:
			s.single(p)
		case *syntax.DblQuoted:
			s.quoted(p.Parts)
		case *syntax.ParamExp:
			value, ok := s.r.parameter(p)
			s.lost = s.lost || !ok
			s.text.WriteString(value)
		default:
			s.lost = true
		}
	}
}

func (s *splitter) quotedLiteral(text string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		s.text.WriteByte(text[i])
	}
}

// unquotedValue splits a value at spaces, as the shell does with IFS unchanged.
func (s *splitter) unquotedValue(value string) {
	for i, piece := range strings.FieldsFunc(value, isBlank) {
		if i > 0 || isBlank(rune(value[0])) {
			s.end()
		}
		s.text.WriteString(piece)
		s.glob = s.glob || strings.ContainsAny(piece, "*?[")
	}
	if value != "" && isBlank(rune(value[len(value)-1])) {
		s.end()
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// parameter is the value of $x where it is known: assigned once, plainly, above.
func (r *shellReader) parameter(p *syntax.ParamExp) (string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil || p.Repl != nil ||
		p.Exp != nil || p.NestedParam != nil || p.Flags != nil || len(p.Modifiers) > 0 || p.Names != 0 {
		return "", false
	}
	value, ok := r.vars[p.Param.Value]
	return value, ok
}

// assignedOnce lists the variables that a script assigns in one place, and by
// assignment alone. It is empty when the script may assign by other means. IFS
// is in it when the script leaves it alone.
func assignedOnce(file *syntax.File) map[string]bool {
	times := map[string]int{"IFS": 1}
	otherwise := false
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				times[n.Name.Value]++
				if n.Append || n.Index != nil || n.Array != nil {
					times[n.Name.Value]++
				}
			} else if n.Naked {
				otherwise = true // options of declare change what is assigned
			}
		case *syntax.WordIter:
			times[n.Name.Value] += 2
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil {
				times[n.Param.Value]++ // ${x:=value}
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && !isPlainCommand(n.Args[0].Lit(), "read", "mapfile", "readarray", "getopts", "let", "unset", "printf", "eval", "source", ".", "wait", "trap", "alias",
				"export", "declare", "typeset", "local", "readonly", "coproc", "exec", "select") {
				otherwise = true
			}
		}
		return true
	})
	once := map[string]bool{}
	for name, n := range times {
		once[name] = n == 1 && !otherwise && !ofTheShell(name)
	}
	return once
}

// ofTheShell reports whether the shell sets a variable by itself.
func ofTheShell(name string) bool {
	return strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "COMP") || slices.Contains([]string{
		"_", "PWD", "OLDPWD", "REPLY", "OPTARG", "OPTIND", "COPROC", "MAPFILE", "DIRSTACK", "FUNCNAME", "GROUPS", "UID", "EUID", "PPID", "SECONDS", "RANDOM", "SRANDOM",
		"EPOCHSECONDS", "EPOCHREALTIME", "LINENO", "HISTCMD", "PIPESTATUS", "SHELLOPTS", "SHLVL", "HOSTNAME", "HOSTTYPE", "OSTYPE", "MACHTYPE",
	}, name)
}

// assign notes the values that a statement of the top level gives to variables.
// Such a statement is done before all that follow.
func (r *shellReader) assign(stmt *syntax.Stmt, once map[string]bool) {
	if once["IFS"] {
		r.vars["IFS"] = " \t\n"
	}
	var assigns []*syntax.Assign
	switch cmd := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 {
			assigns = cmd.Assigns
		}
	case *syntax.DeclClause:
		assigns = cmd.Args
	}
	if stmt.Background || stmt.Coprocess || stmt.Negated {
		return
	}
	for _, a := range assigns {
		if a.Name == nil || a.Naked || !once[a.Name.Value] || !once["IFS"] {
			continue
		}
		if v := r.value(a.Value); v.known {
			r.vars[a.Name.Value] = v.text
		}
	}
}
