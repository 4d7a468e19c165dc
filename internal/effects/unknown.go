package effects

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolroom/toolroom"
)

// textual programs and builtins make nothing of their words but text and numbers.
var textual = shellWords(`echo true false : pwd sleep seq expr basename dirname id whoami uname hostname arch nproc uptime
	logname tty sync printenv clear set return exit break continue shift umask ulimit
	jobs fg bg kill type which whereis yes tr cal factor popd dirs disown suspend times caller shopt`)

// quiet programs and builtins start nothing, but may use files that they are told.
var quiet = shellWords(`test [ date ps df free who w groups users locale getent lsof pgrep cut`)

func shellWords(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// systemFolders hold the programs that this package knows by name.
var systemFolders = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}

// elsewhere reports whether a program is a file outside the usual folders: whatever its
// name, it may be any program.
func elsewhere(program string) bool {
	return strings.Contains(program, "/") && !slices.Contains(systemFolders, path.Clean(path.Dir(program)))
}

// unknown notes that a program would run of which nothing is known: it may do anything.
func (r *shellReader) unknown(args []field) {
	r.anyCommand()
	r.files(args)
	r.add(toolroom.EffectFile, "", "")
	r.add(toolroom.EffectHost, "", "")
}

// files notes the words that look like paths, also within options. What is done to such a
// file is not known.
func (r *shellReader) files(args []field) {
	for _, f := range args {
		switch {
		case !f.known:
			r.add(toolroom.EffectFile, "", "")
		case strings.HasPrefix(f.text, "-"):
			if at := strings.IndexAny(f.text, "/~"); at > 0 {
				r.file("", field{text: f.text[at:], known: true})
			}
		case shellLooksLikePath(f.text):
			if _, value, ok := strings.Cut(f.text, "="); ok && shellLooksLikePath(value) {
				r.file("", field{text: value, known: true})
			}
			r.file("", f)
		}
	}
}

func shellLooksLikePath(text string) bool {
	return strings.ContainsAny(text, "/~") && !strings.Contains(text, "://") && !strings.Contains(text, "\n")
}

// programOptions are long options, of any program, whose value is a program or changes
// which one runs. Most programs take the beginning of a name for it.
var programOptions = strings.Fields(`--exec --exec-batch --command --use-compress-program --compress-program --to-command
	--checkpoint-action --info-script --new-volume-script --rsh --rsh-command --rmt-command --rsync-path --filter --pager --shell --editor
	--upload-pack --receive-pack --extcmd --open-files-in-pager --tool --eval --pre --pre-glob --hostname-bin --unzip-command --proxycommand
	--post-checkout --run --preprocessor --use-askpass --gpg --engine --plugin --load --lesskey-src --hook --template
	--strip-program --sh-exec --lua-exec --config --lesskey-content --daemon`)

// programLetters are the short options of known programs that do the same.
var programLetters = map[string]string{
	"tar": "IF", "rsync": "e", "scp": "SoFD", "ssh": "oFI", "zip": "T", "less": "k",
}

// startsProgram reports whether an option of a known program takes a program.
func startsProgram(name string, f field) bool {
	if !f.known || !strings.HasPrefix(f.text, "-") {
		return false
	}
	flag, _, _ := strings.Cut(f.text, "=")
	if strings.HasPrefix(flag, "--") {
		return len(flag) > 3 && slices.ContainsFunc(programOptions, func(o string) bool { return strings.HasPrefix(o, flag) || strings.HasPrefix(flag, o) })
	}
	return strings.ContainsAny(flag, programLetters[name]) && programLetters[name] != ""
}

// starting are programs with long options alone that start others.
var starting = shellWords("sort split install rg bat cpio sed date git wget")

// steers reports whether a variable decides which program, library or configuration is
// loaded.
func steers(name string) bool {
	if slices.Contains(steering, name) {
		return true
	}
	return slices.ContainsFunc([]string{
		"GIT_", "LD_", "DYLD_", "BASH_FUNC_", "BASH_", "PYTHON", "PERL5", "RUBY", "NODE_", "NPM_", "npm_", "XDG_", "CARGO_", "DOCKER_",
		"LESS", "SSH_", "SUDO_", "PG", "PSQL", "MYSQL", "SQLITE", "RSYNC_", "CURL_", "RIPGREP_", "BAT_", "GCONV_", "OPENSSL_", "SSL", "MALLOC_", "GLIBC_", "AWK", "RES_", "TERM", "AUTOSSH_",
	}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	}) || slices.ContainsFunc([]string{
		"_RSH", "FLAGS", "OPTS", "OPTIONS", "PAGER", "EDITOR", "_CONFIG", "_CONFIG_FILE", "SHELL", "RC", "PRELOAD", "_PROXY", "_proxy", "PATH", "OPT", "_CONF", "_HOME",
		"MAGIC", "HOSTALIASES", "TAPE", "MORE",
	}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// evaluated notes shell text that is evaluated although it does not look so: in subscripts,
// arithmetic, and the expansion @P.
func (r *shellReader) evaluated(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.SglQuoted:
		if hidesSubstitution(n.Value) {
			r.anyCommand()
		}
	case *syntax.Lit:
		if hidesSubstitution(n.Value) {
			r.anyCommand()
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
			r.anyCommand()
		}
		if n.Excl {
			r.anyCommand()
		}
		r.subscript(n.Index)
		if n.Slice != nil {
			r.arithmetic(n.Slice.Offset)
			r.arithmetic(n.Slice.Length)
		}
	case *syntax.Assign:
		r.subscript(n.Index)
	case *syntax.ArrayElem:
		r.subscript(n.Index)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			if w, ok := n.X.(*syntax.Word); !ok || !isName(r.value(w)) {
				r.anyCommand()
			}
		}
	case *syntax.ArithmExp:
		r.arithmetic(n.X)
	case *syntax.ArithmCmd:
		r.arithmetic(n.X)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			r.arithmetic(x)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.OrTest:
			if x, ok := n.Y.(*syntax.UnaryTest); !ok || x.Op == syntax.TsNot {
				r.anyCommand() // dash takes [[ for a program, and || for its own
			}
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, x := range []syntax.TestExpr{n.X, n.Y} {
				if w, ok := x.(*syntax.Word); ok && !isNumber(r.value(w)) {
					r.anyCommand()
				}
			}
		}
	}
}

// hidesSubstitution reports whether a text would run a command if it became a subscript.
func hidesSubstitution(text string) bool {
	_, rest, ok := strings.Cut(text, "[")
	return ok && (strings.Contains(rest, "$(") || strings.Contains(rest, "`") || strings.Contains(rest, "$")) || strings.Contains(text, "[$(") || strings.Contains(text, "[`")
}

// isName reports whether a word is the name of a variable, without a subscript.
func isName(f field) bool { return f.known && isAssignment(f.text+"=") }

// subscript notes that an index is evaluated.
func (r *shellReader) subscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return
	}
	r.arithmetic(x)
}

func isNumber(f field) bool {
	return f.known && f.text != "" && strings.Trim(f.text, "0123456789-") == ""
}

// arithmetic notes that the value of a variable is evaluated, unless it is a number.
func (r *shellReader) arithmetic(x syntax.ArithmExpr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(node syntax.Node) bool {
		w, ok := node.(*syntax.Word)
		if !ok {
			return true
		}
		f := r.value(w)
		if f.known && !isNumber(f) { // a name
			f = field{text: r.vars[f.text], known: true}
		}
		if !isNumber(f) {
			r.anyCommand()
		}
		return false
	})
}
