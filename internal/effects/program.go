package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// operandModes says what a program does to the files that it is given.
var operandModes = map[string]string{
	"cat": "read", "head": "read", "tail": "read", "less": "read", "more": "read", "wc": "read", "sort": "read", "uniq": "read", "od": "read",
	"xxd": "read", "hexdump": "read", "strings": "read", "base64": "read", "base32": "read", "md5sum": "read", "sha1sum": "read", "sha256sum": "read",
	"ls": "read", "stat": "read", "nl": "read", "tac": "read", "rev": "read", "cut": "read", "diff": "read", "cmp": "read", "bat": "read", "jq": "read",
	"grep": "read", "egrep": "read", "fgrep": "read", "rg": "read", "readlink": "read", "realpath": "read", "du": "read", "tree": "read", "zcat": "read",
	"touch": "write", "tee": "write", "mkdir": "write", "truncate": "write", "chmod": "write", "chown": "write", "chgrp": "write", "chattr": "write",
	"setfacl": "write", "mkfifo": "write", "mknod": "write", "patch": "write", "mkfs": "write", "fallocate": "write",
	"column": "read", "paste": "read", "fold": "read", "comm": "read", "join": "read", "expand": "read", "unexpand": "read", "fmt": "read", "pr": "read", "shuf": "read",
	"iconv": "read", "basenc": "read", "ul": "read", "ptx": "read", "tsort": "read", "sum": "read", "cksum": "read", "b2sum": "read", "sha512sum": "read", "file": "read", "test": "read", "[": "read",
	"gzip": "", "gunzip": "", "xz": "", "unxz": "", "bzip2": "", "bunzip2": "", "zstd": "", "split": "", "csplit": "", "date": "read",
	"rm": "delete", "rmdir": "delete", "unlink": "delete", "shred": "delete", "wipe": "delete",
}

// program notes the effects of well-known programs on files, hosts and data.
func (r *shellReader) program(name string, args []field) {
	if slices.ContainsFunc(args, func(f field) bool { return startsProgram(name, f) }) {
		r.anyCommand()
	}
	if mode, ok := operandModes[name]; ok {
		if (name == "less" || name == "more") && slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "+") }) {
			r.anyCommand()
		}
		for _, f := range plain(args) {
			r.file(mode, f)
		}
		return
	}
	switch name {
	case "cd", "pushd":
		r.changeDir(args)
	case "cp", "mv", "ln", "install", "rsync":
		r.copied(name, args)
	case "dd":
		r.dd(args)
	case "sed":
		r.sed(args)
	case "awk", "gawk", "mawk", "nawk":
		r.awk(args)
	case "find", "fd":
		r.find(args)
	case "tar", "unzip", "zip", "cpio", "7z":
		r.add(toolroom.EffectFile, "", "") // which files is in the archive
	case "source", ".":
		for _, f := range args[:min(1, len(args))] {
			r.file("read", f)
		}
		r.anyCommand()
	case "trap":
		for len(args) > 0 && args[0].known && strings.HasPrefix(args[0].text, "-") {
			args = args[1:]
		}
		for _, f := range args[:min(1, len(args))] {
			r.code(f)
		}
	case "alias":
		for _, f := range args {
			_, value, _ := strings.Cut(f.text, "=")
			r.code(field{text: value, known: f.known})
		}
	case "hash", "enable", "bind", "complete", "at", "batch", "crontab":
		if len(args) > 0 {
			r.anyCommand() // they name what is run later
		}
	case "curl", "wget", "http", "https", "xh":
		r.web(name, args)
	case "ssh", "mosh", "autossh":
		r.remote(args)
	case "scp", "sftp":
		r.copiedOver(args)
	case "nc", "ncat", "netcat", "telnet", "ftp", "socat", "openssl":
		r.connected(args)
	case "git":
		r.git(args)
	case "psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb":
		r.database(name, args)
	default:
		switch {
		case quiet[name]:
			r.files(args)
		case !textual[name]:
			r.unknown(args)
		}
	}
}

// plain are the words that are no options.
func plain(args []field) []field {
	var out []field
	ended := false
	for _, f := range args {
		switch {
		case ended || !f.known || f.text == "-" || !strings.HasPrefix(f.text, "-"):
			out = append(out, f)
		case f.text == "--":
			ended = true
		default:
			// --file=x and -ox name a file too, and do no harm as a name.
			if at := strings.IndexAny(f.text, "/~"); at > 0 {
				out = append(out, field{text: f.text[at:], known: true})
			}
		}
	}
	return out
}

// copied reads programs that make their last file from the others.
func (r *shellReader) copied(name string, args []field) {
	files := plain(args)
	if len(files) == 0 {
		return
	}
	from, to := files[:len(files)-1], files[len(files)-1]
	if slices.ContainsFunc(args, func(f field) bool {
		return strings.HasPrefix(f.text, "-t") || strings.HasPrefix(f.text, "--target")
	}) {
		// The folder may be any of them.
		for _, f := range files {
			r.file("write", f)
		}
		from = files
	}
	for _, f := range from {
		r.file("read", f)
		if name == "mv" {
			r.file("delete", f)
		}
	}
	if name == "ln" {
		r.add(toolroom.EffectFile, "", "") // what is used through the link
	}
	if name == "rsync" {
		r.copiedOver(files)
	}
	r.file("write", to)
}

func (r *shellReader) dd(args []field) {
	for _, f := range args {
		key, value, _ := strings.Cut(f.text, "=")
		f.text = value
		switch {
		case !f.known:
			r.add(toolroom.EffectFile, "", "")
		case key == "if":
			r.file("read", f)
		case key == "of":
			r.file("write", f)
		}
	}
}

func (r *shellReader) sed(args []field) {
	mode := "read"
	for _, f := range args {
		if strings.HasPrefix(f.text, "-i") || strings.HasPrefix(f.text, "--in-place") || strings.HasPrefix(f.text, "-") && !strings.HasPrefix(f.text, "--") && strings.Contains(f.text, "i") {
			mode = "write"
		}
	}
	files := plain(args)
	if len(files) > 0 { // the first may be the script, which can write and run too
		if strings.ContainsAny(files[0].text, "ewr") {
			r.add(toolroom.EffectFile, "write", "")
			if strings.Contains(files[0].text, "e") {
				r.sedScript(files[0])
			}
		}
		files = files[1:]
	}
	for _, f := range files {
		r.file(mode, f)
	}
}

func (r *shellReader) sedScript(f field) {
	// The flag e of s, and the command e, run a program.
	if i := strings.LastIndexAny(f.text, "/|,#!@"); i < 0 || strings.Contains(f.text[i:], "e") || strings.HasPrefix(f.text, "e") || strings.Contains(f.text, "1e") {
		r.anyCommand()
	}
}

// awk reads a program that can start others and write files.
func (r *shellReader) awk(args []field) {
	words := plain(args)
	fromFile := slices.ContainsFunc(args, func(f field) bool {
		return !f.known || strings.HasPrefix(f.text, "-f") || strings.HasPrefix(f.text, "-i") || strings.HasPrefix(f.text, "-l") || strings.HasPrefix(f.text, "-e") || strings.HasPrefix(f.text, "--")
	})
	if fromFile || len(words) == 0 || slices.ContainsFunc(words, func(f field) bool {
		return strings.ContainsAny(f.text, "|@>") || strings.Contains(f.text, "system") || strings.Contains(f.text, "getline")
	}) {
		r.anyCommand()
		return
	}
	for _, f := range words[1:] {
		r.file("read", f)
	}
}

// find reads the folders that come first, and the tests that act.
func (r *shellReader) find(args []field) {
	isTest := func(f field) bool {
		return f.known && strings.HasPrefix(f.text, "-") && !slices.Contains([]string{"-H", "-L", "-P"}, f.text)
	}
	start := slices.IndexFunc(args, isTest)
	if start < 0 {
		start = len(args)
	}
	folders, tests := args[:start], args[start:]
	if len(folders) == 0 {
		folders = []field{{text: ".", known: true}}
	}
	mode := "read"
	for i := 0; i < len(tests); i++ {
		switch f := tests[i]; {
		case !f.known:
			r.anyCommand() // it may be -exec
		case f.text == "-delete":
			mode = "delete"
		case slices.Contains([]string{"-fprint", "-fprint0", "-fprintf", "-fls"}, f.text) && i+1 < len(tests):
			r.file("write", tests[i+1])
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}, f.text):
			i += r.foundCommand(tests[i+1:])
		}
	}
	for _, f := range folders {
		r.file(mode, f)
	}
}

// foundCommand reads the command of find -exec and tells its length.
func (r *shellReader) foundCommand(args []field) int {
	end := slices.IndexFunc(args, func(f field) bool { return f.text == ";" || f.text == "+" })
	if end < 0 {
		end = len(args)
	}
	command := slices.Clone(args[:end])
	for i := range command {
		if strings.Contains(command[i].text, "{}") {
			command[i] = field{text: UnknownProgram}
		}
	}
	r.command(command, input{})
	return end
}

// git notes the sub-command without the options before it, so that a rule on
// "git push" meets "git -C x push" as well.
func (r *shellReader) git(args []field) {
	moved := false
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
		case slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix"}, f.text):
			r.files(args[i:min(i+2, len(args))])
			i++
			moved = true
		case strings.HasPrefix(f.text, "-"):
			r.files(args[i : i+1])
			moved = true
		default:
			r.gitCommand(f.text, args[i+1:])
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
	"add": "", "am": "", "apply": "", "archive": "", "blame": "", "branch": "", "cat-file": "", "checkout": "", "cherry-pick": "", "clean": "", "clone": "u", "commit": "",
	"describe": "", "diff": "", "fetch": "", "for-each-ref": "", "grep": "O", "init": "", "log": "", "ls-files": "", "ls-remote": "", "ls-tree": "", "merge": "", "mv": "",
	"pull": "", "push": "", "rebase": "x", "reflog": "", "remote": "", "reset": "", "restore": "", "rev-list": "", "rev-parse": "", "revert": "", "rm": "", "shortlog": "",
	"show": "", "show-ref": "", "stash": "", "status": "", "switch": "", "symbolic-ref": "", "tag": "", "version": "", "whatchanged": "", "worktree": "",
}

// gitCommand reads a command of git. One that is not known may be an alias, and what some
// are told runs programs.
func (r *shellReader) gitCommand(name string, args []field) {
	letters, ok := gitCommands[name]
	if !ok || slices.ContainsFunc(args, func(f field) bool {
		short := f.known && len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-'
		return !f.known || startsProgram("git", f) || short && letters != "" && strings.ContainsAny(f.text, letters) || strings.HasPrefix(f.text, "ext::")
	}) {
		r.anyCommand()
	}
	r.files(args)
}

// database reads the statements given to database clients.
func (r *shellReader) database(name string, args []field) {
	told := false
	statement := func(f field) {
		told = true
		if !f.known {
			r.add(toolroom.EffectSQL, "", "")
			return
		}
		for _, e := range ReadSQL(f.text) {
			r.add(e.Kind, e.Mode, e.Target)
		}
		if strings.HasPrefix(strings.TrimSpace(f.text), ".") || strings.Contains(f.text, `\!`) {
			r.anyCommand() // .shell of sqlite3, \! of psql
		}
	}
	lite := strings.HasPrefix(name, "sqlite") || name == "duckdb"
	for i := 0; i < len(args); i++ {
		flag, value, joined := strings.Cut(args[i].text, "=")
		switch short := strings.TrimLeft(flag, "-"); {
		case !args[i].known:
			r.add(toolroom.EffectSQL, "", "")
		case flag == "-c" || flag == "-e" || flag == "--command" || flag == "--execute" || lite && short == "cmd":
			if !joined && i+1 < len(args) {
				i++
				statement(args[i])
			} else {
				statement(field{text: value, known: true})
			}
		case len(flag) > 2 && (strings.HasPrefix(flag, "-c") || strings.HasPrefix(flag, "-e")):
			statement(field{text: args[i].text[2:], known: true})
		}
	}
	if lite {
		files := plain(args)
		for i, f := range files {
			if i == 0 {
				r.file("write", f)
			} else {
				statement(f)
			}
		}
	}
	if !told {
		r.add(toolroom.EffectSQL, "", "") // from a file or standard input
	}
}
