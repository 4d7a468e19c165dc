package effects

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true, "mksh": true, "rbash": true, "rzsh": true, "fish": true, "csh": true, "tcsh": true, "pwsh": true, "powershell": true}

// interprets reports whether a program runs code given as an argument.
func interprets(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return slices.Contains([]string{"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "Rscript", "osascript", "expect", "gdb", "irb", "ghci"}, name)
}

// wrapper is a program that runs another: how its own options end.
type wrapper struct {
	// values are the single-letter options, and long the long ones, that take
	// the next word; operands how many words come before the command.
	values   string
	flags    string // letters that take nothing; any other makes the rest doubtful
	long     []string
	operands int
	// assigns says that NAME=value may stand before the command, text that the
	// command is one word of shell text, and code names the options whose
	// value is shell text.
	assigns, text bool
	code          []string
}

// wrappers are the programs that start what follows them.
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

// opaque are programs that start what follows their options, too, and have so many of these
// that each word may be a command.
var opaque = shellWords("nsenter strace ltrace parallel su runuser script systemd-run firejail bwrap tmux screen entr hyperfine rlwrap proot catchsegv valgrind pkexec run0 setpriv")

func wraps(name string) bool {
	_, ok := wrappers[name]
	return ok
}

// wrapped reads the command behind a wrapper. After an option that is not known
// here, every following word may begin the command.
func (r *shellReader) wrapped(name string, args []field, in input) {
	w := wrappers[name]
	operands, started := w.operands, false
	if name == "chroot" {
		r.add(toolroom.EffectFile, "", "") // its paths are others
	}
	if name == "sudo" || name == "env" || name == "unshare" || name == "chroot" {
		defer func(lost bool) { r.lost = lost }(r.lost)
	}
	replaced := "" // by xargs
	for i := 0; i < len(args); i++ {
		f := args[i]
		option := f.known && len(f.text) > 1 && f.text[0] == '-'
		switch {
		case !f.known:
			r.anyCommand()
			return
		case f.text == "--" && name == "capsh":
			r.shell("sh", args[i+1:], in)
			return
		case f.text == "--", name == "env" && f.text == "-":
		case option:
			flag, value, joined := cutOption(f.text)
			if before, code, ok := w.bundled(flag); ok {
				flag, value, joined = "-"+code, before, before != ""
			}
			if name == "xargs" {
				r.xargsFile(args[i:])
				if text, ok := replacement(args[i:]); ok {
					replaced = text
				}
			}
			if name == "time" && (strings.HasPrefix(flag, "--o") || !strings.HasPrefix(flag, "--") && strings.Contains(flag, "o")) {
				r.add(toolroom.EffectFile, "write", "")
			}
			if strings.HasPrefix(flag, "--") && strings.Contains(flag, "ch") || strings.HasPrefix(flag, "--w") || strings.HasPrefix(flag, "--r") || !strings.HasPrefix(flag, "--") && strings.ContainsAny(flag, "CDRwi") {
				r.lost = true // it starts elsewhere
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
				r.code(field{text: value, known: args[i].known})
				started = true
				continue
			}
			if w.takes(flag, joined) {
				if i++; i < len(args) && strings.HasPrefix(args[i].text, "|") { // strace -o '|command'
					r.anyCommand()
				}
			} else if strings.HasPrefix(flag, "--") && !joined || !strings.HasPrefix(flag, "--") && !w.knows(name, flag) {
				// Whether it takes the next word is not known.
				r.candidates(args[i+1:], in)
				return
			}
		case w.assigns && isAssignment(f.text):
			if variable, _, _ := strings.Cut(f.text, "="); steers(variable) {
				r.anyCommand()
			}
		case w.assigns && strings.Contains(f.text, "="):
			r.anyCommand() // a variable of a strange name, such as an exported function
		case operands > 0:
			operands--
			if name == "flock" {
				r.file("write", f)
			}
		case w.text:
			r.text(args[i:])
			return
		case name == "xargs":
			// It adds words that are not known.
			words := append(slices.Clone(args[i:]), field{text: UnknownProgram})
			for n, word := range words {
				if replaced != "" && strings.Contains(word.text, replaced) {
					words[n] = field{text: UnknownProgram}
				}
			}
			r.command(words, in)
			return
		default:
			r.command(args[i:], in)
			return
		}
	}
	if !started && !slices.Contains([]string{"env", "exec", "command", "nohup", "time", "nice", "eval", "xargs", "builtin", "busybox", "toybox"}, name) {
		r.anyCommand() // sudo -s, su, unshare: a shell of its own
	}
}

// bundled takes the code option out of a bundle such as -vS'text': its letter, and the text
// after it, which is empty if that is the next word.
func (w wrapper) bundled(flag string) (value, letter string, ok bool) {
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

// knows reports whether the letters of an option are known, up to the first that takes the rest
// of it or the next word.
func (w wrapper) knows(name, flag string) bool {
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

// replacement returns the text that xargs replaces by what it reads.
func replacement(args []field) (text string, ok bool) {
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

// opaque reads each word as the beginning of a command, or as shell text.
func (r *shellReader) opaque(args []field, in input) {
	for i, f := range args {
		switch {
		case r.full:
			return
		case !f.known || strings.HasPrefix(f.text, "-"):
		case strings.ContainsAny(f.text, " \t\n"):
			r.script(f.text)
		default:
			r.command(args[i:], in)
		}
	}
	r.unknown(args)
}

// xargsFile notes the file that xargs reads its words from.
func (r *shellReader) xargsFile(args []field) {
	flag := args[0].text
	switch {
	case strings.HasPrefix(flag, "--arg-file="):
		r.file("read", field{text: flag[len("--arg-file="):], known: true})
	case strings.HasPrefix(flag, "-a") && len(flag) > 2:
		r.file("read", field{text: flag[2:], known: true})
	case (flag == "-a" || flag == "--arg-file") && len(args) > 1:
		r.file("read", args[1])
	}
}

// takes reports whether an option takes the next word.
func (w wrapper) takes(flag string, joined bool) bool {
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

// cutOption takes --name=value and -Svalue apart.
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

// candidates reads every word as the possible beginning of a command.
func (r *shellReader) candidates(args []field, in input) {
	for i := range args {
		if r.full {
			return
		}
		if f := args[i]; f.known && !strings.HasPrefix(f.text, "-") {
			r.command(args[i:], in)
		}
	}
	r.anyCommand()
}

// code reads a word as shell text.
func (r *shellReader) code(f field) {
	if !f.known {
		r.anyCommand()
		return
	}
	r.script(f.text)
}

// text reads words that are joined to shell text, as eval does.
func (r *shellReader) text(args []field) {
	words := make([]string, len(args))
	for i, f := range args {
		if !f.known {
			r.anyCommand()
			return
		}
		words[i] = f.text
	}
	r.script(strings.Join(words, " "))
}

// shell reads what a shell is told to run.
func (r *shellReader) shell(name string, args []field, in input) {
	if !slices.Contains([]string{"sh", "bash", "dash", "ash", "rbash"}, name) {
		r.anyCommand() // its language is another
	}
	script := false
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.anyCommand()
			return
		case f.text == "--":
		case len(f.text) > 1 && (f.text[0] == '-' || f.text[0] == '+'):
			bundle := !strings.HasPrefix(f.text, "--")
			script = script || bundle && f.text[0] == '-' && strings.Contains(f.text, "c") || f.text == "--command"
			if bundle && strings.ContainsAny(f.text[len(f.text)-1:], "oO") || f.text == "--rcfile" || f.text == "--init-file" {
				i++
			}
			if strings.Contains(f.text, "file") { // --rcfile, --init-file
				r.anyCommand()
			}
		case script:
			r.code(f)
			return
		default:
			r.file("read", f)
			r.anyCommand() // what the file says is not read
			return
		}
	}
	if in.given && !script {
		r.code(in.text)
		return
	}
	r.anyCommand() // it reads its commands from elsewhere
}

// interpreter reads a program whose code may stand on the command line.
func (r *shellReader) interpreter(name string, args []field, in input) {
	if len(args) == 1 && slices.Contains([]string{"--version", "--help", "-V"}, args[0].text) && slices.Contains([]string{"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php"}, strings.TrimRight(name, "0123456789.")) {
		return
	}
	for _, f := range args {
		if f.known && !strings.HasPrefix(f.text, "-") && !in.given && isPlainFile(f.text) {
			r.file("read", f)
			break // what the file says is not read
		}
		if !f.known || !strings.HasPrefix(f.text, "-") || !harmless(f.text) {
			break
		}
	}
	r.anyCommand()
}

// isPlainFile tells the name of a script from code.
func isPlainFile(text string) bool {
	return !strings.ContainsAny(text, " \t\n(){};'\"`$|")
}

// harmless options come before the name of a script.
func harmless(option string) bool {
	return slices.Contains([]string{"-u", "-B", "-E", "-I", "-s", "-w", "-W", "-q", "-v"}, option)
}

// remote reads what ssh runs elsewhere, by the same rules as here.
func (r *shellReader) remote(args []field) {
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case !f.known:
			r.add(toolroom.EffectHost, "connect", "")
			r.anyCommand()
			return
		case len(f.text) > 1 && f.text[0] == '-':
			if strings.ContainsAny(f.text, "oOF") {
				r.anyCommand() // -o ProxyCommand=…
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
			r.host("connect", strings.TrimPrefix(host, "ssh://"), "22")
			if i+1 < len(args) {
				r.text(args[i+1:])
			} else {
				r.anyCommand() // it reads its commands
			}
			return
		}
	}
}
