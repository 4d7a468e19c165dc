package effects

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// field is a word after expansion. An unknown one may be any text, no word, or several words.
type field struct {
	text  string
	known bool
	glob  bool // holds a pattern of file names
}

// maxBraces is how many words a brace expansion such as {a,b} may have.
const maxBraces = 200

// expandWords expands words as the shell does. What cannot be known becomes an unknown field.
func (r *shellReader) expandWords(words []*syntax.Word) []field {
	var out []field
	for _, w := range words {
		copied := *w
		if !syntax.SplitBraces(&copied) {
			out = append(out, r.expandWord(w)...)
			continue
		}
		if countBraceWords(&copied) > maxBraces {
			out = append(out, field{text: UnknownProgram})
			continue
		}
		for one, err := range expand.BracesSeq(nil, &copied) {
			if err != nil {
				out = append(out, field{text: UnknownProgram})
				break
			}
			out = append(out, r.expandWord(one)...)
		}
	}
	return out
}

// countBraceWords returns how many words the braces of w expand to. It returns more than
// maxBraces for a sequence such as {1..9}, which can be very long.
func countBraceWords(w *syntax.Word) int {
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
			sum = min(sum+countBraceWords(e), maxBraces+1)
		}
		if n *= sum; n > maxBraces {
			return maxBraces + 1
		}
	}
	return n
}

// splitter splits the parts of a word into fields.
type splitter struct {
	r       *shellReader
	fields  []field
	text    strings.Builder
	started bool
	glob    bool
	unknown bool
}

// expandWord expands one word into its fields.
func (r *shellReader) expandWord(w *syntax.Word) []field {
	s := &splitter{r: r}
	for _, p := range w.Parts {
		s.addPart(p)
	}
	s.endField()
	return s.fields
}

// expandUnsplit expands a word that the shell does not split, such as that of an assignment.
func (r *shellReader) expandUnsplit(w *syntax.Word) field {
	if w == nil {
		return field{known: true}
	}
	s := &splitter{r: r}
	s.addQuoted(w.Parts)
	s.started = true
	s.endField()
	return s.fields[0]
}

func (s *splitter) endField() {
	if s.started || s.text.Len() > 0 || s.unknown {
		f := field{text: s.text.String(), known: !s.unknown, glob: s.glob}
		if s.unknown {
			f.text = UnknownProgram
		}
		s.fields = append(s.fields, f)
	}
	s.text.Reset()
	s.started, s.glob, s.unknown = false, false, false
}

func (s *splitter) addPart(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		s.addLiteral(p.Value)
	case *syntax.SglQuoted:
		s.started = true
		s.addSingleQuoted(p)
	case *syntax.DblQuoted:
		s.started = true
		s.addQuoted(p.Parts)
	case *syntax.ParamExp:
		value, ok := s.r.variableValue(p)
		if !ok {
			s.unknown = true
			return
		}
		s.addUnquotedValue(value)
	default: // substitutions, arithmetic, patterns
		s.unknown = true
	}
}

// addLiteral adds text outside quotes, in which a backslash quotes one character.
func (s *splitter) addLiteral(text string) {
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

func (s *splitter) addSingleQuoted(p *syntax.SglQuoted) {
	if !p.Dollar {
		s.text.WriteString(p.Value)
		return
	}
	value, _, err := expand.Format(nil, p.Value, nil)
	if err != nil || strings.Contains(p.Value, "%") || doubtfulEscape(p.Value) {
		s.unknown = true
		return
	}
	value, _, _ = strings.Cut(value, "\x00")
	s.text.WriteString(value)
}

// doubtfulEscape reports whether $'…' has an escape that this package and the shell may read
// differently.
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

// addQuoted adds the parts within double quotes, or of an assignment.
func (s *splitter) addQuoted(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s.addQuotedLiteral(p.Value)
		case *syntax.SglQuoted:
			s.addSingleQuoted(p)
		case *syntax.DblQuoted:
			s.addQuoted(p.Parts)
		case *syntax.ParamExp:
			value, ok := s.r.variableValue(p)
			s.unknown = s.unknown || !ok
			s.text.WriteString(value)
		default:
			s.unknown = true
		}
	}
}

func (s *splitter) addQuotedLiteral(text string) {
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

// addUnquotedValue adds the value of an unquoted variable. It splits the value at blanks, as the
// shell does if IFS is unchanged.
func (s *splitter) addUnquotedValue(value string) {
	for i, piece := range strings.FieldsFunc(value, isBlank) {
		if i > 0 || isBlank(rune(value[0])) {
			s.endField()
		}
		s.text.WriteString(piece)
		s.glob = s.glob || strings.ContainsAny(piece, "*?[")
	}
	if value != "" && isBlank(rune(value[len(value)-1])) {
		s.endField()
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// variableValue returns the value of $x if it is known: if x was assigned once, by a plain
// assignment above.
func (r *shellReader) variableValue(p *syntax.ParamExp) (string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil || p.Repl != nil ||
		p.Exp != nil || p.NestedParam != nil || p.Flags != nil || len(p.Modifiers) > 0 || p.Names != 0 {
		return "", false
	}
	value, ok := r.vars[p.Param.Value]
	return value, ok
}

// assignedOnce returns the variables that a script sets in one place only, by an assignment.
// None is true if the script may set variables by other means. IFS is true if the script does
// not change it.
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
		once[name] = n == 1 && !otherwise && !setByShell(name)
	}
	return once
}

// setByShell reports whether the shell itself sets a variable.
func setByShell(name string) bool {
	return strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "COMP") || slices.Contains([]string{
		"_", "PWD", "OLDPWD", "REPLY", "OPTARG", "OPTIND", "COPROC", "MAPFILE", "DIRSTACK", "FUNCNAME", "GROUPS", "UID", "EUID", "PPID", "SECONDS", "RANDOM", "SRANDOM",
		"EPOCHSECONDS", "EPOCHREALTIME", "LINENO", "HISTCMD", "PIPESTATUS", "SHELLOPTS", "SHLVL", "HOSTNAME", "HOSTTYPE", "OSTYPE", "MACHTYPE",
	}, name)
}

// recordAssignments records the values that a top-level statement assigns to variables. Such a
// statement runs before all that follow it.
func (r *shellReader) recordAssignments(stmt *syntax.Stmt, once map[string]bool) {
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
		if v := r.expandUnsplit(a.Value); v.known {
			r.vars[a.Name.Value] = v.text
		}
	}
}
