package effects

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// readGit reads a git command. It also adds the command without the options before the
// subcommand, so that a rule on "git push" matches "git -C x push", too.
func (r *shellReader) readGit(args []field) {
	moved, whole := false, false
	var tree *field
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.addAnyCommand()
			return
		case f.text == "-c" || strings.HasPrefix(f.text, "-c") || strings.HasPrefix(f.text, "--config-env") || strings.HasPrefix(f.text, "--exec-path"):
			r.addAnyCommand() // aliases, pagers and hooks are commands
			if f.text == "-c" || f.text == "--config-env" {
				i++
			}
			moved = true
		case f.text == "-C" && i+1 < len(args):
			i++
			defer r.enterFolder(args[i])()
			moved = true
		case slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix"}, f.text):
			r.addPaths(args[i:min(i+2, len(args))])
			if i++; f.text == "--work-tree" && i < len(args) {
				tree = &args[i]
			}
			moved = true
		case strings.HasPrefix(f.text, "-"):
			if text, ok := strings.CutPrefix(f.text, "--work-tree="); ok {
				tree = &field{text: text, known: true}
			}
			whole = whole || f.text == "--icase-pathspecs"
			r.addPaths(args[i : i+1])
			moved = true
		default:
			if tree != nil { // applies after every -C, and a path may be relative to either folder
				defer r.enterFolder(*tree)()
				whole = true
			}
			r.readGitCommand(f.text, args[i+1:], whole)
			if moved {
				r.add(toolroom.EffectCommand, "", formatCommand(append([]field{{text: "git", known: true}}, args[i:]...)))
			}
			return
		}
	}
}

// gitCommands are the git commands that start no other program, each with its short options
// that do start one.
var gitCommands = map[string]string{
	"add": "", "am": "", "apply": "", "archive": "", "blame": "", "branch": "", "cat-file": "", "checkout": "", "cherry-pick": "", "clean": "", "clone": "uc", "commit": "",
	"describe": "", "diff": "", "fetch": "", "for-each-ref": "", "grep": "O", "init": "", "log": "", "ls-files": "", "ls-remote": "", "ls-tree": "", "merge": "", "mv": "",
	"pull": "", "push": "", "rebase": "x", "reflog": "", "remote": "", "reset": "", "restore": "", "rev-list": "", "rev-parse": "", "revert": "", "rm": "", "shortlog": "",
	"show": "", "show-ref": "", "stash": "", "status": "", "switch": "", "symbolic-ref": "", "tag": "", "version": "", "whatchanged": "", "worktree": "",
}

// readGitCommand reads a git subcommand. An unknown one may be an alias, and some options
// run programs. whole means that it may use files other than those it names.
func (r *shellReader) readGitCommand(name string, args []field, whole bool) {
	letters, ok := gitCommands[name]
	if !ok || slices.ContainsFunc(args, func(f field) bool {
		short := f.known && len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-'
		return !f.known || takesProgram("git", f) || short && letters != "" && strings.ContainsAny(f.text, letters) || strings.HasPrefix(f.text, "ext::")
	}) {
		r.addAnyCommand()
	}
	r.addPaths(args)
	r.addGitHosts(name, args)
	r.addGitFiles(name, args, whole)
}

// addGitHosts adds an unknown host for a git command that reaches a remote: its address is
// in the config of the repository.
func (r *shellReader) addGitHosts(name string, args []field) {
	switch name {
	case "clone", "fetch", "pull", "push", "ls-remote":
	case "remote":
		if !slices.ContainsFunc(args, func(f field) bool {
			return !f.known || slices.Contains([]string{"update", "show", "prune", "set-head", "-f"}, f.text)
		}) {
			return
		}
	case "archive":
		if !slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "--rem") }) {
			return
		}
	default:
		return
	}
	r.add(toolroom.EffectHost, "connect", "")
}

// addGitFiles adds the effects of a git command on the files of its work tree. whole means
// that it may use files other than those it names.
func (r *shellReader) addGitFiles(name string, args []field, whole bool) {
	words, options := operands(args), args
	if end := slices.IndexFunc(args, func(f field) bool { return f.known && f.text == "--" }); end >= 0 {
		options = args[:end]
	}
	given := func(beginnings ...string) bool {
		return slices.ContainsFunc(options, func(f field) bool {
			return !f.known || slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(f.text, b) })
		})
	}
	letter := func(letters string) bool {
		return slices.ContainsFunc(options, func(f field) bool {
			return !f.known || len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-' && strings.ContainsAny(f.text, letters)
		})
	}
	if given("--out") || name == "archive" && letter("o") {
		r.add(toolroom.EffectFile, "write", "") // any of the words may be the file
	}
	switch name {
	case "add", "blame":
		r.addGitPaths(words, whole || given("--") || letter("U"), "read") // words may be values of options
	case "mv":
		r.addGitPaths(words, whole, "read", "write", "delete")
	case "rm":
		if !given("--cached") || given("--no-c", "--pathspec") {
			r.addGitPaths(words, whole || given("--pathspec"), "delete")
		}
	case "archive", "tag":
		if given("--add", "--fi") || name == "tag" && letter("F") {
			r.addGitPaths(nil, true, "read")
		}
	case "commit", "diff", "grep":
		r.addGitPaths(nil, true, "read")
	case "clean":
		r.addGitPaths(nil, true, "delete")
	case "reset":
		if given("--h", "--m", "--k") {
			r.addGitPaths(nil, true, "write", "delete")
		}
	case "checkout", "restore", "stash":
		r.addGitPaths(nil, true, "write")
		newBranch := name == "checkout" && len(args) == 2 && args[0].text == "-b" // at the same commit
		shows := name == "stash" && len(args) > 0 && (args[0].text == "list" || args[0].text == "show")
		if !newBranch && !shows {
			r.addGitPaths(nil, true, "delete")
		}
	case "am", "apply", "cherry-pick", "merge", "pull", "rebase", "revert", "switch", "worktree":
		r.addGitPaths(nil, true, "write")
		switch {
		case name == "worktree":
			if given("remove", "move") {
				r.add(toolroom.EffectFile, "delete", "") // a work tree by its name
			}
		case given("--ab", "--sk") || name == "switch" && (letter("f") || given("--f", "--d")):
			r.addGitPaths(nil, true, "delete") // uncommitted changes
		}
	case "clone", "init":
		r.addFile("write", field{text: ".", known: true})
		for _, f := range words {
			r.addFile("write", f)
		}
	}
}

// addGitPaths adds an effect of each mode on the named files, or on the whole work tree.
func (r *shellReader) addGitPaths(named []field, whole bool, modes ...string) {
	whole = whole || len(named) == 0 || slices.ContainsFunc(named, func(f field) bool {
		return !f.known || strings.HasPrefix(f.text, ":") || strings.ContainsAny(f.text, `*?[\`) // a pathspec
	})
	for _, mode := range modes {
		switch {
		case !whole:
			for _, f := range named {
				r.addFile(mode, f)
			}
		case r.anyDir:
			r.add(toolroom.EffectFile, mode, "")
		default:
			for _, dir := range r.dirs {
				r.add(toolroom.EffectFile, mode, r.findWorkTree(dir))
			}
		}
	}
}

// findWorkTree returns the folder that git commands in dir may use. It looks each folder up
// once.
func (r *shellReader) findWorkTree(dir string) string {
	if tree, ok := r.trees[dir]; ok || len(dir) > maxPath {
		return cmp.Or(tree, dir)
	}
	if r.trees == nil {
		r.trees = map[string]string{}
	}
	full := dir
	if below, ok := strings.CutPrefix(dir, "~"); ok {
		home, _ := os.UserHomeDir()
		full = filepath.ToSlash(home) + below
	}
	r.trees[dir] = dir
	if tree := WorkTree(full); tree != full {
		r.trees[dir] = tree
	}
	return r.trees[dir]
}

// WorkTree returns the outermost folder around dir that may be the work tree of a
// repository, or dir if there is none. It returns the outermost because git skips a folder
// whose .git is not a repository.
func WorkTree(dir string) string {
	if !strings.HasPrefix(dir, "/") {
		return dir
	}
	tree := dir
	real, ok := Resolve(dir)
	for at := real; ok; at = path.Dir(at) {
		if _, err := os.Lstat(at + "/.git"); err == nil {
			tree = at
		}
		ok = at != "/"
	}
	return tree
}

// enterFolder makes f the folder that commands start in until leave is called.
func (r *shellReader) enterFolder(f field) (leave func()) {
	dirs, anyDir := r.dirs, r.anyDir
	switch {
	case !f.known || f.glob || strings.HasPrefix(f.text, "~") && f.text != "~" && !strings.HasPrefix(f.text, "~/"):
		r.anyDir = true
	case strings.HasPrefix(f.text, "/") || f.text == "~" || strings.HasPrefix(f.text, "~/"):
		r.dirs, r.anyDir = []string{f.text}, false
	default:
		r.dirs = nil
		for _, dir := range dirs {
			r.dirs = append(r.dirs, dir+"/"+f.text)
		}
	}
	return func() { r.dirs, r.anyDir = dirs, anyDir }
}
