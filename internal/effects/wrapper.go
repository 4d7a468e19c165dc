package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true, "mksh": true, "rbash": true, "rzsh": true, "fish": true, "csh": true, "tcsh": true, "pwsh": true, "powershell": true}

// isInterpreter reports whether a program runs code that it gets as an argument.
func isInterpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return slices.Contains([]string{"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "Rscript", "osascript", "expect", "gdb", "irb", "ghci"}, name)
}

// wrapper describes the options of a program that runs another, so that the command of the
// other program can be found.
type wrapper struct {
	// values are the short options that take the next word, long the long options that do,
	// and operands how many words precede the command.
	values   string
	flags    string // short options without a value; after any other the command is doubtful
	long     []string
	operands int
	// assigns means that NAME=value may precede the command, text that the command is shell
	// code, and code are the options whose value is shell code.
	assigns, text bool
	code          []string
}

// wrappers are the programs that run the command that follows their options.
var wrappers = map[string]wrapper{
	"sudo":       {flags: "AbBHiKklNnPSsVv", values: "ugpCTrtRDUh", long: []string{"--user", "--group", "--prompt", "--close-from", "--chroot", "--chdir", "--role", "--type", "--host", "--other-user", "--command-timeout"}, assigns: true},
	"doas":       {flags: "Lns", values: "uC"},
	"env":        {flags: "i0v", values: "uC", long: []string{"--unset", "--chdir"}, assigns: true, code: []string{"-S", "--split-string"}},
	"nohup":      {},
	"setsid":     {flags: "cfw"},
	"command":    {flags: "pvV"},
	"builtin":    {},
	"exec":       {flags: "cl", values: "a"},
	"coproc":     {},
	"time":       {flags: "pvaqV", values: "fo"},
	"nice":       {flags: "0123456789", values: "n", long: []string{"--adjustment"}},
	"ionice":     {flags: "t", values: "cnpPu", long: []string{"--class", "--classdata"}},
	"chrt":       {flags: "abdfiormRpv", values: "TPD", operands: 1},
	"taskset":    {flags: "acp", operands: 1},
	"timeout":    {flags: "vfp", values: "ks", long: []string{"--kill-after", "--signal"}, operands: 1},
	"stdbuf":     {values: "ioe"},
	"unbuffer":   {flags: "p"},
	"chroot":     {operands: 1},
	"unshare":    {flags: "muinpUCTfrc", values: "SGRw"},
	"capsh":      {},
	"watch":      {flags: "bcdegtxrwpC", values: "nq", long: []string{"--interval"}, text: true},
	"flock":      {flags: "sxeunFov", values: "wE", operands: 1, code: []string{"-c", "--command"}},
	"xargs":      {flags: "0prtxoiel", values: "ILnPsadE", long: []string{"--max-args", "--max-procs", "--arg-file", "--delimiter", "--replace", "--max-lines", "--max-chars"}},
	"busybox":    {},
	"toybox":     {},
	"eval":       {text: true},
	"caffeinate": {flags: "disu", values: "tw"},
}

// opaqueWrappers are wrappers with so many options that any word may begin the command.
var opaqueWrappers = shellWords("nsenter strace ltrace parallel su runuser script systemd-run firejail bwrap tmux screen entr hyperfine rlwrap proot catchsegv valgrind pkexec run0 setpriv")

func isWrapper(name string) bool {
	_, ok := wrappers[name]
	return ok
}

// readWrapped reads the command that a wrapper runs. After an unknown option, every word may
// begin the command.
func (r *shellReader) readWrapped(name string, args []field, in input) {
	w := wrappers[name]
	operands, started := w.operands, false
	if name == "chroot" {
		r.add(toolroom.EffectFile, "", "") // its paths have another root
	}
	if name == "sudo" || name == "env" || name == "unshare" || name == "chroot" {
		defer func(anyDir bool) { r.anyDir = anyDir }(r.anyDir)
	}
	replaced := "" // by xargs
	for i := 0; i < len(args); i++ {
		f := args[i]
		option := f.known && len(f.text) > 1 && f.text[0] == '-'
		switch {
		case !f.known:
			r.addAnyCommand()
			return
		case f.text == "--" && name == "capsh":
			r.readShellProgram("sh", args[i+1:], in)
			return
		case f.text == "--", name == "env" && f.text == "-":
		case option:
			flag, value, joined := cutOption(f.text)
			if before, code, ok := w.cutBundledCode(flag); ok {
				flag, value, joined = "-"+code, before, before != ""
			}
			if name == "xargs" {
				r.addXargsFile(args[i:])
				if text, ok := xargsReplacement(args[i:]); ok {
					replaced = text
				}
			}
			if name == "time" && (strings.HasPrefix(flag, "--o") || !strings.HasPrefix(flag, "--") && strings.Contains(flag, "o")) {
				r.add(toolroom.EffectFile, "write", "")
			}
			if strings.HasPrefix(flag, "--") && strings.Contains(flag, "ch") || strings.HasPrefix(flag, "--w") || strings.HasPrefix(flag, "--r") || !strings.HasPrefix(flag, "--") && strings.ContainsAny(flag, "CDRwi") {
				r.anyDir = true // it starts in another folder
			}
			if strings.HasPrefix(flag, "--ro") || strings.HasPrefix(flag, "--chr") || !strings.HasPrefix(flag, "--") && strings.Contains(flag, "R") {
				r.add(toolroom.EffectFile, "", "") // with another root
			}
			if name == "command" && strings.ContainsAny(flag, "vV") {
				return // it only looks the command up
			}
			if slices.Contains(w.code, flag) {
				if !joined && i+1 < len(args) {
					i++
					value = args[i].text
				}
				r.readCode(field{text: value, known: args[i].known})
				started = true
				continue
			}
			if w.takesNext(flag, joined) {
				if i++; i < len(args) && strings.HasPrefix(args[i].text, "|") { // strace -o '|command'
					r.addAnyCommand()
				}
			} else if strings.HasPrefix(flag, "--") && !joined || !strings.HasPrefix(flag, "--") && !w.knowsLetters(name, flag) {
				// Whether it takes the next word is unknown.
				r.readCandidates(args[i+1:], in)
				return
			}
		case w.assigns && isAssignment(f.text):
			if variable, _, _ := strings.Cut(f.text, "="); controlsExecution(variable) {
				r.addAnyCommand()
			}
		case w.assigns && strings.Contains(f.text, "="):
			r.addAnyCommand() // a variable with an unusual name, such as an exported function
		case operands > 0:
			operands--
			if name == "flock" {
				r.addFile("write", f)
			}
		case w.text:
			r.readJoined(args[i:])
			return
		case name == "xargs":
			// xargs appends unknown words.
			words := append(slices.Clone(args[i:]), field{text: UnknownProgram})
			for n, word := range words {
				if replaced != "" && strings.Contains(word.text, replaced) {
					words[n] = field{text: UnknownProgram}
				}
			}
			r.readCommand(words, in)
			return
		default:
			r.readCommand(args[i:], in)
			return
		}
	}
	if !started && !slices.Contains([]string{"env", "exec", "command", "nohup", "time", "nice", "eval", "xargs", "builtin", "busybox", "toybox"}, name) {
		r.addAnyCommand() // sudo -s, su, unshare: a shell of its own
	}
}

// cutBundledCode finds a code option in a bundle such as -vS'text'. It returns the option's
// letter and the text after it, which is empty if the next word is the code.
func (w wrapper) cutBundledCode(flag string) (value, letter string, ok bool) {
	if strings.HasPrefix(flag, "--") || len(flag) < 3 {
		return "", "", false
	}
	for i := 1; i < len(flag); i++ {
		if slices.Contains(w.code, "-"+flag[i:i+1]) {
			return flag[i+1:], flag[i : i+1], true
		}
		if strings.IndexByte(w.values, flag[i]) >= 0 {
			return "", "", false
		}
	}
	return "", "", false
}

// knowsLetters reports whether the letters of a bundle of short options are known, up to the
// first that takes a value.
func (w wrapper) knowsLetters(name, flag string) bool {
	for _, letter := range flag[1:] {
		switch {
		case strings.ContainsRune(w.values, letter), name == "xargs" && strings.ContainsRune("iel", letter):
			return true
		case !strings.ContainsRune(w.flags, letter):
			return false
		}
	}
	return true
}

// xargsReplacement returns the text that xargs replaces by the lines it reads, if the first of
// args sets one.
func xargsReplacement(args []field) (text string, ok bool) {
	flag := args[0].text
	switch value, joined := strings.CutPrefix(flag, "--replace="); {
	case joined:
		return value, true
	case strings.HasPrefix(flag, "--r"), flag == "-i":
		return "{}", true
	case strings.HasPrefix(flag, "--"):
		return "", false
	}
	at := strings.IndexAny(flag, "IiJ")
	if at < 0 {
		return "", false
	}
	if flag[at+1:] != "" {
		return flag[at+1:], true
	}
	if len(args) > 1 && flag[at] != 'i' {
		return args[1].text, true
	}
	return "{}", true
}

// readOpaque reads each word as the beginning of a command, or as shell code.
func (r *shellReader) readOpaque(args []field, in input) {
	for i, f := range args {
		switch {
		case r.full:
			return
		case !f.known || strings.HasPrefix(f.text, "-"):
		case strings.ContainsAny(f.text, " \t\n"):
			r.readScript(f.text)
		default:
			r.readCommand(args[i:], in)
		}
	}
	r.addUnknownProgram(args)
}

// addXargsFile adds the file from which xargs reads its words.
func (r *shellReader) addXargsFile(args []field) {
	flag := args[0].text
	switch {
	case strings.HasPrefix(flag, "--arg-file="):
		r.addFile("read", field{text: flag[len("--arg-file="):], known: true})
	case strings.HasPrefix(flag, "-a") && len(flag) > 2:
		r.addFile("read", field{text: flag[2:], known: true})
	case (flag == "-a" || flag == "--arg-file") && len(args) > 1:
		r.addFile("read", args[1])
	}
}

// takesNext reports whether an option takes the next word as its value.
func (w wrapper) takesNext(flag string, joined bool) bool {
	switch {
	case joined:
		return false
	case strings.HasPrefix(flag, "--"):
		return slices.Contains(w.long, flag)
	default: // -u, or a bundle that ends with it
		last := flag[len(flag)-1]
		first := strings.IndexAny(flag[1:], w.values)
		return first >= 0 && first == len(flag)-2 && strings.IndexByte(w.values, last) >= 0
	}
}

// cutOption splits --name=value and -Svalue.
func cutOption(text string) (flag, value string, joined bool) {
	if strings.HasPrefix(text, "--") {
		return strings.Cut(text, "=")
	}
	if (strings.HasPrefix(text, "-S") || strings.HasPrefix(text, "-c")) && len(text) > 2 {
		return text[:2], text[2:], true
	}
	return text, "", false
}

func isAssignment(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// readCandidates reads every word as a possible beginning of a command.
func (r *shellReader) readCandidates(args []field, in input) {
	for i := range args {
		if r.full {
			return
		}
		if f := args[i]; f.known && !strings.HasPrefix(f.text, "-") {
			r.readCommand(args[i:], in)
		}
	}
	r.addAnyCommand()
}

// readCode reads a word as shell code.
func (r *shellReader) readCode(f field) {
	if !f.known {
		r.addAnyCommand()
		return
	}
	r.readScript(f.text)
}

// readJoined reads words joined by spaces as shell code, as eval does.
func (r *shellReader) readJoined(args []field) {
	words := make([]string, len(args))
	for i, f := range args {
		if !f.known {
			r.addAnyCommand()
			return
		}
		words[i] = f.text
	}
	r.readScript(strings.Join(words, " "))
}

// readShellProgram reads the command line of a shell.
func (r *shellReader) readShellProgram(name string, args []field, in input) {
	if !slices.Contains([]string{"sh", "bash", "dash", "ash", "rbash"}, name) {
		r.addAnyCommand() // its syntax differs
	}
	script := false
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.addAnyCommand()
			return
		case f.text == "--":
		case len(f.text) > 1 && (f.text[0] == '-' || f.text[0] == '+'):
			bundle := !strings.HasPrefix(f.text, "--")
			script = script || bundle && f.text[0] == '-' && strings.Contains(f.text, "c") || f.text == "--command"
			if bundle && strings.ContainsAny(f.text[len(f.text)-1:], "oO") || f.text == "--rcfile" || f.text == "--init-file" {
				i++
			}
			if strings.Contains(f.text, "file") { // --rcfile, --init-file
				r.addAnyCommand()
			}
		case script:
			r.readCode(f)
			return
		default:
			r.addFile("read", f)
			r.addAnyCommand() // the content of the file is unknown
			return
		}
	}
	if in.given && !script {
		r.readCode(in.text)
		return
	}
	r.addAnyCommand() // it reads its commands from an unknown input
}

// readInterpreter reads the command line of an interpreter, which may contain its code.
func (r *shellReader) readInterpreter(name string, args []field, in input) {
	if len(args) == 1 && slices.Contains([]string{"--version", "--help", "-V"}, args[0].text) && slices.Contains([]string{"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php"}, strings.TrimRight(name, "0123456789.")) {
		return
	}
	for _, f := range args {
		if f.known && !strings.HasPrefix(f.text, "-") && !in.given && isScriptName(f.text) {
			r.addFile("read", f)
			break // the content of the file is unknown
		}
		if !f.known || !strings.HasPrefix(f.text, "-") || !isHarmlessOption(f.text) {
			break
		}
	}
	r.addAnyCommand()
}

// isScriptName reports whether text is the name of a script, not code.
func isScriptName(text string) bool {
	return !strings.ContainsAny(text, " \t\n(){};'\"`$|")
}

// isHarmlessOption reports whether an interpreter's option runs no code, so that the name of a
// script may follow it.
func isHarmlessOption(option string) bool {
	return slices.Contains([]string{"-u", "-B", "-E", "-I", "-s", "-w", "-W", "-q", "-v"}, option)
}

// readSSH reads the command line of ssh. It reads the remote command like a local one.
func (r *shellReader) readSSH(args []field) {
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.add(toolroom.EffectHost, "connect", "")
			r.addAnyCommand()
			return
		case len(f.text) > 1 && f.text[0] == '-':
			if strings.ContainsAny(f.text, "oOF") {
				r.addAnyCommand() // -o ProxyCommand=…
			}
			if strings.ContainsAny(f.text, "JWLRDw") {
				r.add(toolroom.EffectHost, "connect", "")
			}
			if strings.ContainsAny(f.text, "EiS") {
				r.add(toolroom.EffectFile, "", "")
			}
			if len(f.text) == 2 && strings.ContainsAny(f.text[1:], "BbcDEeFIiJLlmOoPpRSWw") {
				i++
			}
		default:
			host := f.text[strings.LastIndexByte(f.text, '@')+1:]
			r.addHost("connect", strings.TrimPrefix(host, "ssh://"), "22")
			if i+1 < len(args) {
				r.readJoined(args[i+1:])
			} else {
				r.addAnyCommand() // the remote shell reads commands from standard input
			}
			return
		}
	}
}
