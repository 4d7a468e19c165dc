package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// operandModes is what a program does to the files that are its operands.
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

// readProgram adds the effects of well-known programs on files, hosts and data.
func (r *shellReader) readProgram(name string, args []field) {
	if slices.ContainsFunc(args, func(f field) bool {
		return takesProgram(name, f) || mayBeOption(f) && (programLetters[name] != "" || longOptionLaunchers[name])
	}) {
		r.addAnyCommand()
	}
	if slices.ContainsFunc(args, func(f field) bool {
		return strings.HasPrefix(f.text, "--files") || strings.HasPrefix(f.text, "-files0")
	}) {
		r.add(toolroom.EffectFile, "", "") // a file lists the files
	}
	if name == "test" || name == "[" {
		r.readTest(args)
	}
	if mode, ok := operandModes[name]; ok {
		if mayWriteFile(name, args) {
			mode = ""
		}
		if (name == "less" || name == "more") && slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "+") }) {
			r.addAnyCommand()
		}
		for _, f := range operands(args) {
			r.addFile(mode, f)
		}
		return
	}
	switch name {
	case "cd", "pushd":
		r.changeDir(args)
	case "cp", "mv", "ln", "install", "rsync":
		r.readCopy(name, args)
	case "dd":
		r.readDD(args)
	case "sed":
		r.readSed(args)
	case "awk", "gawk", "mawk", "nawk":
		r.readAwk(args)
	case "find":
		r.readFind(args)
	case "fd":
		if slices.ContainsFunc(args, func(f field) bool { return strings.HasPrefix(f.text, "-") && strings.ContainsAny(f.text, "xX") }) {
			r.addAnyCommand()
		}
		r.addPaths(args)
		r.readFind(args)
	case "tar", "unzip", "zip", "cpio", "7z":
		r.readArchive(name, args)
	case "patch", "setfacl":
		r.addPaths(args)
		r.add(toolroom.EffectFile, "", "") // their input names the files
	case "export", "declare", "typeset", "local", "readonly", "unset", "read", "printf", "getopts", "let", "wait":
		r.readAssignment(name, args)
	case "source", ".":
		for _, f := range args[:min(1, len(args))] {
			r.addFile("read", f)
		}
		r.addAnyCommand()
	case "trap":
		for len(args) > 0 && args[0].known && strings.HasPrefix(args[0].text, "-") {
			args = args[1:]
		}
		for _, f := range args[:min(1, len(args))] {
			r.readCode(f)
		}
	case "alias":
		for _, f := range args {
			_, value, _ := strings.Cut(f.text, "=")
			r.readCode(field{text: value, known: f.known})
		}
	case "hash", "enable", "bind", "complete", "at", "batch", "crontab":
		if len(args) > 0 {
			r.addAnyCommand() // they define commands that run later
		}
	case "curl", "wget":
		r.readWebClient(name, args)
	case "ssh":
		r.readSSH(args)
	case "scp":
		r.readRemoteCopy(args)
	case "nc", "ncat", "netcat":
		r.readNetcat(args)
	case "git":
		r.readGit(args)
	case "psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb":
		r.readDatabaseClient(name, args)
	default:
		switch {
		case filePrograms[name]:
			r.addPaths(args)
		case !textPrograms[name]:
			r.addUnknownProgram(args)
		}
	}
}

// readTest adds the effects of test and [, which evaluate the subscripts of variables.
func (r *shellReader) readTest(args []field) {
	for i, f := range args[:max(0, len(args)-1)] {
		if (f.text == "-v" || f.text == "-R") && !isName(args[i+1]) {
			r.addAnyCommand()
		}
	}
}

// mayBeOption reports whether a word may expand to an option.
func mayBeOption(f field) bool {
	return !f.known || f.glob && strings.IndexByte("*?[", f.text[0]) >= 0
}

// mayWriteFile reports whether a program that reads its operands may also write a file.
func mayWriteFile(name string, args []field) bool {
	switch name {
	case "sort", "tree", "iconv", "shuf", "less", "file":
		return slices.ContainsFunc(args, func(f field) bool {
			short := len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-'
			return !f.known || short && strings.ContainsAny(f.text, "oOC") || strings.HasPrefix(f.text, "--o") || strings.HasPrefix(f.text, "--l") || strings.HasPrefix(f.text, "--O")
		})
	case "uniq", "xxd", "ptx":
		return len(operands(args)) > 1 || slices.ContainsFunc(args, mayBeOption)
	}
	return false
}

// readArchive reads a program that uses the files in an archive. tar also accepts options
// without a dash, and takes the name of an archive with a colon for a host.
func (r *shellReader) readArchive(name string, args []field) {
	r.add(toolroom.EffectFile, "", "")
	if name != "tar" || len(args) == 0 {
		return
	}
	if f := args[0]; f.known && !strings.HasPrefix(f.text, "-") && strings.ContainsAny(f.text, programLetters[name]) {
		r.addAnyCommand()
	}
	if slices.ContainsFunc(args, func(f field) bool { return !f.known || strings.Contains(f.text, ":") }) {
		r.add(toolroom.EffectHost, "connect", "")
	}
}

// readAssignment reads a builtin that sets variables which the parser does not see.
func (r *shellReader) readAssignment(name string, args []field) {
	switch {
	case name == "let":
		r.addAnyCommand()
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
				r.addAnyCommand() // -i evaluates the value, and -n makes a reference to another variable
			}
			continue
		}
		if variable, _, _ := strings.Cut(f.text, "="); !f.known || !isAssignment(variable+"=") || controlsExecution(variable) {
			r.addAnyCommand()
		}
	}
}

// operands returns the words that are not options.
func operands(args []field) []field {
	var out []field
	ended := false
	for _, f := range args {
		switch {
		case ended || !f.known || f.text == "-" || !strings.HasPrefix(f.text, "-"):
			out = append(out, f)
		case f.text == "--":
			ended = true
		default:
			// --file=x and -ox also name a file. If they do not, this does no harm.
			if at := strings.IndexAny(f.text, "/~"); at > 0 {
				out = append(out, field{text: f.text[at:], known: true})
			}
		}
	}
	return out
}

// readCopy reads programs that copy, move or link files to their last operand.
func (r *shellReader) readCopy(name string, args []field) {
	files := operands(args)
	if len(files) == 0 {
		return
	}
	from, to := files[:len(files)-1], files[len(files)-1]
	if slices.ContainsFunc(args, func(f field) bool {
		return strings.HasPrefix(f.text, "-t") || strings.HasPrefix(f.text, "--target")
	}) {
		// Any of them may be the target folder.
		for _, f := range files {
			r.addFile("write", f)
		}
		from = files
	}
	for _, f := range from {
		r.addFile("read", f)
		if name == "mv" {
			r.addFile("delete", f)
		}
	}
	if name == "ln" {
		r.add(toolroom.EffectFile, "", "") // later commands can use any file through the link
	}
	if name == "rsync" {
		r.readRemoteCopy(files)
		for _, f := range args {
			switch {
			case strings.HasPrefix(f.text, "--del"):
				r.addFile("delete", to)
			case strings.HasPrefix(f.text, "--rem"):
				for _, f := range from {
					r.addFile("delete", f)
				}
			case strings.HasPrefix(f.text, "--da"):
				r.addAnyCommand()
			}
		}
	}
	if slices.ContainsFunc(args, func(f field) bool { return !f.known }) {
		r.add(toolroom.EffectFile, "", "") // it may be several words
	}
	r.addFile("write", to)
}

func (r *shellReader) readDD(args []field) {
	for _, f := range args {
		key, value, _ := strings.Cut(f.text, "=")
		f.text = value
		switch {
		case !f.known:
			r.add(toolroom.EffectFile, "", "")
		case key == "if":
			r.addFile("read", f)
		case key == "of":
			r.addFile("write", f)
		}
	}
}

// readSed reads a script whose commands can run programs and use other files.
func (r *shellReader) readSed(args []field) {
	mode, given := "read", false // given: the script is in an option
	for i, f := range args {
		flag, value, _ := strings.Cut(f.text, "=")
		short := len(flag) > 1 && flag[0] == '-' && flag[1] != '-'
		switch {
		case !f.known, short && strings.Contains(flag, "f"), len(flag) > 2 && strings.HasPrefix("--file", flag):
			r.addAnyCommand()
			mode = ""
		case short && strings.Contains(flag, "e"):
			given = true
			if value = f.text[strings.IndexByte(f.text, 'e')+1:]; value == "" && i+1 < len(args) {
				value = args[i+1].text
			}
			r.readSedScript(value)
		case len(flag) > 2 && strings.HasPrefix("--expression", flag):
			given = true
			if value == "" && i+1 < len(args) {
				value = args[i+1].text
			}
			r.readSedScript(value)
		}
		if mode == "read" && (short && strings.Contains(flag, "i") || len(flag) > 2 && strings.HasPrefix("--in-place", flag)) {
			mode = "write"
			if strings.Contains(f.text, "/") {
				r.add(toolroom.EffectFile, "write", "") // the backup is in another folder
			}
		}
	}
	files := operands(args)
	if !given && len(files) > 0 {
		r.readSedScript(files[0].text)
		files = files[1:]
	}
	for _, f := range files {
		r.addFile(mode, f)
	}
}

// sedSafe matches scripts that only change text: addresses, commands without arguments and
// substitutions.
var sedSafe = pattern.Lazy(`^(?:[ \t\n;{}!]|[0-9]+|\$|,[ ]*[+~]?|~|/(?:[^/\\\n]|\\.)*/[IM]*|[pdqQ=nNgGhHxDPlz]+(?:[ \t;}\n]|$)|` +
	`s/(?:[^/\\\n]|\\.)*/(?:[^/\\]|\\(?s:.))*/[gpiIMm0-9]*(?:[ \t;}\n]|$)|s\|(?:[^|\\\n]|\\.)*\|(?:[^|\\]|\\(?s:.))*\|[gpiIMm0-9]*(?:[ \t;}\n]|$)|` +
	`s#(?:[^#\\\n]|\\.)*#(?:[^#\\]|\\(?s:.))*#[gpiIMm0-9]*(?:[ \t;}\n]|$)|s,(?:[^,\\\n]|\\.)*,(?:[^,\\]|\\(?s:.))*,[gpiIMm0-9]*(?:[ \t;}\n]|$))*$`)

// readSedScript reads a sed script. Unless it only changes text, it may run any program and use
// any file.
func (r *shellReader) readSedScript(script string) {
	if !sedSafe().MatchString(script) {
		r.addAnyCommand()
		r.add(toolroom.EffectFile, "", "")
	}
}

// readAwk reads an awk program, which can start other programs and write files.
func (r *shellReader) readAwk(args []field) {
	words := operands(args)
	fromFile := slices.ContainsFunc(args, func(f field) bool {
		option := len(f.text) > 1 && f.text[0] == '-'
		return mayBeOption(f) || option && !strings.HasPrefix(f.text, "-F") && !strings.HasPrefix(f.text, "-v")
	})
	if fromFile || len(words) == 0 || slices.ContainsFunc(words, func(f field) bool {
		return strings.ContainsAny(f.text, "|@>") || strings.Contains(f.text, "system") || strings.Contains(f.text, "getline") || strings.Contains(f.text, "ARG") || strings.Contains(f.text, "TAB")
	}) {
		r.addAnyCommand()
		return
	}
	for _, f := range words[1:] {
		r.addFile("read", f)
	}
}

// readFind reads the folders that find starts at, and its actions.
func (r *shellReader) readFind(args []field) {
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
			r.addAnyCommand() // it may be -exec
		case f.text == "-delete":
			mode = "delete"
		case slices.Contains([]string{"-fprint", "-fprint0", "-fprintf", "-fls"}, f.text) && i+1 < len(tests):
			r.addFile("write", tests[i+1])
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}, f.text):
			i += r.readFindExec(tests[i+1:])
		}
	}
	for _, f := range folders {
		r.addFile(mode, f)
		if mayBeOption(f) {
			r.addAnyCommand() // it may be -exec
		}
	}
	for _, f := range tests {
		if wordLooksLikePath(f.text) && !strings.HasPrefix(f.text, "-") {
			r.addFile(mode, f) // BSD find accepts folders after options
		}
	}
}

// readFindExec reads the command of find -exec and returns how many words it has.
func (r *shellReader) readFindExec(args []field) int {
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
	anyDir := r.anyDir
	r.anyDir = true // -execdir runs in the folder of each file found
	r.readCommand(command, input{})
	r.anyDir = anyDir
	return end
}

// databaseOptions are the short options of database clients that set how to connect or how to
// format results.
var databaseOptions = map[string]string{
	"psql": "hpUdtAqXxbaenWw1FRPv", "mysql": "hPuDpBNstrvHXE", "mariadb": "hPuDpBNstrvHXE",
}

// readDatabaseClient reads the statements given to a database client. The client's own
// commands, in a statement, a file or the standard input, can run programs and use files.
func (r *shellReader) readDatabaseClient(name string, args []field) {
	hasStatement, lite := false, databaseOptions[name] == ""
	statement := func(f field) {
		hasStatement = true
		found := ReadSQL(f.text)
		if !f.known {
			found = []toolroom.Effect{unknownSQL}
		}
		for _, e := range found {
			r.add(e.Kind, e.Mode, e.Target)
		}
		if slices.Contains(found, unknownSQL) || strings.Contains(f.text, `\`) || lite && sqliteEscapes().MatchString(f.text) {
			r.addAnyCommand() // .shell of sqlite3, \! of psql, system of mysql
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
			r.addAnyCommand()
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
			r.addAnyCommand() // -init, -f and the like name a file of statements
			r.add(toolroom.EffectFile, "", "")
		}
	}
	switch {
	case !lite:
		r.add(toolroom.EffectHost, "connect", "")
	case name == "duckdb":
		r.add(toolroom.EffectFile, "", "") // SQL of DuckDB can name files and URLs
		r.add(toolroom.EffectHost, "", "")
	}
	for i, f := range files {
		if i == 0 && lite {
			r.addFile("write", f)
		} else if lite {
			statement(f)
		}
	}
	if !hasStatement {
		r.add(toolroom.EffectSQL, "", "") // statements come from a file or standard input
		r.addAnyCommand()
	}
}

// sqliteEscapes matches SQL of sqlite3 and duckdb that starts programs, loads code or uses files.
var sqliteEscapes = pattern.Lazy(`(?i)\b(edit|readfile|writefile|load_extension|fsdir|zipfile|sqlar_|attach|vacuum|copy|install|load)`)
