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

// git notes the sub-command without the options before it, so that a rule on
// "git push" meets "git -C x push" as well.
func (r *shellReader) git(args []field) {
	moved, whole := false, false
	var tree *field
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.anyCommand()
			return
		case f.text == "-c" || strings.HasPrefix(f.text, "-c") || strings.HasPrefix(f.text, "--config-env") || strings.HasPrefix(f.text, "--exec-path"):
			r.anyCommand() // aliases, pagers and hooks are commands
			if f.text == "-c" || f.text == "--config-env" {
				i++
			}
			moved = true
		case f.text == "-C" && i+1 < len(args):
			i++
			defer r.inFolder(args[i])()
			moved = true
		case slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix"}, f.text):
			r.files(args[i:min(i+2, len(args))])
			if i++; f.text == "--work-tree" && i < len(args) {
				tree = &args[i]
			}
			moved = true
		case strings.HasPrefix(f.text, "-"):
			if text, ok := strings.CutPrefix(f.text, "--work-tree="); ok {
				tree = &field{text: text, known: true}
			}
			whole = whole || f.text == "--icase-pathspecs"
			r.files(args[i : i+1])
			moved = true
		default:
			if tree != nil { // wherever -C stands; and what is named may be relative to either
				defer r.inFolder(*tree)()
				whole = true
			}
			r.gitCommand(f.text, args[i+1:], whole)
			if moved {
				r.add(toolroom.EffectCommand, "", line(append([]field{{text: "git", known: true}}, args[i:]...)))
			}
			return
		}
	}
}

// gitCommands are the commands of git that start nothing but git, with the short options
// that do.
var gitCommands = map[string]string{
	"add": "", "am": "", "apply": "", "archive": "", "blame": "", "branch": "", "cat-file": "", "checkout": "", "cherry-pick": "", "clean": "", "clone": "uc", "commit": "",
	"describe": "", "diff": "", "fetch": "", "for-each-ref": "", "grep": "O", "init": "", "log": "", "ls-files": "", "ls-remote": "", "ls-tree": "", "merge": "", "mv": "",
	"pull": "", "push": "", "rebase": "x", "reflog": "", "remote": "", "reset": "", "restore": "", "rev-list": "", "rev-parse": "", "revert": "", "rm": "", "shortlog": "",
	"show": "", "show-ref": "", "stash": "", "status": "", "switch": "", "symbolic-ref": "", "tag": "", "version": "", "whatchanged": "", "worktree": "",
}

// gitCommand reads a command of git. One that is not known may be an alias, and what some
// are told runs programs. Whole means that it may use other files than it names.
func (r *shellReader) gitCommand(name string, args []field, whole bool) {
	letters, ok := gitCommands[name]
	if !ok || slices.ContainsFunc(args, func(f field) bool {
		short := f.known && len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-'
		return !f.known || startsProgram("git", f) || short && letters != "" && strings.ContainsAny(f.text, letters) || strings.HasPrefix(f.text, "ext::")
	}) {
		r.anyCommand()
	}
	r.files(args)
	r.gitHosts(name, args)
	r.gitFiles(name, args, whole)
}

// gitHosts notes the hosts that a command of git reaches. A remote has its address in the
// config of the repository.
func (r *shellReader) gitHosts(name string, args []field) {
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

// gitFiles notes what a command of git does with the files of its work tree. Whole means that
// it may use other files than it names.
func (r *shellReader) gitFiles(name string, args []field, whole bool) {
	words, options := plain(args), args
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
		r.add(toolroom.EffectFile, "write", "") // to a file, which may be any word
	}
	switch name {
	case "add", "blame":
		r.gitPaths(words, whole || given("--") || letter("U"), "read") // words may be values of options
	case "mv":
		r.gitPaths(words, whole, "read", "write", "delete")
	case "rm":
		if !given("--cached") || given("--no-c", "--pathspec") {
			r.gitPaths(words, whole || given("--pathspec"), "delete")
		}
	case "archive", "tag":
		if given("--add", "--fi") || name == "tag" && letter("F") {
			r.gitPaths(nil, true, "read")
		}
	case "commit", "diff", "grep":
		r.gitPaths(nil, true, "read")
	case "clean":
		r.gitPaths(nil, true, "delete")
	case "reset":
		if given("--h", "--m", "--k") {
			r.gitPaths(nil, true, "write", "delete")
		}
	case "checkout", "restore", "stash":
		r.gitPaths(nil, true, "write")
		begins := name == "checkout" && len(args) == 2 && args[0].text == "-b" // a branch, at the same commit
		shows := name == "stash" && len(args) > 0 && (args[0].text == "list" || args[0].text == "show")
		if !begins && !shows {
			r.gitPaths(nil, true, "delete")
		}
	case "am", "apply", "cherry-pick", "merge", "pull", "rebase", "revert", "switch", "worktree":
		r.gitPaths(nil, true, "write")
		switch {
		case name == "worktree":
			if given("remove", "move") {
				r.add(toolroom.EffectFile, "delete", "") // a work tree by its name
			}
		case given("--ab", "--sk") || name == "switch" && (letter("f") || given("--f", "--d")):
			r.gitPaths(nil, true, "delete") // what is not committed
		}
	case "clone", "init":
		r.file("write", field{text: ".", known: true})
		for _, f := range words {
			r.file("write", f)
		}
	}
}

// gitPaths notes that a command uses the files that it names, or the whole work tree.
func (r *shellReader) gitPaths(named []field, whole bool, modes ...string) {
	whole = whole || len(named) == 0 || slices.ContainsFunc(named, func(f field) bool {
		return !f.known || strings.HasPrefix(f.text, ":") || strings.ContainsAny(f.text, `*?[\`) // patterns of git
	})
	for _, mode := range modes {
		switch {
		case !whole:
			for _, f := range named {
				r.file(mode, f)
			}
		case r.lost:
			r.add(toolroom.EffectFile, mode, "")
		default:
			for _, dir := range r.dirs {
				r.add(toolroom.EffectFile, mode, r.workTree(dir))
			}
		}
	}
}

// workTree returns the folder that commands of git in dir may use. It looks at each folder
// once.
func (r *shellReader) workTree(dir string) string {
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
// repository, or dir if there is none. Git passes over a folder whose .git is none.
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

// inFolder reads on as if the command began in a folder, until back is called.
func (r *shellReader) inFolder(f field) (back func()) {
	dirs, lost := r.dirs, r.lost
	switch {
	case !f.known || f.glob || strings.HasPrefix(f.text, "~") && f.text != "~" && !strings.HasPrefix(f.text, "~/"):
		r.lost = true
	case strings.HasPrefix(f.text, "/") || f.text == "~" || strings.HasPrefix(f.text, "~/"):
		r.dirs, r.lost = []string{f.text}, false
	default:
		r.dirs = nil
		for _, dir := range dirs {
			r.dirs = append(r.dirs, dir+"/"+f.text)
		}
	}
	return func() { r.dirs, r.lost = dirs, lost }
}
