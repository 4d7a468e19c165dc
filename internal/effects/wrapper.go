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
	"sudo":        {values: "ugpCTrtRDUh", long: []string{"--user", "--group", "--prompt", "--close-from", "--chroot", "--chdir", "--role", "--type", "--host", "--other-user", "--command-timeout"}, assigns: true},
	"doas":        {values: "uC"},
	"pkexec":      {long: []string{"--user"}},
	"run0":        {long: []string{"--user"}},
	"env":         {values: "uC", long: []string{"--unset", "--chdir"}, assigns: true, code: []string{"-S", "--split-string"}},
	"nohup":       {},
	"setsid":      {},
	"command":     {},
	"builtin":     {},
	"exec":        {values: "a"},
	"coproc":      {},
	"time":        {values: "fo"},
	"nice":        {values: "n", long: []string{"--adjustment"}},
	"ionice":      {values: "cnpPu", long: []string{"--class", "--classdata"}},
	"chrt":        {operands: 1},
	"taskset":     {operands: 1},
	"timeout":     {values: "ks", long: []string{"--kill-after", "--signal"}, operands: 1},
	"stdbuf":      {values: "ioe"},
	"unbuffer":    {},
	"chroot":      {operands: 1},
	"unshare":     {values: "SGRw"},
	"nsenter":     {values: "tSG"},
	"setpriv":     {},
	"capsh":       {},
	"strace":      {values: "eopsuEaIbOPSX"},
	"ltrace":      {values: "eopsuaFln"},
	"watch":       {values: "n", long: []string{"--interval"}, text: true},
	"flock":       {values: "wE", operands: 1, code: []string{"-c", "--command"}},
	"xargs":       {values: "ILnPsadE", long: []string{"--max-args", "--max-procs", "--arg-file", "--delimiter", "--replace", "--max-lines", "--max-chars"}},
	"parallel":    {values: "jaINnLS", text: true},
	"busybox":     {},
	"toybox":      {},
	"su":          {values: "sgGw", operands: 1, code: []string{"-c", "--command"}},
	"runuser":     {values: "ugsGw", code: []string{"-c", "--command"}},
	"script":      {values: "ItTEO", operands: 1, code: []string{"-c", "--command"}},
	"eval":        {text: true},
	"caffeinate":  {},
	"systemd-run": {values: "puEMHt"},
	"firejail":    {},
	"bwrap":       {},
	"tmux":        {values: "Lfct", text: true},
	"screen":      {values: "Stc"},
	"entr":        {},
	"hyperfine":   {text: true},
	"rlwrap":      {},
	"proot":       {},
	"catchsegv":   {},
	"valgrind":    {},
}

func wraps(name string) bool {
	_, ok := wrappers[name]
	return ok
}

// wrapped reads the command behind a wrapper. After an option that is not known
// here, every following word may begin the command.
func (r *shellReader) wrapped(name string, args []field, in input) {
	w := wrappers[name]
	operands, started := w.operands, false
	for i := 0; i < len(args); i++ {
		f := args[i]
		option := f.known && len(f.text) > 1 && f.text[0] == '-'
		switch {
		case !f.known:
			r.anyCommand()
			return
		case f.text == "--" && name == "capsh":
			r.shell(args[i+1:], in)
			return
		case f.text == "--", (name == "su" || name == "env") && f.text == "-":
		case option:
			flag, value, joined := cutOption(f.text)
			if before, code, ok := w.bundled(flag); ok {
				flag, value, joined = "-"+code, before, before != ""
			}
			if name == "xargs" {
				r.xargsFile(args[i:])
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
			} else if strings.HasPrefix(flag, "--") && !joined {
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
		case w.text:
			r.text(args[i:])
			return
		case name == "xargs":
			// It adds words that are not known.
			r.command(append(slices.Clone(args[i:]), field{text: UnknownProgram}), in)
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
func (r *shellReader) shell(args []field, in input) {
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
func (r *shellReader) interpreter(args []field, in input) {
	for _, f := range args {
		if f.known && !strings.HasPrefix(f.text, "-") && !in.given && isPlainFile(f.text) {
			r.file("read", f)
			break // what the file says is not read
		}
		if !f.known || !strings.HasPrefix(f.text, "-") || !harmless(f.text) {
			break
		}
		if f.text == "--version" || f.text == "-V" || f.text == "--help" {
			return
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
	return slices.Contains([]string{"-u", "-B", "-E", "-I", "-s", "-w", "-W", "-q", "-v", "-V", "--version", "--help"}, option)
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
			if len(f.text) == 2 && strings.ContainsAny(f.text[1:], "BbcDEeFIiJLlmOoPpRSWw") {
				i++
			}
		default:
			host := f.text[strings.LastIndexByte(f.text, '@')+1:]
			r.host("connect", strings.TrimPrefix(host, "ssh://"), "22")
			if i+1 < len(args) {
				r.text(args[i+1:])
			}
			return
		}
	}
}
