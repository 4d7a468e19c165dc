package effects

import (
	"regexp"
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
	"mkfifo": "write", "mknod": "write", "fallocate": "write",
	"column": "read", "paste": "read", "fold": "read", "comm": "read", "join": "read", "expand": "read", "unexpand": "read", "fmt": "read", "pr": "read", "shuf": "read",
	"iconv": "read", "basenc": "read", "ul": "read", "ptx": "read", "tsort": "read", "sum": "read", "cksum": "read", "b2sum": "read", "sha512sum": "read", "file": "read", "test": "read", "[": "read",
	"gzip": "", "gunzip": "", "xz": "", "unxz": "", "bzip2": "", "bunzip2": "", "zstd": "", "split": "", "csplit": "", "date": "read",
	"rm": "delete", "rmdir": "delete", "unlink": "delete", "shred": "delete", "wipe": "delete",
}

// program notes the effects of well-known programs on files, hosts and data.
func (r *shellReader) program(name string, args []field) {
	if slices.ContainsFunc(args, func(f field) bool {
		return startsProgram(name, f) || mayBeOption(f) && (programLetters[name] != "" || starting[name])
	}) {
		r.anyCommand()
	}
	if slices.ContainsFunc(args, func(f field) bool {
		return strings.HasPrefix(f.text, "--files") || strings.HasPrefix(f.text, "-files0")
	}) {
		r.add(toolroom.EffectFile, "", "") // which files is said by a file
	}
	if name == "test" || name == "[" {
		r.tested(args)
	}
	if mode, ok := operandModes[name]; ok {
		if writesResult(name, args) {
			mode = ""
		}
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
	case "find":
		r.find(args)
	case "fd":
		if slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "-") && strings.ContainsAny(f.text, "xX") }) {
			r.anyCommand()
		}
		r.files(args)
		r.find(args)
	case "tar", "unzip", "zip", "cpio", "7z":
		r.archive(name, args)
	case "patch", "setfacl":
		r.files(args)
		r.add(toolroom.EffectFile, "", "") // which files is in what they read
	case "export", "declare", "typeset", "local", "readonly", "unset", "read", "printf", "getopts", "let", "wait":
		r.assigned(name, args)
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
	case "curl", "wget":
		r.web(name, args)
	case "ssh":
		r.remote(args)
	case "scp":
		r.copiedOver(args)
	case "nc", "ncat", "netcat":
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

// tested notes the subscripts that test evaluates.
func (r *shellReader) tested(args []field) {
	for i, f := range args[:max(0, len(args)-1)] {
		if (f.text == "-v" || f.text == "-R") && !isName(args[i+1]) {
			r.anyCommand()
		}
	}
}

// mayBeOption reports whether the shell may make an option of a word.
func mayBeOption(f field) bool {
	return !f.known || f.glob && strings.IndexByte("*?[", f.text[0]) >= 0
}

// writesResult reports whether a program that reads its files may write one too.
func writesResult(name string, args []field) bool {
	switch name {
	case "sort", "tree", "iconv", "shuf", "less", "file":
		return slices.ContainsFunc(args, func(f field) bool {
			short := len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-'
			return !f.known || short && strings.ContainsAny(f.text, "oOC") || strings.HasPrefix(f.text, "--o") || strings.HasPrefix(f.text, "--l") || strings.HasPrefix(f.text, "--O")
		})
	case "uniq", "xxd", "ptx":
		return len(plain(args)) > 1 || slices.ContainsFunc(args, mayBeOption)
	}
	return false
}

// archive reads a program whose files are in the archive. tar takes its options without a
// dash too, and the name of an archive for that of a machine.
func (r *shellReader) archive(name string, args []field) {
	r.add(toolroom.EffectFile, "", "")
	if name != "tar" || len(args) == 0 {
		return
	}
	if f := args[0]; f.known && !strings.HasPrefix(f.text, "-") && strings.ContainsAny(f.text, programLetters[name]) {
		r.anyCommand()
	}
	if slices.ContainsFunc(args, func(f field) bool { return !f.known || strings.Contains(f.text, ":") }) {
		r.add(toolroom.EffectHost, "connect", "")
	}
}

// assigned reads a builtin that sets variables, in a form in which the parser does not see it.
func (r *shellReader) assigned(name string, args []field) {
	switch {
	case name == "let":
		r.anyCommand()
		return
	case name == "printf":
		if len(args) == 0 || !strings.HasPrefix(args[0].text, "-v") {
			return
		}
		if args[0].text == "-v" {
			args = args[1:]
		} else {
			args = []field{{text: args[0].text[2:], known: true}}
		}
		args = args[:min(1, len(args))]
	case name == "wait":
		if !slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "-p") }) {
			return
		}
	case name == "getopts":
		args = args[min(1, len(args)):][:min(1, max(0, len(args)-1))]
	}
	for i := 0; i < len(args); i++ {
		f := args[i]
		if f.known && len(f.text) > 1 && f.text[0] == '-' {
			if name == "read" && strings.ContainsAny(f.text[len(f.text)-1:], "dinNptu") {
				i++
			}
			if name != "read" && name != "unset" && strings.ContainsAny(f.text, "in") {
				r.anyCommand() // numbers are evaluated, and a reference is another variable
			}
			continue
		}
		if variable, _, _ := strings.Cut(f.text, "="); !f.known || !isAssignment(variable+"=") || steers(variable) {
			r.anyCommand()
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
		for _, f := range args {
			switch {
			case strings.HasPrefix(f.text, "--del"):
				r.file("delete", to)
			case strings.HasPrefix(f.text, "--rem"):
				for _, f := range from {
					r.file("delete", f)
				}
			case strings.HasPrefix(f.text, "--da"):
				r.anyCommand()
			}
		}
	}
	if slices.ContainsFunc(args, func(f field) bool { return !f.known }) {
		r.add(toolroom.EffectFile, "", "") // it may be several words
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

// sed reads a script whose commands can run programs and use other files.
func (r *shellReader) sed(args []field) {
	mode, given := "read", false // given: the script is in an option
	for i, f := range args {
		flag, value, _ := strings.Cut(f.text, "=")
		short := len(flag) > 1 && flag[0] == '-' && flag[1] != '-'
		switch {
		case !f.known, short && strings.Contains(flag, "f"), len(flag) > 2 && strings.HasPrefix("--file", flag):
			r.anyCommand()
			mode = ""
		case short && strings.Contains(flag, "e"):
			given = true
			if value = f.text[strings.IndexByte(f.text, 'e')+1:]; value == "" && i+1 < len(args) {
				value = args[i+1].text
			}
			r.sedScript(value)
		case len(flag) > 2 && strings.HasPrefix("--expression", flag):
			given = true
			if value == "" && i+1 < len(args) {
				value = args[i+1].text
			}
			r.sedScript(value)
		}
		if mode == "read" && (short && strings.Contains(flag, "i") || len(flag) > 2 && strings.HasPrefix("--in-place", flag)) {
			mode = "write"
			if strings.Contains(f.text, "/") {
				r.add(toolroom.EffectFile, "write", "") // a copy goes elsewhere
			}
		}
	}
	files := plain(args)
	if !given && len(files) > 0 {
		r.sedScript(files[0].text)
		files = files[1:]
	}
	for _, f := range files {
		r.file(mode, f)
	}
}

// sedSafe are the scripts that only change text: addresses, and commands without arguments,
// substitutions and characters.
var sedSafe = regexp.MustCompile(`^(?:[ \t\n;{}!]|[0-9]+|\$|,[ ]*[+~]?|~|/(?:[^/\\\n]|\\.)*/[IM]*|[pdqQ=nNgGhHxDPlz]+(?:[ \t;}\n]|$)|` +
	`s/(?:[^/\\\n]|\\.)*/(?:[^/\\]|\\(?s:.))*/[gpiIMm0-9]*(?:[ \t;}\n]|$)|s\|(?:[^|\\\n]|\\.)*\|(?:[^|\\]|\\(?s:.))*\|[gpiIMm0-9]*(?:[ \t;}\n]|$)|` +
	`s#(?:[^#\\\n]|\\.)*#(?:[^#\\]|\\(?s:.))*#[gpiIMm0-9]*(?:[ \t;}\n]|$)|s,(?:[^,\\\n]|\\.)*,(?:[^,\\]|\\(?s:.))*,[gpiIMm0-9]*(?:[ \t;}\n]|$))*$`)

// sedScript notes that a script may run a program, write and read, unless it only changes text.
func (r *shellReader) sedScript(script string) {
	if !sedSafe.MatchString(script) {
		r.anyCommand()
		r.add(toolroom.EffectFile, "", "")
	}
}

// awk reads a program that can start others and write files.
func (r *shellReader) awk(args []field) {
	words := plain(args)
	fromFile := slices.ContainsFunc(args, func(f field) bool {
		option := len(f.text) > 1 && f.text[0] == '-'
		return mayBeOption(f) || option && !strings.HasPrefix(f.text, "-F") && !strings.HasPrefix(f.text, "-v")
	})
	if fromFile || len(words) == 0 || slices.ContainsFunc(words, func(f field) bool {
		return strings.ContainsAny(f.text, "|@>") || strings.Contains(f.text, "system") || strings.Contains(f.text, "getline") || strings.Contains(f.text, "ARG") || strings.Contains(f.text, "TAB")
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
	for len(args) > 0 && (slices.Contains([]string{"-H", "-L", "-P", "-D", "--"}, args[0].text) || strings.HasPrefix(args[0].text, "-O")) {
		args = args[min(len(args), 1+strings.Count(args[0].text, "D")):]
	}
	isTest := func(f field) bool { return f.known && strings.HasPrefix(f.text, "-") }
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
		if mayBeOption(f) {
			r.anyCommand() // it may be -exec
		}
	}
	for _, f := range tests {
		if shellLooksLikePath(f.text) && !strings.HasPrefix(f.text, "-") {
			r.file(mode, f) // BSD takes folders behind options
		}
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
	lost := r.lost
	r.lost = true // -execdir, and what it finds
	r.command(command, input{})
	r.lost = lost
	return end
}

// databaseOptions are the options of database clients that say where and how to connect, or
// what the result looks like.
var databaseOptions = map[string]string{
	"psql": "hpUdtAqXxbaenWw1FRPv", "mysql": "hPuDpBNstrvHXE", "mariadb": "hPuDpBNstrvHXE",
}

// database reads the statements given to database clients. Their own commands, in a
// statement, a file or the standard input, run programs and use files.
func (r *shellReader) database(name string, args []field) {
	told, lite := false, databaseOptions[name] == ""
	statement := func(f field) {
		told = true
		found := ReadSQL(f.text)
		if !f.known {
			found = []toolroom.Effect{unknown}
		}
		for _, e := range found {
			r.add(e.Kind, e.Mode, e.Target)
		}
		if slices.Contains(found, unknown) || strings.Contains(f.text, `\`) || lite && sqliteUses.MatchString(f.text) {
			r.anyCommand() // .shell of sqlite3, \! of psql, system of mysql
		}
	}
	var files []field
	for i := 0; i < len(args); i++ {
		f := args[i]
		flag, value, joined := strings.Cut(f.text, "=")
		next := func() field {
			if i++; i < len(args) {
				return args[i]
			}
			return field{}
		}
		switch short := strings.TrimLeft(flag, "-"); {
		case !f.known:
			r.add(toolroom.EffectSQL, "", "")
			r.anyCommand()
		case !strings.HasPrefix(flag, "-") || flag == "-":
			files = append(files, f)
		case flag == "-c" || flag == "-e" && name != "psql" || flag == "--command" || flag == "--execute" || lite && short == "cmd":
			if joined {
				statement(field{text: value, known: true})
			} else {
				statement(next())
			}
		case !lite && len(flag) > 2 && (strings.HasPrefix(flag, "-c") && name == "psql" || strings.HasPrefix(flag, "-e") && name != "psql"):
			statement(field{text: f.text[2:], known: true})
		case lite && slices.Contains([]string{"json", "csv", "column", "header", "noheader", "line", "list", "readonly", "bail", "batch", "box", "markdown", "table", "html", "tabs"}, short):
		case !lite && flag[1] != '-' && strings.IndexByte(databaseOptions[name], flag[1]) >= 0:
			if len(flag) == 2 && strings.IndexByte("hpUdPFRvuD", flag[1]) >= 0 && !(flag == "-p" && name != "psql") {
				next()
			}
		default:
			r.anyCommand() // -init, -f and the like name what is run
			r.add(toolroom.EffectFile, "", "")
		}
	}
	switch {
	case !lite:
		r.add(toolroom.EffectHost, "connect", "")
	case name == "duckdb":
		r.add(toolroom.EffectFile, "", "") // SQL names files and addresses
		r.add(toolroom.EffectHost, "", "")
	}
	for i, f := range files {
		if i == 0 && lite {
			r.file("write", f)
		} else if lite {
			statement(f)
		}
	}
	if !told {
		r.add(toolroom.EffectSQL, "", "") // from a file or standard input
		r.anyCommand()
	}
}

// sqliteUses are functions of the sqlite3 program that start another or use files.
var sqliteUses = regexp.MustCompile(`(?i)\b(edit|readfile|writefile|load_extension|fsdir|zipfile|sqlar_|attach|vacuum|copy|install|load)`)
