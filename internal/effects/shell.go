package effects

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolroom/toolroom"
)

// Limits of what is read. A command line that exceeds them is unknown.
const (
	shellMaxText    = 16 << 10
	shellMaxDepth   = 8
	shellMaxEffects = 300
	shellMaxReads   = 500 // commands and scripts
	maxDirs         = 16
	shellMaxOpen    = 1000 // parentheses and brackets: parsing nested ones is slow
	maxLine         = 4 << 10
	maxWords        = 10_000 // of a program started without a shell
)

// UnknownProgram stands for an unknown word in a command line.
const UnknownProgram = "…"

// ReadShell returns the effects of a command line for sh or bash that starts in dir, an
// absolute path. The paths in the effects are absolute or begin with ~, the home folder.
// Links in them are not resolved.
func ReadShell(text, dir string) []toolroom.Effect {
	r := &shellReader{dirs: []string{dir}}
	r.readScript(text)
	return r.result()
}

// ReadArgs returns the effects of a program that is started in dir without a shell.
func ReadArgs(argv []string, dir string) []toolroom.Effect { return ReadStarted(argv, "", dir) }

// ReadStarted is [ReadArgs] for a program with a known standard input. If stdin is empty, it
// is unknown.
func ReadStarted(argv []string, stdin, dir string) []toolroom.Effect {
	r := &shellReader{dirs: []string{dir}, full: len(argv) > maxWords}
	fields := make([]field, len(argv))
	for i, a := range argv {
		fields[i] = field{text: a, known: true}
	}
	r.readCommand(fields, input{stdin != "", field{text: stdin, known: true}})
	return r.result()
}

// shellReader collects the effects of a script and of the scripts within it.
type shellReader struct {
	effects []toolroom.Effect
	seen    map[toolroom.Effect]bool
	depth   int
	reads   int
	full    bool

	// vars holds the variables whose values are known.
	vars map[string]string
	// dirs are the folders in which the next command may start. If anyDir is set, it may
	// start in any folder.
	dirs   []string
	anyDir bool
	// trees caches the git work tree of each folder.
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

// countRead counts a command or script that is read, and reports whether the limit allows it.
// Words that may each begin a command are read again and again, so a short text could take
// extremely long.
func (r *shellReader) countRead() bool {
	r.reads++
	r.full = r.full || r.reads > shellMaxReads
	return !r.full
}

// addAnyCommand adds an unknown command.
func (r *shellReader) addAnyCommand() { r.add(toolroom.EffectCommand, "", "") }

// readScript reads shell text.
func (r *shellReader) readScript(text string) {
	if len(text) > shellMaxText || r.depth >= shellMaxDepth || strings.Contains(text, "\x00") || strings.Count(text, "(")+strings.Count(text, "[")+strings.Count(text, "{") > shellMaxOpen || !r.countRead() {
		r.addAnyCommand()
		return
	}
	r.reads += len(text) / 256 // parsing it takes time, too
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		r.addAnyCommand()
		return
	}
	outer := r.vars
	r.depth++
	r.vars = map[string]string{}
	single := assignedOnce(file)
	// Code that is defined here may run later, in another folder, so read it again.
	for range 2 {
		before, anyDir := len(r.dirs), r.anyDir
		for _, stmt := range file.Stmts {
			r.recordAssignments(stmt, single)
			syntax.Walk(stmt, r.visit)
		}
		if len(r.dirs) == before && r.anyDir == anyDir || !hasDeferredCode(file) {
			break
		}
	}
	r.depth--
	r.vars = outer
}

func (r *shellReader) visit(node syntax.Node) bool {
	r.noteEvaluation(node)
	switch n := node.(type) {
	case *syntax.Stmt:
		in := r.readRedirects(n.Redirs)
		if call, ok := n.Cmd.(*syntax.CallExpr); ok {
			r.readCall(call, in)
		}
	case *syntax.Assign:
		if n.Name != nil {
			r.noteVariable(n.Name.Value)
		}
	case *syntax.WordIter:
		r.noteVariable(n.Name.Value)
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			r.noteVariable(strings.Trim(n.N.Value, "{}"))
		}
	case *syntax.DeclClause:
		for _, a := range n.Args {
			if a.Name == nil && a.Naked {
				r.readAssignment(n.Variant.Value, []field{r.expandUnsplit(a.Value)})
			}
		}
	case *syntax.ForClause, *syntax.WhileClause, *syntax.FuncDecl:
		// A relative cd in here may run many times, or in another folder.
		r.anyDir = r.anyDir || changesFolder(n)
	}
	return !r.full
}

// noteVariable adds the effects of setting a variable.
func (r *shellReader) noteVariable(name string) {
	if !controlsExecution(name) {
		return
	}
	r.addAnyCommand()
	if name == "HOME" {
		r.add(toolroom.EffectFile, "", "") // paths that begin with ~
	}
	r.anyDir = r.anyDir || name == "CDPATH"
}

// hasDeferredCode reports whether a script defines code that may run later.
func hasDeferredCode(file *syntax.File) bool {
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

// isPlainCommand reports whether a word is the plain name of a program that is not in but.
func isPlainCommand(word string, but ...string) bool {
	return word != "" && !strings.ContainsAny(word, "\\*?[{~") && !slices.Contains(but, word) && !slices.Contains([]string{"command", "builtin"}, word)
}

// controllingVariables decide which program or library is loaded.
var controllingVariables = []string{
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

// readCall reads a simple command.
func (r *shellReader) readCall(call *syntax.CallExpr, in input) {
	if len(call.Args) == 0 {
		return
	}
	r.readCommand(r.expandWords(call.Args), in)
}

// readCommand reads a program with its arguments.
func (r *shellReader) readCommand(fields []field, in input) {
	if len(fields) == 0 {
		return
	}
	program := fields[0]
	if !program.known || program.glob && program.text != "[" {
		r.addAnyCommand()
		return
	}
	if program.text == "" || !r.countRead() {
		return
	}
	r.add(toolroom.EffectCommand, "", formatCommand(fields))
	if r.depth >= shellMaxDepth {
		r.addAnyCommand()
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	name, args := path.Base(program.text), fields[1:]
	switch {
	case outsideSystemFolders(program.text):
		r.addUnknownProgram(args)
	case shells[name]:
		r.readShellProgram(name, args, in)
	case opaqueWrappers[name]:
		r.readOpaque(args, in)
	case isWrapper(name):
		r.readWrapped(name, args, in)
	case isInterpreter(name):
		r.readInterpreter(name, args, in)
	default:
		r.readProgram(name, args)
	}
}

// formatCommand formats a command for rules: words separated by one space and quoted only if
// they have to be.
func formatCommand(fields []field) string {
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

// addFile adds an effect on the file that a word names.
func (r *shellReader) addFile(mode string, f field) {
	switch {
	case !f.known || f.glob:
		r.add(toolroom.EffectFile, mode, "")
	case slices.Contains([]string{"-", "", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/urandom"}, f.text):
	case strings.HasPrefix(f.text, "~") && f.text != "~" && !strings.HasPrefix(f.text, "~/"):
		r.add(toolroom.EffectFile, mode, "") // the home folder of another user
	case strings.HasPrefix(f.text, "/") || strings.HasPrefix(f.text, "~"):
		r.add(toolroom.EffectFile, mode, f.text)
	case r.anyDir:
		r.add(toolroom.EffectFile, mode, "")
	default:
		for _, dir := range r.dirs {
			r.add(toolroom.EffectFile, mode, dir+"/"+f.text)
		}
	}
}

// changeDir adds the folder of a cd to those in which later commands may start: whether the cd
// runs and succeeds is unknown.
func (r *shellReader) changeDir(args []field) {
	args = slices.DeleteFunc(slices.Clone(args), func(f field) bool { return f.known && strings.HasPrefix(f.text, "-") && f.text != "-" })
	to := field{text: "~", known: true}
	if len(args) > 0 {
		to = args[0]
	}
	switch {
	case !to.known || to.glob || to.text == "-" || strings.HasPrefix(to.text, "~") && to.text != "~" && !strings.HasPrefix(to.text, "~/") || len(args) > 1 || 2*len(r.dirs) > maxDirs:
		r.anyDir = true
	case strings.HasPrefix(to.text, "/") || strings.HasPrefix(to.text, "~"):
		r.dirs = append(r.dirs, to.text)
	default:
		for _, dir := range slices.Clone(r.dirs) {
			r.dirs = append(r.dirs, dir+"/"+to.text)
		}
	}
}
