package effects

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolroom/toolroom"
)

// Bounds of what is read; beyond them all is unknown.
const (
	shellMaxText    = 16 << 10
	shellMaxDepth   = 8
	shellMaxEffects = 300
	shellMaxReads   = 500 // commands and scripts
	maxDirs         = 16
	shellMaxOpen    = 1000 // parentheses and brackets: to parse nested ones takes time
	maxLine         = 4 << 10
	maxWords        = 10_000 // of a program that is started without a shell
)

// UnknownProgram stands in a command line for a word that is not known.
const UnknownProgram = "…"

// ReadShell tells the effects of a command line for sh or bash that starts in dir,
// an absolute path. Paths are absolute; links in them are not resolved, and the
// first ~ of one stands for the home folder.
func ReadShell(text, dir string) []toolroom.Effect {
	r := &shellReader{dirs: []string{dir}}
	r.script(text)
	return r.result()
}

// ReadArgs tells the effects of a program that is started without a shell.
func ReadArgs(argv []string, dir string) []toolroom.Effect { return ReadStarted(argv, "", dir) }

// ReadStarted is [ReadArgs] for a program that reads a text, unless it is empty.
func ReadStarted(argv []string, stdin, dir string) []toolroom.Effect {
	r := &shellReader{dirs: []string{dir}, full: len(argv) > maxWords}
	fields := make([]field, len(argv))
	for i, a := range argv {
		fields[i] = field{text: a, known: true}
	}
	r.command(fields, input{stdin != "", field{text: stdin, known: true}})
	return r.result()
}

// shellReader collects effects. A script within a script shares it.
type shellReader struct {
	effects []toolroom.Effect
	seen    map[toolroom.Effect]bool
	depth   int
	reads   int
	full    bool

	// vars are the variables whose values are known here.
	vars map[string]string
	// dirs are all folders that a command may be started in; lost says that it
	// may be any.
	dirs []string
	lost bool
	// trees are the work trees of git, by folder.
	trees map[string]string
}

func (r *shellReader) result() []toolroom.Effect {
	if !r.full {
		return r.effects
	}
	return []toolroom.Effect{{Kind: toolroom.EffectCommand}, {Kind: toolroom.EffectFile}, {Kind: toolroom.EffectHost}}
}

func (r *shellReader) add(kind toolroom.EffectKind, mode, target string) {
	e := toolroom.Effect{Kind: kind, Mode: mode, Target: target}
	if r.seen[e] {
		return
	}
	if r.seen == nil {
		r.seen = map[toolroom.Effect]bool{}
	}
	if len(r.effects) >= shellMaxEffects {
		r.full = true
		return
	}
	r.seen[e] = true
	r.effects = append(r.effects, e)
}

// more counts what is read. Words that may each begin a command are read again and again,
// so that a short text can take for ever.
func (r *shellReader) more() bool {
	r.reads++
	r.full = r.full || r.reads > shellMaxReads
	return !r.full
}

// anyCommand notes that a command would run which cannot be known.
func (r *shellReader) anyCommand() { r.add(toolroom.EffectCommand, "", "") }

// script reads shell text.
func (r *shellReader) script(text string) {
	if len(text) > shellMaxText || r.depth >= shellMaxDepth || strings.Contains(text, "\x00") || strings.Count(text, "(")+strings.Count(text, "[")+strings.Count(text, "{") > shellMaxOpen || !r.more() {
		r.anyCommand()
		return
	}
	r.reads += len(text) / 256 // to parse it again takes time, too
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		r.anyCommand()
		return
	}
	outer := r.vars
	r.depth++
	r.vars = map[string]string{}
	single := assignedOnce(file)
	// What is defined for later runs in the folder of later, so it is read again.
	for range 2 {
		before, lost := len(r.dirs), r.lost
		for _, stmt := range file.Stmts {
			r.assign(stmt, single)
			syntax.Walk(stmt, r.visit)
		}
		if len(r.dirs) == before && r.lost == lost || !defers(file) {
			break
		}
	}
	r.depth--
	r.vars = outer
}

func (r *shellReader) visit(node syntax.Node) bool {
	r.evaluated(node)
	switch n := node.(type) {
	case *syntax.Stmt:
		in := r.redirects(n.Redirs)
		if call, ok := n.Cmd.(*syntax.CallExpr); ok {
			r.call(call, in)
		}
	case *syntax.Assign:
		if n.Name != nil {
			r.sets(n.Name.Value)
		}
	case *syntax.WordIter:
		r.sets(n.Name.Value)
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			r.sets(strings.Trim(n.N.Value, "{}"))
		}
	case *syntax.DeclClause:
		for _, a := range n.Args {
			if a.Name == nil && a.Naked {
				r.assigned(n.Variant.Value, []field{r.value(a.Value)})
			}
		}
	case *syntax.ForClause, *syntax.WhileClause, *syntax.FuncDecl:
		// A relative cd in here may be done many times, or from elsewhere.
		r.lost = r.lost || changesFolder(n)
	}
	return !r.full
}

// sets notes that a variable gets a value.
func (r *shellReader) sets(name string) {
	if !steers(name) {
		return
	}
	r.anyCommand()
	if name == "HOME" {
		r.add(toolroom.EffectFile, "", "") // paths that begin with ~
	}
	r.lost = r.lost || name == "CDPATH"
}

// defers reports whether a script defines what may run later.
func defers(file *syntax.File) bool {
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl, *syntax.WhileClause, *syntax.ForClause:
			found = true
		case *syntax.CallExpr:
			found = found || len(n.Args) > 0 && !isPlainCommand(n.Args[0].Lit(), "trap", "alias", "eval")
		}
		return !found
	})
	return found
}

// isPlainCommand reports whether a word is a program, by its plain name, and none of these.
func isPlainCommand(word string, but ...string) bool {
	return word != "" && !strings.ContainsAny(word, "\\*?[{~") && !slices.Contains(but, word) && !slices.Contains([]string{"command", "builtin"}, word)
}

// steering are variables that decide which program or library is loaded.
var steering = []string{
	"PATH", "HOME", "SHELL", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "CDPATH",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "PAGER", "EDITOR", "VISUAL", "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT", "NODE_OPTIONS", "RUBYOPT",
}

func changesFolder(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			found = found || !isPlainCommand(call.Args[0].Lit(), "cd", "pushd", "eval", "trap", "source", ".")
		}
		return !found
	})
	return found
}

// call reads a simple command.
func (r *shellReader) call(call *syntax.CallExpr, in input) {
	if len(call.Args) == 0 {
		return
	}
	r.command(r.fields(call.Args), in)
}

// command reads a program with its arguments.
func (r *shellReader) command(fields []field, in input) {
	if len(fields) == 0 {
		return
	}
	program := fields[0]
	if !program.known || program.glob && program.text != "[" {
		r.anyCommand()
		return
	}
	if program.text == "" || !r.more() {
		return
	}
	r.add(toolroom.EffectCommand, "", line(fields))
	if r.depth >= shellMaxDepth {
		r.anyCommand()
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	name, args := path.Base(program.text), fields[1:]
	switch {
	case elsewhere(program.text):
		r.unknown(args)
	case shells[name]:
		r.shell(name, args, in)
	case opaque[name]:
		r.opaque(args, in)
	case wraps(name):
		r.wrapped(name, args, in)
	case interprets(name):
		r.interpreter(name, args, in)
	default:
		r.program(name, args)
	}
}

// line writes a command in one form: words with one space between, quoted only
// where they have to be.
func line(fields []field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case b.Len() > maxLine:
			b.WriteString(UnknownProgram)
			return b.String()
		case !f.known:
			b.WriteString(UnknownProgram)
		case f.text == "" || strings.ContainsAny(f.text, " \t\n'\"\\"):
			b.WriteString("'" + strings.ReplaceAll(f.text, "'", `'\''`) + "'")
		default:
			b.WriteString(f.text)
		}
	}
	return b.String()
}

// file notes an effect on the file that a word names.
func (r *shellReader) file(mode string, f field) {
	switch {
	case !f.known || f.glob:
		r.add(toolroom.EffectFile, mode, "")
	case slices.Contains([]string{"-", "", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/urandom"}, f.text):
	case strings.HasPrefix(f.text, "~") && f.text != "~" && !strings.HasPrefix(f.text, "~/"):
		r.add(toolroom.EffectFile, mode, "") // the home folder of another user
	case strings.HasPrefix(f.text, "/") || strings.HasPrefix(f.text, "~"):
		r.add(toolroom.EffectFile, mode, f.text)
	case r.lost:
		r.add(toolroom.EffectFile, mode, "")
	default:
		for _, dir := range r.dirs {
			r.add(toolroom.EffectFile, mode, dir+"/"+f.text)
		}
	}
}

// changeDir adds a folder that later commands may be in: whether the cd is done
// is not known.
func (r *shellReader) changeDir(args []field) {
	args = slices.DeleteFunc(slices.Clone(args), func(f field) bool { return f.known && strings.HasPrefix(f.text, "-") && f.text != "-" })
	to := field{text: "~", known: true}
	if len(args) > 0 {
		to = args[0]
	}
	switch {
	case !to.known || to.glob || to.text == "-" || strings.HasPrefix(to.text, "~") && to.text != "~" && !strings.HasPrefix(to.text, "~/") || len(args) > 1 || 2*len(r.dirs) > maxDirs:
		r.lost = true
	case strings.HasPrefix(to.text, "/") || strings.HasPrefix(to.text, "~"):
		r.dirs = append(r.dirs, to.text)
	default:
		for _, dir := range slices.Clone(r.dirs) {
			r.dirs = append(r.dirs, dir+"/"+to.text)
		}
	}
}
